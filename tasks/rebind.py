"""Moving GPUs between drivers, a whole set or none, proved by reading the driver links back."""

from state.errors import StepFailed
from state.steps import DriverMove, RebindGpus
from tasks.argv import driver_link, holders, journal_end, kernel_log
from tasks.hosts.port import Host
from tasks.properties import cursor_of
from tasks.sequence import READ_TIMEOUT_S, Fence, run_unit
from tasks.timer import rebinding

REBIND_TIMEOUT_S = 60.0
"""For each device: an unbind is bounded to 20 s on the host, a probe of a GPU takes a few seconds."""


async def rebind(host: Host, step: RebindGpus, fence: Fence, key: str) -> dict[str, object]:
    """Move every function of the set; raises StepFailed that names holders, or the device that did not move and what
    the kernel said about it. What was moved stays for the compensation to move back."""
    todo = [move for move in step.moves if await _driver(host, move.address) != move.after]
    if any(move.before == "nvidia" for move in todo):
        await _refuse_holders(host)
    (end,) = await host.run_all([journal_end()], timeout_s=READ_TIMEOUT_S)
    lines = [line for move in todo for line in rebinding(move)]
    if lines:
        await run_unit(host, fence, key, lines, timeout_s=REBIND_TIMEOUT_S * len(todo))
    await _read_back(host, step, cursor_of(end.text))
    return {"kernel_cursor": cursor_of(end.text), "moved": [move.address for move in todo]}


async def _driver(host: Host, address: str) -> str | None:
    (read,) = await host.run_all([driver_link(address)], timeout_s=READ_TIMEOUT_S)
    return read.text.strip().rpartition("/")[2] or None if read.ok else None


async def _refuse_holders(host: Host) -> None:
    (read,) = await host.run_all([holders("/dev/nvidia*")], timeout_s=READ_TIMEOUT_S)
    held: dict[str, set[str]] = {}
    for line in read.text.splitlines():
        path, _, device = line.partition(" ")
        held.setdefault(path.split("/")[2], set()).add(device)
    if held:
        named = "; ".join(f"PID {pid} holds {', '.join(sorted(devices))}" for pid, devices in sorted(held.items()))
        raise StepFailed(
            "rebind-gpus", f"GPUs on {host.name} are in use: {named}", hint="stop these processes, then apply again"
        )


async def _read_back(host: Host, step: RebindGpus, cursor: str) -> None:
    stuck: list[tuple[DriverMove, str | None]] = []
    for move in step.moves:
        driver = await _driver(host, move.address)
        if driver != move.after:
            stuck.append((move, driver))
    if not stuck:
        return
    (log,) = await host.run_all([kernel_log(after=cursor)], timeout_s=READ_TIMEOUT_S)
    said = [line for line in log.text.splitlines() if any(move.address in line for move, _ in stuck)]
    named = "; ".join(f"{m.address} is on {driver or 'no driver'}, not {m.after or 'none'}" for m, driver in stuck)
    kernel = f"; the kernel says: {said[-1]}" if said else ""
    raise StepFailed(
        "rebind-gpus",
        f"{named}{kernel}",
        hint=f"look at `journalctl -k` on {host.name}; a reset or a reboot may be needed",
    )
