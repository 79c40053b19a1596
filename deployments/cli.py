"""The command line: parse, call one function, print, and end with the exit code that the error's type says."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from deployments import collection, interrupts
from deployments.cli_lab import lab
from deployments.cli_token import token
from deployments.command import AsJson, Bare, ManifestPath, Reason, RolloutId, Word, console, run, tell
from deployments.unbroken import unbroken_output
from state.errors import InterlockError

app = typer.Typer(
    name="interlock",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Takes a self-hosted LLM service from one configuration to another, proves it, or puts the old one back.",
)
db = typer.Typer(no_args_is_help=True, help="The event store's schema.")
app.add_typer(db, name="db")
gpu = typer.Typer(no_args_is_help=True, help="GPUs that a rollout could not move.")
app.add_typer(gpu, name="gpu")
app.add_typer(lab, name="lab")
app.add_typer(token, name="token")


def main() -> None:
    """Exit codes: 0 done, 1 failed but safe, 2 usage or manifest, 3 refused untouched, 4 stranded, 130 interrupted."""
    collection.hold()
    with unbroken_output():
        try:
            app()
        except InterlockError as error:
            sys.exit(tell(error, as_json="--json" in sys.argv))
        except KeyboardInterrupt:
            sys.exit(interrupts.INTERRUPTED)


@app.command()
def plan(
    manifest: ManifestPath,
    as_json: AsJson = False,
    claims: Annotated[bool, typer.Option("--claims", help="List the claims that will be judged.")] = False,
) -> None:
    """Show what would be done, changing nothing."""
    from deployments import run as commands
    from deployments.manifest_file import read_manifest

    run(commands.plan(console(), read_manifest(manifest), as_json=as_json, claims=claims))


@app.command()
def apply(
    manifest: ManifestPath,
    as_json: AsJson = False,
    bare: Bare = False,
    reason: Reason = "applied from the command line",
    reviewed: Annotated[
        str | None, typer.Option("--plan", help="Refuse unless the plan has this digest (or its beginning).")
    ] = None,
) -> None:
    """Bring the service to its manifest; prove it, or put the old one back."""
    from deployments import run as commands
    from deployments.manifest_file import read_source

    read = read_source(manifest)
    run(commands.run_manifest(console(), read, "rollout", reason=reason, reviewed=reviewed, bare=bare, as_json=as_json))


@app.command()
def verify(
    manifest: ManifestPath,
    as_json: AsJson = False,
    bare: Bare = False,
    reason: Reason = "verified from the command line",
) -> None:
    """Judge what runs now by the manifest's claims, changing nothing."""
    from deployments import run as commands
    from deployments.manifest_file import read_source

    read = read_source(manifest)
    run(commands.run_manifest(console(), read, "verify", reason=reason, reviewed=None, bare=bare, as_json=as_json))


@app.command()
def rollback(
    service: Annotated[str, typer.Argument(help="The service's name.")],
    to: Annotated[str, typer.Option("--to", help="A proven revision's digest, or its beginning.")] = "",
    as_json: AsJson = False,
    bare: Bare = False,
    reason: Reason = "rolled back from the command line",
) -> None:
    """Take a service back to the revision that was proven before, or to a named one."""
    from deployments import run as commands

    run(commands.roll_back(console(), service, to=to, reason=reason, bare=bare, as_json=as_json))


@app.command()
def recover(
    rollout: Annotated[
        str, typer.Argument(help="One rollout's id, or its beginning; all that nobody drives if left out.")
    ] = "",
    as_json: AsJson = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Do not wait for the lease: you know that its orchestrator is gone.")
    ] = False,
) -> None:
    """Go on with rollouts that an orchestrator left unfinished."""
    from deployments import recovery

    run(recovery.recover(console(), rollout, as_json=as_json, take_over=take_over))


@app.command()
def answer(
    rollout: RolloutId,
    word: Annotated[Word, typer.Argument(metavar="ANSWER", help="promote or rollback.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")],
    as_json: AsJson = False,
) -> None:
    """Answer a rollout that holds: its proof stayed open, and its policy is to ask a person."""
    from deployments import answer as commands

    run(commands.answer(console(), rollout, word, reason=reason, as_json=as_json))


@app.command()
def history(
    service: Annotated[str, typer.Argument(help="Only this service's.")] = "",
    limit: Annotated[int, typer.Option(help="How many of the newest; 0 for all.", min=0)] = 50,
    before: Annotated[str, typer.Option(metavar="ROLLOUT", help="Only those older than this one.")] = "",
    as_json: AsJson = False,
    verify_digests: Annotated[bool, typer.Option("--verify", help="Check the digest of every event.")] = False,
) -> None:
    """List rollouts, newest last."""
    from deployments import past

    run(past.history(console(), past.Wanted(service, limit, before), as_json=as_json, verify=verify_digests))


@app.command()
def show(rollout: RolloutId, as_json: AsJson = False) -> None:
    """Tell one rollout whole: timeline, claims, end."""
    from deployments import run as commands

    run(commands.show(console(), rollout, as_json=as_json))


@app.command()
def compare(
    first: RolloutId,
    second: Annotated[
        str,
        typer.Argument(
            metavar="[ROLLOUT]",
            help="The later one; left out, FIRST itself is held against what was measured before it.",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show the claims of two rollouts side by side: verdicts, figures with intervals, the change."""
    from deployments import compare as commands

    run(commands.compare_rollouts(console(), first, second, as_json=as_json))


@app.command()
def report(
    rollout: RolloutId,
    form: Annotated[str, typer.Option(help="terminal, markdown or html; by default what FILE's name says.")] = "",
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="A file; - for standard output.")] = "-",
) -> None:
    """Write a rollout's report: claims with figures and evidence, before and after, where the dark time went."""
    from deployments.report import command

    run(command.write_report(console(), rollout, command.form_of(form, output), output))


@app.command()
def replay(
    rollout: Annotated[str, typer.Argument(help="One rollout to narrate and judge anew.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Every history: digests, projections, judgements.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay history: narrate it, judge its evidence by today's rules, rebuild what is derived from it."""
    from deployments import past

    run(past.replay(console(), rollout, everything=everything, as_json=as_json))


@app.command()
def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file, or - for standard input.")],
    kind: Annotated[str, typer.Option(help="auto, log, kernel, unit, metrics, server-info or answer.")] = "auto",
    engine: Annotated[str, typer.Option(help="auto, sglang, vllm or llamacpp.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Read one artefact offline and say what it proves."""
    from deployments.inspect import inspect as inspect_file

    collection.begin()
    raise typer.Exit(inspect_file(file, kind, engine, as_json))


@app.command()
def demo(
    as_json: AsJson = False,
    bare: Bare = False,
    keep: Annotated[
        str, typer.Option("--keep", help="Keep the practice host's files and the database in this folder.")
    ] = "",
) -> None:
    """Two rollouts on a practice host over real SSH: one that is proven, one that is put back."""
    from deployments import demo as demonstration

    run(demonstration.demo(console(), as_json=as_json, bare=bare, keep=keep))


@app.command()
def serve(
    host: Annotated[str, typer.Option("--host", help="The address that the HTTP API listens at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The HTTP API's port.", min=0, max=65535)] = 4280,
    manifests: Annotated[
        Path | None, typer.Option("--manifests", help="The folder of named revisions; see INTERLOCK_MANIFESTS.")
    ] = None,
    prefect_port: Annotated[
        int, typer.Option("--prefect-port", help="The port of Prefect's pages; always on loopback.", min=0, max=65535)
    ] = 4200,
) -> None:
    """Run the resident runner, the HTTP API, and Prefect with its pages and schedules."""
    from deployments.serve import command

    collection.begin()
    raise typer.Exit(command.serve(command.Options(host, port, prefect_port), manifests))


@gpu.command()
def clear(
    rollout: RolloutId,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="A PCI address, as in 0000:81:00.0.")],
    as_json: AsJson = False,
    reason: Reason = "cleared from the command line",
) -> None:
    """Take a device out of the quarantine that a rollout put it in: you have seen that it is well again."""
    from deployments import gpu as commands

    run(commands.clear(console(), rollout, address, reason=reason, as_json=as_json))


@db.command()
def upgrade(as_json: AsJson = False) -> None:
    """Bring the event store's schema to this release."""
    from deployments import past

    run(past.db_upgrade(as_json=as_json))


@db.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that is not there yet.")], as_json: AsJson = False
) -> None:
    """Copy the event store to a file, while it is in use."""
    from deployments import backup as commands

    run(commands.back_up(console(), file, as_json=as_json))


@db.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `interlock db backup` wrote.")],
    as_json: AsJson = False,
) -> None:
    """Make the event store from a backup, where there is none yet."""
    from deployments import backup as commands

    run(commands.restore(console(), file, as_json=as_json))


@db.command()
def check(as_json: AsJson = False) -> None:
    """Say whether the event store's schema is this release's."""
    from deployments import past

    run(past.db_check(as_json=as_json))
