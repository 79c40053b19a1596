"""Leases: one rollout for a service and for every host it touches, at a time, with a fencing number on each host."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from flows.history import stream_of
from flows.ports import Hosts, Ports
from flows.spooled import refuse_ahead, say
from state.errors import FencedOut, HostReverted, InterlockError, LeaseHeld, TakenOver, VersionConflict
from state.events import LeaseTaken, RolloutRequested, RolloutResumed, decode, encode
from state.leases import Lease, SubjectLeased, SubjectReleased, lease_of, whole
from state.manifest.model import HostSpec
from state.rollout import fold
from state.store.port import RecordedEvent
from tasks.mark import has_reverted, mark

TAIL = 8
"""Events of a lease's stream that are looked at first: mostly they suffice."""

StillOurs = Callable[[], Awaitable[None]]
"""Raises TakenOver if a later session goes on with the rollout."""


def subjects(requested: RolloutRequested) -> Mapping[str, tuple[str, ...]]:
    """Stream of each lease -> the names that the manifest has for that host; none for the service itself."""
    touched = {requested.revision.unit_host, requested.revision.gpu_host or requested.revision.unit_host}
    streams: dict[str, tuple[str, ...]] = {f"service-lease-{requested.service}": ()}
    for name in sorted(touched):
        stream = host_stream(requested.hosts[name])
        streams[stream] = (*streams.get(stream, ()), name)
    return streams


def host_stream(spec: HostSpec) -> str:
    """By address, since two manifests may call the same machine by different names."""
    return f"host-{spec.address}" if ":" in spec.address else f"host-{spec.address}:{spec.port}"


async def take(
    ports: Ports, hosts: Hosts, requested: RolloutRequested, key: str, attempt: int, session: int
) -> LeaseTaken:
    """Take, or take anew, every lease and mark the hosts. Raises LeaseHeld naming the holder; FencedOut if another
    rollout has had a host since this one did: then nothing of it may be touched any more; TakenOver if a later session
    has this rollout by now."""
    fresh: dict[str, int] = {}
    try:
        return await _take(ports, hosts, requested, key, attempt, session, fresh)
    except InterlockError:
        if key == "lease:0":
            await _give_back(ports, requested, fresh)
        raise


async def _take(
    ports: Ports,
    hosts: Hosts,
    requested: RolloutRequested,
    key: str,
    attempt: int,
    session: int,
    fresh: dict[str, int],
) -> LeaseTaken:
    again = key != "lease:0"
    if again and key != "lease:reverted":
        names = [name for names in subjects(requested).values() for name in names]
        recorded = await ports.events.read(stream_of(requested.rollout))
        await refuse_ahead(hosts, names, requested.rollout, recorded)
    if again and key != "lease:reverted":
        await _refuse_reverted(hosts, requested)
    until = (ports.now() + timedelta(seconds=ports.lease_s)).isoformat()
    still_ours = partial(_refuse_overtaken, ports, requested.rollout, session)
    taken: dict[str, int] = {}
    for stream in subjects(requested):
        taken[stream] = (await _append(ports, requested, stream, until, again, fresh, still_ours)).version
    fencing = {name: taken[stream] for stream, names in subjects(requested).items() for name in names}
    reverted = tuple([name for name, number in fencing.items() if await mark(hosts[name], number, still_ours)])
    return LeaseTaken(
        action=key,
        attempt=attempt,
        holder=ports.holder,
        until=until,
        fencing=fencing,
        reverted=reverted if again else (),
    )


async def _refuse_overtaken(ports: Ports, rollout: str, session: int) -> None:
    """Raises TakenOver if a later session goes on with the rollout: this one stood still for longer than its lease."""
    recorded = await ports.events.read(stream_of(rollout))
    if any(e.type == RolloutResumed.wire and e.data["session"] > session for e in recorded):
        raise TakenOver(rollout)


async def _refuse_reverted(hosts: Hosts, requested: RolloutRequested) -> None:
    """Raises HostReverted while the mark that says so is still there: it is written over only once that is recorded."""
    for names in subjects(requested).values():
        for name in names:
            if await has_reverted(hosts[name]):
                raise HostReverted(name)


async def renew(ports: Ports, requested: RolloutRequested, session: int) -> None:
    """Put the end of every lease further away; the fencing numbers stay. Raises TakenOver if the session is over."""
    still_ours = partial(_refuse_overtaken, ports, requested.rollout, session)
    until = (ports.now() + timedelta(seconds=ports.lease_s)).isoformat()
    for stream in subjects(requested):
        await _append(ports, requested, stream, until, True, {}, still_ours, numbered=False)


async def refuse_held(ports: Ports, requested: RolloutRequested) -> None:
    """Raises LeaseHeld if another rollout has one of the subjects: what is there now may not stay."""
    for stream in subjects(requested):
        (await _standing(ports, stream)).refuse_others(stream, requested.rollout, ports.now())


async def held_by(ports: Ports, requested: RolloutRequested) -> Lease:
    """The one of this rollout's leases that lasts longest; an empty one if it holds none."""
    leases = [await _standing(ports, stream) for stream in subjects(requested)]
    own = [lease for lease in leases if lease.rollout == requested.rollout]
    return max(own, key=lambda lease: datetime.fromisoformat(lease.until), default=Lease())


async def release(ports: Ports, requested: RolloutRequested) -> None:
    """Give every lease back that is still this rollout's, now or when the store is back."""
    for stream in subjects(requested):
        await say(ports, stream, SubjectReleased(rollout=requested.rollout))


async def _append(
    ports: Ports,
    requested: RolloutRequested,
    stream: str,
    until: str,
    again: bool,
    fresh: dict[str, int],
    still_ours: StillOurs | None = None,
    *,
    numbered: bool = True,
) -> Lease:
    """The lease as it is then, with `numbered` its number too; its version goes into `fresh` if this rollout did not
    have it before."""

    def event(lease: Lease) -> SubjectLeased:
        lease.refuse_others(stream, requested.rollout, ports.now())
        if again and lease.rollout != requested.rollout:
            raise FencedOut(stream, lease.number, "a later rollout's")
        if lease.rollout != requested.rollout:
            fresh[stream] = lease.version + 1
        return SubjectLeased(rollout=requested.rollout, holder=ports.holder, reason=requested.reason, until=until)

    try:
        return await _appending(ports, stream, event, still_ours, numbered=numbered)
    except LeaseHeld:
        if not await _void(ports, stream):
            raise
        return await _appending(ports, stream, event, still_ours, numbered=numbered)


async def _void(ports: Ports, stream: str) -> bool:
    """Give back a lease whose rollout has ended, if that is what is there: an orchestrator that stood still while
    another brought its rollout to the end may have taken it after that, and died."""
    lease = await _standing(ports, stream)
    history = await ports.events.read(stream_of(lease.rollout))
    ended = fold(map(decode, history))
    if not history or not ended.ended or (ended.concluded and ended.concluded.outcome == "stranded"):
        return False
    await _appending(ports, stream, lambda now: _released(now, lease.rollout))
    return True


async def _give_back(ports: Ports, requested: RolloutRequested, fresh: Mapping[str, int]) -> None:
    """Give back what this attempt took first; what another session of the rollout had, or has anew, is that one's."""
    for stream, version in fresh.items():

        def event(lease: Lease, own: int = version) -> SubjectReleased | None:
            return _released(lease, requested.rollout) if lease.version == own else None

        await _appending(ports, stream, event)


def _released(lease: Lease, rollout: str) -> SubjectReleased | None:
    return SubjectReleased(rollout=rollout) if lease.rollout == rollout else None


async def _appending(
    ports: Ports,
    stream: str,
    event: Callable[[Lease], SubjectLeased | SubjectReleased | None],
    still_ours: StillOurs | None = None,
    *,
    numbered: bool = False,
) -> Lease:
    """Append what `event` makes of the newest state; read again and decide anew when somebody else was first.

    `still_ours` is asked after the look and before the append: who goes on with the rollout later appends later."""
    while True:
        tail = await _tail(ports, stream, numbered=numbered)
        lease = lease_of(tail)
        decided = event(lease)
        if decided is None:
            return lease
        if still_ours is not None:
            await still_ours()
        try:
            return lease_of((*tail, *await ports.events.append(stream, lease.version, [encode(decided)])))
        except VersionConflict:
            continue


async def _standing(ports: Ports, stream: str) -> Lease:
    """Who has the lease until when; its number may be another."""
    return lease_of(await _tail(ports, stream, numbered=False))


async def _tail(ports: Ports, stream: str, *, numbered: bool) -> Sequence[RecordedEvent]:
    """As much of the stream's end as says how the lease stands: thousands of rollouts may have had it before."""
    count = TAIL
    while not whole(tail := await ports.events.read_last(stream, count), numbered=numbered):
        count *= 4
    return tail
