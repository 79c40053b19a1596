"""Moving PCI functions between drivers as a transaction: a whole set or none, proved by reading the links back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from state.errors import ArgvFailed, DeadlineExceeded, InterlockError, StepFailed, UnbindStuck
from state.events import Direction
from state.steps import NATIVE, VFIO, DriverMove, RebindGpus
from tasks.argv import driver_link, journal_end, kernel_log, nvidia_identities
from tasks.holders import holders_of
from tasks.hosts.port import Host
from tasks.kernel_ring import RING, newest, since
from tasks.properties import cursor_of
from tasks.quarantine import is_stuck, quarantine_device, quarantined
from tasks.sequence import READ_TIMEOUT_S, Fence, forget_units, run_unit
from tasks.timer import MOVE_TIMEOUT_S, rebinding

STEP = "rebind-gpus"
KEPT_LINES = 40
"""Lines of the kernel log about the moved functions that are kept as facts."""

Map = Mapping[str, Mapping[str, str | None]]
"""Address -> driver, and what NVIDIA's own tool tells of it: index, UUID, serial."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What every part of the transaction needs; before it the host's journal ended at `cursor`, and the kernel's ring
    buffer with the line `newest`."""

    host: Host
    fence: Fence
    key: str
    cursor: str
    newest: str

    def unit_key(self, move: DriverMove, way: Literal["move", "back"]) -> str:
        return f"{self.key}:{way}:{move.address}"


async def rebind(
    host: Host, step: RebindGpus, fence: Fence, key: str, direction: Direction = "do"
) -> dict[str, object]:
    """Move every function of the set, one by one; what is there already is left alone.

    Raises StepFailed that names holders, or the function that did not move and what the kernel said about it; those
    that had moved are then back, or named. A function whose unbind is stuck is quarantined, not tried again: that is
    UnbindStuck. On the way back the others are moved all the same, and those that are in quarantine already are left.
    """
    before = await address_map(host, step.moves)
    todo = [move for move in step.moves if not _is_on(before[move.address]["driver"], move.after, move)]
    kept_out = await quarantined(host, [move.address for move in todo])
    if kept_out and direction == "do":
        stuck = {m.address: (m.before or "no driver", kept_out[m.address]) for m in todo if m.address in kept_out}
        raise UnbindStuck(host.name, stuck, fence.rollout)
    todo = [move for move in todo if move.address not in kept_out]
    await _refuse_holders(host, todo)
    end, ring = await host.run_all([journal_end(), RING], timeout_s=READ_TIMEOUT_S)
    work = _Work(host, fence, key, cursor_of(end.text), newest(ring.text))
    moved = await (_all_or_none(work, todo) if direction == "do" else _as_many_as_can_be(work, todo))
    await forget_units(host, fence, [fence.unit(work.unit_key(move, "move")) for move in step.moves])
    return {
        "kernel_cursor": work.cursor,
        "moved": [move.address for move in moved],
        "before": _as_planned(before, step.moves) if direction == "do" else before,
        "after": await address_map(host, step.moves),
        "kernel": await _kernel_says(work, todo),
        **({"quarantined": sorted(kept_out)} if kept_out else {}),
    }


def _as_planned(found: Map, moves: Sequence[DriverMove]) -> Map:
    """An attempt whose connection was lost has moved some already; the plan says where those were."""
    there = {move.address: move.before for move in moves if _is_on(found[move.address]["driver"], move.after, move)}
    return {a: {**told, "driver": there.get(a, told["driver"])} for a, told in found.items()}


async def _all_or_none(work: _Work, todo: Sequence[DriverMove]) -> list[DriverMove]:
    moved: list[DriverMove] = []
    for move in todo:
        try:
            await _move_unheld(work, move, again=bool(moved))
        except (StepFailed, ArgvFailed, DeadlineExceeded) as failed:
            raise await _undone(work, [*moved, move], failed) from failed
        moved.append(move)
    return moved


async def _as_many_as_can_be(work: _Work, todo: Sequence[DriverMove]) -> list[DriverMove]:
    """The way back: a stuck device must not keep the others where they are."""
    moved: list[DriverMove] = []
    stuck: dict[str, tuple[str, str]] = {}
    for move in todo:
        try:
            await _move_unheld(work, move, again=bool(moved))
        except UnbindStuck as failed:
            stuck |= failed.devices
            continue
        except (StepFailed, ArgvFailed, DeadlineExceeded) as failed:
            raise await _undone(work, [*moved, move], failed) from failed
        moved.append(move)
    if stuck:
        raise UnbindStuck(work.host.name, stuck, work.fence.rollout)
    return moved


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


async def _move_unheld(work: _Work, move: DriverMove, *, again: bool) -> None:
    """`again`: some time has passed since its holders were looked for, and somebody may have opened it."""
    if again:
        await _refuse_holders(work.host, [move])
    await _run(work, move, "move")
    driver = await _driver(work.host, move.address)
    stuck = driver != move.after and await is_stuck(work.host, move.address)
    if _is_on(driver, move.after, move) and not stuck:
        return
    said = (await _kernel_says(work, [move]) or [""])[-1]
    if stuck:
        await quarantine_device(work.host, move, work.fence, said)
        raise UnbindStuck(work.host.name, {move.address: (move.before or "no driver", said)}, work.fence.rollout)
    kernel = f"; the kernel says: {said}" if said else ""
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
        if _is_on(driver, move.before, move) or await is_stuck(work.host, move.address):
            continue
        try:
            await _run(work, move.reversed(), "back")
        except (ArgvFailed, DeadlineExceeded):
            left.append(move.address)
            continue
        returned = _is_on(await _driver(work.host, move.address), move.before, move)
        (back if returned else left).append(move.address)
    keys = [key for move in moves for key in (work.unit_key(move, "move"), work.unit_key(move, "back"))]
    await forget_units(work.host, work.fence, [work.fence.unit(key) for key in keys])
    told = f"; moved back: {', '.join(back)}" if back else ""
    told += f"; could not be moved back: {', '.join(left)}" if left else ""
    if isinstance(failed, UnbindStuck):
        return UnbindStuck(failed.host, failed.devices, failed.rollout, told=told)
    return StepFailed(STEP, f"{failed}{told}", hint=failed.hint)


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


async def _kernel_says(work: _Work, moves: Sequence[DriverMove]) -> list[str]:
    """From the journal, or from the ring buffer where journald waits with a stuck unbind."""
    argvs = [kernel_log(after=work.cursor), RING]
    log, ring = await work.host.run_all(argvs, timeout_s=READ_TIMEOUT_S)
    addresses = [move.address for move in moves]
    told = (log.text.splitlines(), since(ring.text, work.newest))
    journal, buffer = ([line for line in lines if any(a in line for a in addresses)] for lines in told)
    return (journal if len(journal) >= len(buffer) else buffer)[-KEPT_LINES:]
