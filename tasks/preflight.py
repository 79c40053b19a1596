"""Preflight: everything that can refuse a rollout before it touches anything, all refusals at once."""

from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass

from state import checkpoint
from state.drop_ins import in_force, overridden
from state.engines.engine import Engine
from state.engines.rendering import files_read, rendering_for
from state.observation import Observation
from state.plan import Plan
from state.revision import Revision
from tasks import argv
from tasks.api_key import key_refusals
from tasks.checkpoint import read_loading
from tasks.driver_preflight import driver_refusals
from tasks.endpoint import Endpoint
from tasks.engine_preflight import flag_refusals, help_of, installed_version, version_refusals
from tasks.gpu_preflight import boot_doubts, boot_refusals, gpu_refusals
from tasks.hosts.port import Argv, Completed, Host
from tasks.port_range import port_doubts
from tasks.properties import listeners_of, pids_of
from tasks.sequence import READ_TIMEOUT_S
from tasks.together import together

DISK_BYTES = 64 * 1024 * 1024
SYSTEMD = 240
"""Type=exec units, which show a program that cannot be run at its start, came with systemd 240."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """Sentences for what holds, for what is worth a look, and for what refuses."""

    checks: tuple[str, ...]
    warnings: tuple[str, ...]
    refusals: tuple[str, ...]
    engine_version: str | None


async def preflight(
    host: Host,
    gpu_host: Host | None,
    engine: Engine,
    revision: Revision,
    plan: Plan,
    observing: Awaitable[Observation],
    loaded: Awaitable[float | None],
) -> Preflight:
    """Reads only, and asks everything at the same time that needs no other answer. Raises what the Host port raises;
    refusals are returned, never raised, so that all are told.

    `observing` brings what the plan rests on, `loaded` the GB that an earlier start of the same model loaded on each
    GPU, None where that is not known."""
    loading = engine.loading(revision.arguments)
    async with together() as group:
        on_gpus = group.create_task(_on_gpu_host(gpu_host, revision, plan))
        helping = group.create_task(help_of(host, engine, revision))
        telling = group.create_task(installed_version(host, engine, revision))
        driver = group.create_task(driver_refusals(host))
        reading = group.create_task(read_loading(host, loading))
        ports = group.create_task(port_doubts(host, revision))
        keys = group.create_task(key_refusals(host, revision, plan))
        answers = await _answers(host, revision)
        observed = await observing
        async with together() as further:
            variables = further.create_task(_variables(host, revision, answers))
            holding = further.create_task(_ports(host, revision, observed, answers))
            reading_drop_ins = further.create_task(_drop_ins(host, observed, answers))
        async with Endpoint(host, revision.endpoint):
            pass  # loads what HTTP takes, 40 ms, while the engine is still telling; nothing is asked
        loaded_gb = await loaded
    drop_ins, version = reading_drop_ins.result(), telling.result()
    known, gpus = reading.result()
    gpus = () if plan.gpus else gpus  # others will be there once they are moved
    gpu_refused, gpu_doubts = on_gpus.result()
    refusals = (
        *_system(answers, host.name),
        *_paths(answers, revision, host.name),
        *(flag_refusals(revision, helping.result(), host.name) if answers["engine"].ok else ()),
        *holding.result(),
        *_unit(revision, observed, answers),
        *(sentence for path, read in drop_ins.items() for sentence in _against(revision, path, read)),
        *variables.result(),
        *keys.result(),
        *version_refusals(revision, version),
        *driver.result(),
        *checkpoint.refusals(loading, known, gpus, host.name),
        *gpu_refused,
    )
    checks = (
        *_checks(revision, version, len(plan.gpus), host.name),
        checkpoint.fit(loading, known, gpus, loaded_gb),
    )
    doubts = (*checkpoint.doubts(loading, known, loaded_gb), *ports.result(), *gpu_doubts)
    return Preflight(checks, (*_warnings(observed, drop_ins), *doubts), refusals, version)


async def _on_gpu_host(host: Host | None, revision: Revision, plan: Plan) -> tuple[list[str], list[str]]:
    """Refusals and doubts; none without a GPU host."""
    if host is None:
        return [], []
    async with together() as group:
        moving = group.create_task(gpu_refusals(host, plan)) if plan.gpus else None
        booting = group.create_task(boot_refusals(host, plan))
        kept = group.create_task(boot_doubts(host, revision)) if revision.drivers else None
    return [*(moving.result() if moving else ()), *booting.result()], kept.result() if kept else []


async def _answers(host: Host, revision: Revision) -> dict[str, Completed]:
    """To `_questions`."""
    asked = _questions(revision)
    return dict(zip(asked, await host.run_all(list(asked.values()), timeout_s=READ_TIMEOUT_S), strict=True))


def _questions(revision: Revision) -> dict[str, Argv]:
    asked: dict[str, Argv] = {
        "root": Argv(("true",), root=True),
        "systemd": Argv(("systemctl", "--version")),
        "disk": argv.free_bytes("/var/lib"),
        "engine": argv.executable(revision.argv[0]),
        "port": argv.listeners(revision.port),
        "drop-ins": argv.drop_ins(revision.unit),
        "link": argv.is_link(revision.files[0].path),
    }
    asked |= {f"path:{name}": argv.exists(path) for name, path in _local(revision).items()}
    return asked | {f"file:{path}": Argv(("test", "-f", path), root=True) for _, path in _files(revision)}


def _files(revision: Revision) -> list[tuple[str, str]]:
    """What names a file that systemd or the engine reads at each start, and its path, where maybe only root looks."""
    read = files_read(revision.engine, revision.arguments)
    named = [(f"engine.arguments.{name}", path) for name, path in read]
    return [*named, *(("unit.secrets", path) for path in revision.secrets)]


def _local(revision: Revision) -> dict[str, str]:
    """Models in folders of the host, by the argument that names them."""
    rendering = rendering_for(revision.engine)
    paths = rendering.model_paths(revision.arguments) if rendering else {}
    return {name: path for name, path in paths.items() if path.startswith("/")}


def _system(answers: dict[str, Completed], host: str) -> Iterator[str]:
    first = answers["systemd"].text.split()
    number = int(first[1]) if len(first) > 1 and first[1].isdigit() else 0
    if number < SYSTEMD:
        yield f"{host} has systemd {number or 'of no known version'}; {SYSTEMD} or later is needed"
    free = answers["disk"].text.split()
    if free and free[-1].isdigit() and int(free[-1]) < DISK_BYTES:
        yield f"/var/lib on {host} has {int(free[-1]) // 1024} KiB free; {DISK_BYTES // 1024 // 1024} MiB are needed"


def _paths(answers: dict[str, Completed], revision: Revision, host: str) -> Iterator[str]:
    if not answers["engine"].ok:
        yield f"engine.command: {revision.argv[0]} is not an executable file on {host}"
    for name, path in _local(revision).items():
        if not answers[f"path:{name}"].ok:
            yield f"engine.arguments.{name}: {path} does not exist on {host}"
    for named_by, path in _files(revision):
        if not answers[f"file:{path}"].ok:
            yield f"{named_by}: {path} does not exist on {host}, or is no file"


async def _ports(host: Host, revision: Revision, observed: Observation, answers: dict[str, Completed]) -> list[str]:
    """The endpoint's port must be free, or held by a process of this unit."""
    holders = listeners_of(answers["port"].text)
    if not holders:
        return []
    group = observed.unit.control_group
    members: set[int] = {observed.unit.main_pid}
    if group:
        (read,) = await host.run_all([argv.control_group(group)], timeout_s=READ_TIMEOUT_S)
        members |= set(pids_of(read.text))
    strangers = [(name, pid) for name, pid in holders if pid not in members]
    if not strangers:
        return []
    places = await host.run_all([argv.process_group(pid) for _, pid in strangers], timeout_s=READ_TIMEOUT_S)
    named = [
        f"{name or 'a process'} (PID {pid}{_place(read)})" for (name, pid), read in zip(strangers, places, strict=True)
    ]
    said = f"port {revision.port} on {host.name} is held by {', '.join(named)}, which is not of {revision.unit}"
    return [said + (OUTSIDE if observed.unit.active and not {pid for _, pid in holders} & members else "")]


OUTSIDE = (
    ": an engine that the unit starts outside of its own cgroup, as `docker run` does, ends by no stop of the unit, "
    "so its stop could not be proven"
)


def _place(group: Completed) -> str:
    """The control group of a process, of a line such as `0::/docker/4f5e` (cgroup2)."""
    place = group.text.strip().rpartition("::")[2]
    return f" in {place}" if place else ""


def _unit(revision: Revision, observed: Observation, answers: dict[str, Completed]) -> Iterator[str]:
    if observed.unit.load_state == "masked":
        yield f"{revision.unit} is masked; unmask it first"
    elif answers["link"].ok:
        yield f"{revision.files[0].path} is a link, which a rollback would not give back; put the file itself there"


async def _drop_ins(host: Host, observed: Observation, answers: dict[str, Completed]) -> dict[str, Completed]:
    """Path -> content of those that systemd has read, and of those that it will read with the new unit file."""
    found = in_force(answers["drop-ins"].text.splitlines())
    paths = list(dict.fromkeys((*found, *observed.unit.drop_ins)))
    texts = await host.run_all([argv.cat_as_root(path) for path in paths], timeout_s=READ_TIMEOUT_S) if paths else ()
    return dict(zip(paths, texts, strict=True))


def _against(revision: Revision, path: str, read: Completed) -> Iterator[str]:
    if not read.ok and "No such file" not in (said := read.stderr.decode("utf-8", "replace").strip()):
        yield f"the drop-in {path} cannot be read: {said}"
    if told := overridden(revision.unit, revision.files[0].content, read.text):
        yield f"the drop-in {path} overrides {', '.join(told)}; remove it, or put its contents into the manifest"


async def _variables(host: Host, revision: Revision, answers: dict[str, Completed]) -> Sequence[str]:
    """What systemd reads of a file of secrets wins over the unit's own variables; no value leaves the host."""
    names = sorted(revision.environment)
    paths = [path for path in revision.secrets if names and answers[f"file:{path}"].ok]
    asked = [argv.sets_variable(path, names) for path in paths]
    said = await host.run_all(asked, timeout_s=READ_TIMEOUT_S) if asked else ()
    return [
        f"unit.secrets: {path} on {host.name} sets {', '.join(_names(read.text))}, as `unit.environment` does"
        for path, read in zip(paths, said, strict=True)
        if read.ok
    ]


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line.strip(" \t=") for line in text.splitlines()))


def _checks(revision: Revision, version: str | None, gpus: int, host: str) -> Iterator[str]:
    yield f"{host} answers, root is granted, systemd is recent enough"
    engine = f"{revision.engine} {version or 'of unknown version'}"
    yield f"{engine} is installed and accepts all {len(revision.arguments)} arguments"
    yield f"port {revision.port} is free or ours"
    if gpus:
        yield f"{gpus} PCI functions to be rebound are present, in groups of their own, and held by nothing that stays"


def _warnings(observed: Observation, drop_ins: dict[str, Completed]) -> Iterator[str]:
    for path, read in drop_ins.items():
        if read.text.strip():
            yield f"the drop-in {path} is not of the manifest: it stays, and adds to the unit"
    if observed.unit.need_daemon_reload:
        yield (
            f"{observed.unit.name} was changed on disk and systemd has not read it: what runs is not what the file says"
        )
