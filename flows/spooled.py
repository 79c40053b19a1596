"""A rollout whose event store is away: when it may go on without it, and how its spool comes into the store later.

Before the service is stopped nothing new is begun without the store. After that, facts are spooled on this machine, and
the rollout goes on to a safe end (docs/decisions/0011).
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from flows.history import History
from flows.ports import Ports, Watch
from state.action import Action
from state.errors import InterlockError, SpoolDamaged, StoreUnavailable, TakenOver, VersionConflict
from state.events import Event, encode
from state.next_action import begun_steps, next_action
from state.rollout import Rollout
from state.store.flush import Flush, settle
from state.store.patient import Patience, PatientEvents, PatientEvidence
from state.store.port import SpoolFile, Spools
from state.store.spool import Spooled, read_spool
from state.store.spooling import Spooling, SpoolingEvents, Terms

BEFORE_THE_STOP_S, AFTER_THE_STOP_S = 60.0, 4.0
"""How long an answer of the store is waited for: longer than SQLite waits for another writer; then as little as a
person would not notice in an outage."""

END_S, LOOK_EVERY_S = 30.0, 1.0
"""How long a rollout that has ended waits for its store, and how often it looks: nothing is dark any more then."""


def spooling(history: History) -> Spooling | None:
    """The rollout's spool, with the stores behind it; made when it is first asked for. None where nothing is spooled:
    this machine has no place for it."""
    ports = history.ports
    if isinstance(ports.events, SpoolingEvents):
        return ports.events.spooling
    if ports.spools is None:
        return None
    made = Spooling(ports.events, ports.evidence, ports.spools.of(history.rollout_id), _terms(history))
    history.ports = replace(ports, events=made.events, evidence=made.evidence)
    return made


def _terms(history: History) -> Terms:
    ports = history.ports
    return Terms(
        stream=history.stream,
        rollout=history.rollout_id,
        may_spool=lambda: bool(begun_steps(history.rollout)),
        patience_s=lambda: AFTER_THE_STOP_S if outage_begun(history.rollout) else BEFORE_THE_STOP_S,
        now=ports.now,
        clock=ports.clock,
        said=ports.watch.said,
    )


def outage_begun(rollout: Rollout) -> bool:
    return any(step.role == "outage" for _, step in begun_steps(rollout))


def refuse_unrecorded(history: History, action: Action, before: Rollout) -> None:
    """Raises StoreUnavailable for a step forward whose intent could only be spooled, while the service has not been
    stopped: `before` is the rollout without that intent. Makes sure of room for a spool before the stop."""
    spool = spooling(history)
    if spool is None or action.kind != "step" or action.direction != "do" or outage_begun(before):
        return
    if spool.waiting:
        raise StoreUnavailable("it went away before the service was stopped")
    if history.ports.spools:
        history.ports.spools.reserve()


@contextmanager
def let_go_at_the_end(history: History) -> Iterator[None]:
    """Once nothing is left to do for this session, or it breaks off, others may flush what it could not."""
    spool = spooling(history)
    goes_on = False
    try:
        yield
        goes_on = next_action(history.rollout) is not None
    except InterlockError as error:
        if spool and spool.waiting and not isinstance(error, TakenOver):
            history.ports.watch.said(_left(history.rollout_id, spool.waiting, spool.file.place))
        raise
    finally:
        if spool and not goes_on:
            spool.file.let_go()


async def flushed_at_the_end(history: History) -> None:
    """Wait a while for the store of a rollout that has ended, and say so if it stays away. Cancellation ends only this
    waiting: the rollout is over."""
    spool = spooling(history)
    if spool is None or not spool.waiting or next_action(history.rollout) is not None:
        return
    with suppress(asyncio.CancelledError, TimeoutError):
        async with asyncio.timeout(END_S):
            while not await spool.flush(now=True):
                history.ports.watch.progress("waiting for the event store", history.ports.clock())
                await asyncio.sleep(LOOK_EVERY_S)
    if spool.waiting:
        history.ports.watch.said(_left(history.rollout_id, spool.waiting, spool.file.place))


def _left(rollout: str, facts: int, place: str) -> str:
    return (
        f"the event store is away: {facts} facts of rollout {rollout} wait in {place}; "
        "`interlock recover`, or any command on this machine that opens the store, brings them in"
    )


async def say(ports: Ports, stream: str, event: Event) -> None:
    """Say something once in a stream that other rollouts write to as well; see `state.leases.due`."""
    if isinstance(ports.events, SpoolingEvents):
        await ports.events.settle(stream, encode(event))
    else:
        await settle(ports.events, stream, encode(event))


def is_driven_here(ports: Ports, rollout_id: str) -> bool:
    """Whether a living process of this machine holds the rollout's spool."""
    if ports.spools is None or rollout_id not in ports.spools.left():
        return False
    file = ports.spools.of(rollout_id)
    held = file.hold()
    file.let_go()
    return not held and rollout_id in ports.spools.left()


def tell_left(spools: Spools, watch: Watch) -> None:
    """For a command that finds no store: what waits for it on this machine."""
    for rollout in spools.left():
        file = spools.of(rollout)
        with suppress(SpoolDamaged):
            watch.said(_left(rollout, read_spool(file.read(), file.place).facts, file.place))


async def flush_left(ports: Ports) -> None:
    """Bring in every spool of this machine that nobody writes to any more, and say what came of it.

    What cannot be brought in stays, and keeps no command from its own work.
    """
    for rollout in ports.spools.left() if ports.spools else ():
        with suppress(TakenOver):  # told already
            await flush_one(ports, rollout)


async def flush_one(ports: Ports, rollout: str) -> None:
    """Bring in one rollout's spool. Raises TakenOver if somebody else has written to its stream meanwhile, or it is
    damaged: it is kept under another name then."""
    if ports.spools is None:
        return
    file = ports.spools.of(rollout)
    if not file.hold():
        return
    try:
        await _brought_in(ports, rollout, file)
    finally:
        file.let_go()


async def _brought_in(ports: Ports, rollout: str, file: SpoolFile) -> None:
    patience = Patience(lambda: BEFORE_THE_STOP_S)
    spooled = Spooled()
    try:
        spooled = read_spool(file.read(), file.place)
        flush = Flush(PatientEvents(ports.events, patience), PatientEvidence(ports.evidence, patience))
        await flush.run(spooled.records)
    except StoreUnavailable:
        ports.watch.said(_left(rollout, spooled.facts, file.place))
    except (VersionConflict, SpoolDamaged) as error:
        kept = file.set_aside()
        ports.watch.said(f"what rollout {rollout} did while the event store was away is kept in {kept}: {_why(error)}")
        raise TakenOver(rollout, kept) from error
    else:
        file.remove()
        if spooled.facts:
            ports.watch.said(f"the event store has the {spooled.facts} facts that rollout {rollout} had spooled")


def _why(error: InterlockError) -> str:
    if isinstance(error, VersionConflict):
        return "another orchestrator has gone on with it meanwhile, and that is its history"
    return str(error)
