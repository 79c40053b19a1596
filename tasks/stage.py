"""Staging: new contents go beside the old ones, old contents are kept by digest, both are read back whole."""

from collections.abc import Mapping, Sequence
from itertools import chain

from state.errors import StepFailed
from state.steps import DiscardStaged, FileChange, StageFiles
from tasks.argv import STATE_DIR, blob, place, verify_unit
from tasks.hosts.port import Argv, Completed, Host
from tasks.hosts.privilege import checked
from tasks.script import Line, may, must
from tasks.sequence import Fence, refuse_if_fenced, run_sequence, sequence

UPLOAD_TIMEOUT_S = 120.0


async def stage(host: Host, step: StageFiles, fence: Fence, contents: Mapping[str, bytes]) -> dict[str, object]:
    """Upload what the changes need from `contents` (by digest), keep what they replace, and let the host's own systemd
    judge the new units, under their names, before anything of the service is touched.

    Raises StepFailed when a digest read back is not the one expected (the disk is full, or a file changed meanwhile),
    and with what systemd says of a unit that it refuses.
    """
    folders = [must("install", "-d", "-m", "700", "--", path) for path in _folders(step.service)]
    await run_sequence(host, fence, folders)
    for digest in sorted({c.after.digest for c in step.changes if c.after.digest}):
        upload = Argv(("tee", "--", blob(step.service, digest)), stdin=contents[digest], root=True)
        checked(host.name, upload, *await host.run_all([upload], timeout_s=UPLOAD_TIMEOUT_S))
    units = {copy: _judging(fence, step.service, copy, source) for copy, source in _copies(step).items()}
    read_back = Argv(("sha256sum", "--", *(blob(step.service, d) for d in sorted(digests(step.changes)))), root=True)
    then = [read_back, *chain.from_iterable(units.values())]
    read, *said = await run_sequence(host, fence, _keep(step), timeout_s=UPLOAD_TIMEOUT_S, then=then)
    _refuse_unread(host, step.changes, read)
    for number, (copy, asked) in enumerate(units.items()):
        placed, judged, _ = said[3 * number : 3 * number + 3]
        if not placed.ok:
            await refuse_if_fenced(host, fence)
        checked(host.name, asked[0], placed)
        _refuse_unit(host, copy, judged)
    return {"staged": sorted(digests(step.changes))}


def _copies(step: StageFiles) -> dict[str, str]:
    """Where each new unit is judged under its own name, and where its contents are."""
    names = {c.after.path.rpartition("/")[2]: c.after.digest for c in step.changes if c.after.digest}
    units = {name: digest for name, digest in names.items() if name.endswith(".service")}
    return {f"{_judged_in(step.service)}/{name}": blob(step.service, digest) for name, digest in units.items()}


def _judged_in(service: str) -> str:
    return f"{place(service)}/verify"


def _judging(fence: Fence, service: str, copy: str, source: str) -> list[Argv]:
    folder = must("install", "-d", "-m", "700", "--", _judged_in(service))
    placed = sequence(fence, [folder, must("install", "-m", "600", "-T", "--", source, copy)])
    return [placed, verify_unit(copy), sequence(fence, [may("rm", "-f", "--", copy)])]


def _refuse_unit(host: Host, copy: str, said: Completed) -> None:
    if not said.ok:
        name = copy.rpartition("/")[2]
        text = said.stderr.decode("utf-8", "replace").strip().replace(copy, name)
        raise StepFailed(
            "stage-files", f"systemd on {host.name} refuses {name}: {text}", hint="mend the manifest's `unit`"
        )


async def discard(host: Host, step: DiscardStaged, fence: Fence) -> dict[str, object]:
    """Remove what was staged and kept; nothing refers to it any more."""
    await run_sequence(host, fence, [may("rm", "-f", "--", *(blob(step.service, d) for d in digests(step.changes)))])
    return {}


def digests(changes: Sequence[FileChange]) -> set[str]:
    return {state.digest for c in changes for state in (c.before, c.after) if state.digest}


def _folders(service: str) -> tuple[str, ...]:
    return STATE_DIR, place(service), f"{place(service)}/blobs"


def _keep(step: StageFiles) -> list[Line]:
    return [
        must("install", "-m", "600", "-T", "--", c.before.path, blob(step.service, c.before.digest))
        for c in step.changes
        if c.before.digest
    ] + [must("sync", "--", blob(step.service, d)) for d in sorted(digests(step.changes))]


def _refuse_unread(host: Host, changes: Sequence[FileChange], read: Completed) -> None:
    wanted = sorted(digests(changes))
    seen = {line.split()[0].lstrip("\\") for line in read.text.splitlines() if line.strip()}
    if missing := [d for d in wanted if d not in seen]:
        said = read.stderr.decode("utf-8", "replace").strip()
        raise StepFailed(
            "stage-files",
            f"{len(missing)} of {len(wanted)} staged files do not read back as written on {host.name}"
            + (f": {said}" if said else ""),
            hint="a file changed since the plan was made, or the disk is full; plan again",
        )
