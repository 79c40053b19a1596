"""What the installed engine says of itself, its version and its flags, against what is asked of it."""

from collections.abc import Iterator

from state.engines.engine import Engine
from state.engines.rendering import rendering_for
from state.revision import Revision
from tasks.hosts.port import Argv, Completed, Host
from tasks.sequence import READ_TIMEOUT_S

HELP_TIMEOUT_S = 120.0
"""SGLang takes about 20 s to print its help (seen with 0.5.17)."""


async def installed_version(host: Host, engine: Engine, revision: Revision) -> str | None:
    """What the engine makes of the answer to its `version_argv`; None where it has none, or that failed."""
    version = engine.version_argv(revision.argv)
    if version is None:
        return None
    (said,) = await host.run_all([Argv(version)], timeout_s=READ_TIMEOUT_S)
    return engine.read_version(said.text, said.stderr.decode("utf-8", "replace")) if said.ok else None


async def help_of(host: Host, engine: Engine, revision: Revision) -> Completed | None:
    """What the installed engine says of its flags, in the first way of asking that it understands; None for an engine
    whose arguments are not rendered here."""
    rendering = rendering_for(revision.engine)
    if rendering is None:
        return None
    words = rendering.render_arguments(revision.arguments, revision.argv)
    ways = engine.help_argvs(revision.argv[: len(revision.argv) - len(words)])
    for way in ways[:-1]:
        (said,) = await host.run_all([Argv(way)], timeout_s=HELP_TIMEOUT_S)
        if said.ok:
            return said
    (said,) = await host.run_all([Argv(ways[-1])], timeout_s=HELP_TIMEOUT_S)
    return said


def flag_refusals(revision: Revision, help_: Completed | None, host: str) -> list[str]:
    """Flags that the installed engine's own help does not name."""
    rendering = rendering_for(revision.engine)
    if rendering is None or help_ is None:
        return []
    if not help_.ok:
        said = help_.stderr.decode("utf-8", "replace").strip().splitlines()
        return [f"engine.command: its --help exited {help_.status} on {host}: {said[-1] if said else 'no output'}"]
    unknown = rendering.unknown_flags(revision.argv, help_.text)
    return [
        f"engine.arguments: the installed engine on {host} does not accept {u.flag}"
        + (f"; {u.suggestion}" if u.suggestion else "")
        for u in unknown
    ]


def version_refusals(revision: Revision, version: str | None) -> Iterator[str]:
    rendering = rendering_for(revision.engine)
    if version and rendering is not None:
        for mistake in rendering.argument_mistakes(revision.arguments, version):
            where = f"engine.arguments.{mistake.name}" if mistake.name else "engine.arguments"
            yield f"{where}: {mistake.sentence} ({version} is installed)"
    if revision.engine_version and version and revision.engine_version != version:
        yield f"engine.version: {revision.engine_version} is expected, {version} is installed"
