"""Staging: new contents go beside the old ones, old contents are kept by digest, both are read back whole."""

from collections.abc import Mapping, Sequence

from state.errors import StepFailed
from state.steps import DiscardStaged, FileChange, StageFiles
from tasks.argv import STATE_DIR, blob, place, verify_unit
from tasks.hosts.port import Argv, Host
from tasks.hosts.privilege import checked
from tasks.script import Line, may, must
from tasks.sequence import READ_TIMEOUT_S, Fence, run_sequence

UPLOAD_TIMEOUT_S = 120.0


async def stage(host: Host, step: StageFiles, fence: Fence, contents: Mapping[str, bytes]) -> dict[str, object]:
    """Upload what the changes need from `contents` (by digest) and keep what they replace.

    Raises StepFailed when a digest read back is not the one expected: the disk is full, or a file changed meanwhile.
    """
    folders = [must("install", "-d", "-m", "700", "--", path) for path in _folders(step.service)]
    await run_sequence(host, fence, folders)
    for digest in sorted({c.after.digest for c in step.changes if c.after.digest}):
        upload = Argv(("tee", "--", blob(step.service, digest)), stdin=contents[digest], root=True)
        checked(host.name, upload, *await host.run_all([upload], timeout_s=UPLOAD_TIMEOUT_S))
    await run_sequence(host, fence, _keep(step))
    await _read_back(host, step.service, step.changes)
    await _verify_units(host, step, fence)
    return {"staged": sorted(digests(step.changes))}


async def _verify_units(host: Host, step: StageFiles, fence: Fence) -> None:
    """Let the host's own systemd judge the new units, under their names, before anything of the service is touched.

    Raises StepFailed with what systemd says of them.
    """
    for change in step.changes:
        name = change.after.path.rpartition("/")[2]
        if change.after.digest is None or not name.endswith(".service"):
            continue
        copy = f"{place(step.service)}/verify/{name}"
        folder, source = (
            must("install", "-d", "-m", "700", "--", f"{place(step.service)}/verify"),
            blob(step.service, change.after.digest),
        )
        await run_sequence(host, fence, [folder, must("install", "-m", "600", "-T", "--", source, copy)])
        (said,) = await host.run_all([verify_unit(copy)], timeout_s=READ_TIMEOUT_S)
        await run_sequence(host, fence, [may("rm", "-f", "--", copy)])
        if not said.ok:
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


async def _read_back(host: Host, service: str, changes: Sequence[FileChange]) -> None:
    wanted = sorted(digests(changes))
    asked = Argv(("sha256sum", "--", *(blob(service, d) for d in wanted)), root=True)
    (read,) = await host.run_all([asked], timeout_s=READ_TIMEOUT_S)
    seen = {line.split()[0].lstrip("\\") for line in read.text.splitlines() if line.strip()}
    if missing := [d for d in wanted if d not in seen]:
        said = read.stderr.decode("utf-8", "replace").strip()
        raise StepFailed(
            "stage-files",
            f"{len(missing)} of {len(wanted)} staged files do not read back as written on {host.name}"
            + (f": {said}" if said else ""),
            hint="a file changed since the plan was made, or the disk is full; plan again",
        )
