"""Moving PCI functions between drivers as a transaction: a whole set or none, proved by reading the links back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from state.errors import ArgvFailed, DeadlineExceeded, InterlockError, StepFailed
from state.steps import NATIVE, VFIO, DriverMove, RebindGpus
from tasks.argv import (
    driver_link,
    journal_end,
    kernel_log,
    nvidia_identities,
    quarantine,
    rebind_unit,
    show,
    write,
)
from tasks.holders import holders_of
from tasks.hosts.port import Host
from tasks.observe import unit_from
from tasks.properties import cursor_of
from tasks.script import must
from tasks.sequence import READ_TIMEOUT_S, Fence, forget_units, run_sequence, run_unit
from tasks.timer import MOVE_TIMEOUT_S, rebinding

STEP = "rebind-gpus"
KEPT_LINES = 40
"""Lines of the kernel log about the moved functions that are kept as facts."""

Map = Mapping[str, Mapping[str, str | None]]
"""Address -> driver, and what NVIDIA's own tool tells of it: index, UUID, serial."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What every part of the transaction needs; `cursor` is where the host's journal ended before it."""

    host: Host
    fence: Fence
    key: str
    cursor: str

    def unit_key(self, move: DriverMove, way: Literal["move", "back"]) -> str:
        return f"{self.key}:{way}:{move.address}"


async def rebind(host: Host, step: RebindGpus, fence: Fence, key: str) -> dict[str, object]:
    """Move every function of the set, one by one; what is there already is left alone.

    Raises StepFailed that names holders, or the function that did not move and what the kernel said about it; those
    that had moved are then back, or named. A function whose unbind is stuck is quarantined, not tried again.
    """
    before = await address_map(host, step.moves)
    todo = [move for move in step.moves if not _is_on(before[move.address]["driver"], move.after, move)]
    await _refuse_holders(host, todo)
    (end,) = await host.run_all([journal_end()], timeout_s=READ_TIMEOUT_S)
    work = _Work(host, fence, key, cursor_of(end.text))
    moved: list[DriverMove] = []
    for move in todo:
        try:
            if moved:
                await _refuse_holders(host, [move])  # again: somebody may have opened it since
            await _move(work, move)
        except (StepFailed, ArgvFailed, DeadlineExceeded) as failed:
            raise await _undone(work, [*moved, move], failed) from failed
        moved.append(move)
    await forget_units(host, [fence.unit(work.unit_key(move, "move")) for move in moved])
    return {
        "kernel_cursor": work.cursor,
        "moved": [move.address for move in moved],
        "before": before,
        "after": await address_map(host, step.moves),
        "kernel": await _kernel_says(work, todo),
    }


async def address_map(host: Host, moves: Sequence[DriverMove]) -> Map:
    """Which function is on which driver. UUIDs and serials stay with a GPU, while indexes shift with every move."""
    drivers = await host.run_all([driver_link(move.address) for move in moves], timeout_s=READ_TIMEOUT_S)
    found: dict[str, dict[str, str | None]] = {
        move.address: {"driver": read.text.strip().rpartition("/")[2] or None if read.ok else None}
        for move, read in zip(moves, drivers, strict=True)
    }
    if any("nvidia" in (move.before, move.after) for move in moves):
        (told,) = await host.run_all([nvidia_identities()], timeout_s=READ_TIMEOUT_S)
        for line in told.text.splitlines() if told.ok else ():
            bus, *rest = [field.strip() for field in line.split(",")]
            if len(rest) == 3 and (address := bus.lower()[-12:]) in found:
                found[address] |= dict(zip(("index", "uuid", "serial"), rest, strict=True))
    return found


async def _move(work: _Work, move: DriverMove) -> None:
    await _run(work, move, "move")
    driver = await _driver(work.host, move.address)
    stuck = driver != move.after and await _stuck(work.host, move)
    if _is_on(driver, move.after, move) and not stuck:
        return
    said = await _kernel_says(work, [move])
    kernel = f"; the kernel says: {said[-1]}" if said else ""
    if stuck:
        await _quarantine(work, move, said)
        raise StepFailed(
            STEP,
            f"the unbind of {move.address} from {move.before} on {work.host.name} is stuck: it is quarantined{kernel}",
            hint=f"when it is well again (a reboot may be needed), remove {quarantine(move.address)}",
        )
    raise StepFailed(
        STEP,
        f"{move.address} is on {driver or 'no driver'}, not {move.after or 'none'}{kernel}",
        hint=f"look at `journalctl -k` on {work.host.name}; a reset or a reboot may be needed",
    )


async def _undone(work: _Work, moves: Sequence[DriverMove], failed: InterlockError) -> StepFailed:
    """Move back what has moved, newest first; the error that tells what failed first, and what became of the set."""
    back: list[str] = []
    left: list[str] = []
    for move in reversed(moves):
        driver = await _driver(work.host, move.address)
        if _is_on(driver, move.before, move) or await _stuck(work.host, move):
            continue
        try:
            await _run(work, move.reversed(), "back")
        except (ArgvFailed, DeadlineExceeded):
            left.append(move.address)
            continue
        returned = _is_on(await _driver(work.host, move.address), move.before, move)
        (back if returned else left).append(move.address)
    keys = [key for move in moves for key in (work.unit_key(move, "move"), work.unit_key(move, "back"))]
    await forget_units(work.host, [work.fence.unit(key) for key in keys])
    told = f"; moved back: {', '.join(back)}" if back else ""
    told += f"; could not be moved back: {', '.join(left)}" if left else ""
    return StepFailed(STEP, f"{failed}{told}", hint=getattr(failed, "hint", ""))


async def _run(work: _Work, move: DriverMove, way: Literal["move", "back"]) -> None:
    bound = MOVE_TIMEOUT_S + READ_TIMEOUT_S
    await run_unit(work.host, work.fence, work.unit_key(move, way), [rebinding(move)], timeout_s=bound)


async def _refuse_holders(host: Host, moves: Sequence[DriverMove]) -> None:
    if held := await holders_of(host, moves):
        named = "; ".join(f"{h.address}: {h.sentence}" for h in held)
        raise StepFailed(STEP, f"devices on {host.name} are in use: {named}", hint="end what holds them, apply again")


async def _driver(host: Host, address: str) -> str | None:
    (read,) = await host.run_all([driver_link(address)], timeout_s=READ_TIMEOUT_S)
    return read.text.strip().rpartition("/")[2] or None if read.ok else None


def _is_on(driver: str | None, wanted: str | None, move: DriverMove) -> bool:
    """What the kernel would choose is not known, but that it is not vfio-pci, which takes nothing by itself."""
    return driver != VFIO if wanted == NATIVE else driver == wanted


async def _stuck(host: Host, move: DriverMove) -> bool:
    """Whether the unit in which it moves still waits for the kernel, which takes the driver's link away first."""
    unit = rebind_unit(move.address)
    (shown,) = await host.run_all([show(unit)], timeout_s=READ_TIMEOUT_S)
    return unit_from(unit, shown.text).active


async def _quarantine(work: _Work, move: DriverMove, said: Sequence[str]) -> None:
    path = quarantine(move.address)
    text = f"unbind from {move.before} was stuck in rollout {work.fence.rollout}: {said[-1] if said else 'no word'}\n"
    folder = path.rpartition("/")[0]
    lines = [must("install", "-d", "-m", "700", "--", folder), must(*write(path, text))]
    await run_sequence(work.host, work.fence, lines)


async def _kernel_says(work: _Work, moves: Sequence[DriverMove]) -> list[str]:
    (log,) = await work.host.run_all([kernel_log(after=work.cursor)], timeout_s=READ_TIMEOUT_S)
    addresses = [move.address for move in moves]
    return [line for line in log.text.splitlines() if any(address in line for address in addresses)][-KEPT_LINES:]
