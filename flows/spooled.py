"""A rollout whose event store is away: when it may go on without it, and how its spool comes into the store later.

Before the service is stopped nothing new is begun without the store. After that, facts are spooled on this machine, and
the rollout goes on to a safe end (docs/decisions/0011).
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from flows.history import History
from flows.ports import Hosts, Ports, Watch
from state.action import Action
from state.errors import HostAhead, InterlockError, SpoolDamaged, StoreUnavailable, TakenOver, VersionConflict
from state.events import Event, HoldAnswered, RolloutResumed, encode
from state.hold import DEADLINE
from state.next_action import begun_steps, next_action
from state.rollout import Rollout
from state.store.flush import Flush, settle
from state.store.patient import Patience, PatientEvents, PatientEvidence
from state.store.port import RecordedEvent, SpoolFile, Spools
from state.store.spool import SPOOLED, Spooled, follows, read_spool
from state.store.spooling import Spooling, SpoolingEvents, Terms
from tasks.ahead import say_ahead, spool_ahead
from tasks.sequence import Fence

BEFORE_THE_STOP_S, AFTER_THE_STOP_S = 60.0, 4.0
"""How long an answer of the store is waited for: longer than SQLite waits for another writer; then as little as a
person would not notice in an outage."""

END_S, LOOK_EVERY_S = 30.0, 1.0
"""How long a rollout waits for its store before the stop and at its end, and how often it looks: nothing is dark."""


def spooling(history: History) -> Spooling | None:
    """The rollout's spool, with the stores behind it; made when it is first asked for. None where nothing is spooled:
    this machine has no place for it."""
    ports = history.ports
    if isinstance(ports.events, SpoolingEvents):
        return ports.events.spooling
    if ports.spools is None:
        return None
    name = name_of(history.rollout_id, history.rollout.session)
    made = Spooling(ports.events, ports.evidence, ports.spools.of(name), _terms(history))
    history.ports = replace(ports, events=made.events, evidence=made.evidence)
    return made


def _terms(history: History) -> Terms:
    ports = history.ports
    return Terms(
        stream=history.stream,
        rollout=history.rollout_id,
        holder=ports.holder,
        may_spool=lambda: bool(begun_steps(history.rollout)),
        patience_s=lambda: AFTER_THE_STOP_S if outage_begun(history.rollout) else BEFORE_THE_STOP_S,
        now=ports.now,
        clock=ports.clock,
        said=ports.watch.said,
    )


def outage_begun(rollout: Rollout, but_for: Action | None = None) -> bool:
    """Whether the service may have been stopped: by another action than `but_for`, of which that is not asked."""
    own = but_for.step if but_for else None
    return any(step.role == "outage" and index != own for index, step in begun_steps(rollout))


async def refuse_unrecorded(history: History, action: Action) -> None:
    """Raises StoreUnavailable for a step forward whose intent could only be spooled, while the service has not been
    stopped (this attempt and those before it may have been refused) and the store stays away: nothing is dark while it
    is waited for. Makes sure of room for a spool before the stop."""
    spool = spooling(history)
    if spool is None or action.kind != "step" or action.direction != "do" or outage_begun(history.rollout, action):
        return
    if await stays_away(history.ports):
        raise StoreUnavailable("it went away before the service was stopped")
    if history.ports.spools:
        history.ports.spools.reserve()


def unflushed(ports: Ports) -> Spooling | None:
    """The spool of the rollout that uses these ports, while something waits in it."""
    spool = ports.events.spooling if isinstance(ports.events, SpoolingEvents) else None
    return spool if spool and spool.waiting else None


async def mark_ahead(ports: Ports, rollout: Rollout, hosts: Hosts) -> None:
    """Before a change that the store does not know of, tell the hosts whose history is behind where the facts are.

    The store is asked once more before that: where it had taken the fact, and only its answer was lost, nothing of the
    spool would ever come into the history, and the mark would be believed for good. Raises what `tasks.ahead.say_ahead`
    does, and TakenOver.
    """
    spool = unflushed(ports)
    if spool is None or rollout.requested is None:
        return
    untold = [name for name in rollout.fencing if (spool.name, name) not in spool.told]
    if not untold or await spool.flush(now=True):
        return
    for name in untold:
        await say_ahead(hosts[name], Fence(rollout.requested.rollout, rollout.fencing[name]), spool.name)
        spool.told.add((spool.name, name))


async def refuse_ahead(hosts: Hosts, names: Iterable[str], rollout: str, recorded: Sequence[RecordedEvent]) -> None:
    """Raises HostAhead for a host that is marked with a spool which the history does not have."""
    known = {event.metadata.get(SPOOLED) for event in recorded}
    for name in names:
        spool = await spool_ahead(hosts[name], rollout)
        if spool and spool not in known:
            raise HostAhead(name, rollout, spool)


def can_come_in(spool: str, recorded: Sequence[RecordedEvent]) -> bool:
    """Whether a spool may still be flushed: not once another session, or a person's answer, stands behind the event
    that it follows."""
    return not any(_is_others(event) for event in recorded[follows(spool) :])


def _is_others(event: RecordedEvent) -> bool:
    answered = event.type == HoldAnswered.wire and event.data["actor"] != DEADLINE
    return (answered or event.type == RolloutResumed.wire) and SPOOLED not in event.metadata


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
    with suppress(asyncio.CancelledError):
        await stays_away(history.ports)
    if spool.waiting:
        history.ports.watch.said(_left(history.rollout_id, spool.waiting, spool.file.place))


async def stays_away(ports: Ports) -> bool:
    """Whether facts still wait in the spool when END_S have been waited, all in all, while nothing is dark. Raises
    TakenOver."""
    while (spool := unflushed(ports)) and not await spool.flush(now=True) and spool.waited_s < END_S:
        ports.watch.progress("waiting for the event store", spool.waited_s)
        await asyncio.sleep(LOOK_EVERY_S)
        spool.waited_s += LOOK_EVERY_S
    return unflushed(ports) is not None


async def old_files_are_kept(ports: Ports, host: str) -> bool:
    """Whether what was staged and kept stays on its host: whoever would go on without the spooled facts needs it."""
    kept = await stays_away(ports)
    if kept:
        ports.watch.said(f"the files that were staged and kept stay on {host}, for the event store is away")
    return kept


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


def name_of(rollout: str, session: int) -> str:
    """A spool's: each session has its own, for one that was overtaken may wake up beside the next."""
    return f"{rollout}.{session}"


def rollout_of(name: str) -> str:
    return name.rpartition(".")[0]


def left_of(spools: Spools | None, rollout: str) -> list[str]:
    return [name for name in spools.left() if rollout_of(name) == rollout] if spools else []


def is_driven_here(spools: Spools | None, rollout: str) -> bool:
    """Whether a living process of this machine holds a spool of the rollout."""
    for name in left_of(spools, rollout):
        assert spools is not None  # it has one
        file = spools.of(name)
        held = file.hold()
        file.let_go()
        if not held and name in spools.left():
            return True
    return False


def tell_left(spools: Spools, watch: Watch) -> None:
    """For a command that finds no store: what waits for it on this machine."""
    for name in spools.left():
        file = spools.of(name)
        with suppress(SpoolDamaged):
            watch.said(_left(rollout_of(name), read_spool(file.read(), file.place).facts, file.place))


async def flush_left(ports: Ports, rollout: str = "") -> None:
    """Bring in every spool of this machine, or of one rollout, that nobody writes to any more, and say what came of it.

    What cannot be brought in stays; one into whose stream somebody else has written meanwhile, or that is damaged, is
    kept under another name. Neither keeps a command from its own work.
    """
    spools = ports.spools
    for name in spools.left() if spools else ():
        if spools and rollout in ("", rollout_of(name)) and (file := spools.of(name)).hold():
            try:
                await _brought_in(ports, rollout_of(name), file)
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
    else:
        file.remove()
        if spooled.facts:
            ports.watch.said(f"the event store has the {spooled.facts} facts that rollout {rollout} had spooled")


def _why(error: InterlockError) -> str:
    if isinstance(error, VersionConflict):
        return "another orchestrator has gone on with it meanwhile, and that is its history"
    return str(error)
