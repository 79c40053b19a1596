"""Invariants that are looked at while it happens: at every change that is sent to a host, and at every append."""

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flows.history import stream_of
from flows.lease import subjects
from state.errors import NotFound
from state.leases import SubjectLeased, SubjectReleased, lease_of
from state.store.export import refs_in
from state.store.port import NewEvent
from tasks.argv import FENCE
from tasks.hosts.port import Argv

if TYPE_CHECKING:
    from tests.simulation.orchestrator import Orchestrator
    from tests.simulation.world import World

_FENCED = "must grep -qxF -- "
_READS = ("must grep -oE", "must dmesg")
"""What is read as root by a script."""

_STOPS = re.compile(r"-do-\d+-stop-service\.service")
"""In the name of the transient unit that stops it; that of the way back starts it again."""

_UNMARKED = f"must test '!' -s {FENCE}"
_RENEWAL = "must systemctl restart -- interlock-revert-"


def changes(argv: Argv) -> bool:
    """Whether an argv changes a host; reads as root do not."""
    first = argv.words[0]
    if not argv.root or first not in ("systemd-run", "tee", "/bin/sh"):
        return False
    return first != "/bin/sh" or not any(read in argv.words[-1] for read in _READS)


def script_of(argv: Argv) -> str:
    return argv.words[-1] if argv.words[-2:-1] == ("-c",) else ""


def number_of(argv: Argv) -> str | None:
    """The fencing number that a script compares with the host's, None for one that compares none."""
    for line in script_of(argv).splitlines():
        if line.startswith(_FENCED) and line.endswith(FENCE):
            return shlex.split(line)[-2]
    return None


def _last_words(argvs: Sequence[Argv]) -> str:
    return "; ".join((script_of(argv) or argv.words[0]).splitlines()[-1] for argv in argvs)


def renews(argv: Argv) -> bool:
    return _RENEWAL in script_of(argv)


class Watch:
    """Looks at what an orchestrator is about to do. What is wrong goes into `world.broken`, which ends nothing."""

    def __init__(self, world: "World") -> None:
        self._world = world

    async def change(self, who: "Orchestrator", host: str, argvs: Sequence[Argv]) -> None:
        """What the host will not refuse is sent by a rollout that holds it, with the intent in the history."""
        if any(argv.words[0] == "tee" for argv in argvs):
            await self._litter(who, host, argvs)
        effective = [argv for argv in argvs if changes(argv) and not self._refused(host, argv)]
        if effective:
            await self._by_the_holder(who, host, effective)
        if not all(renews(argv) for argv in effective):
            self._intended(who, host, effective)
        if effective:
            self._one_at_once(host)
        if any(_STOPS.search(word) for argv in effective for word in argv.words if argv.words[0] == "systemd-run"):
            await self._stop_is_stored(who)

    async def _stop_is_stored(self, who: "Orchestrator") -> None:
        """The service is never stopped on an intent that is only spooled."""
        stored = await self._world.store.read(stream_of(who.requested.rollout))
        if not any(str(event.data.get("action")).endswith(":stop-service") for event in stored):
            self._tell("stop-is-stored", f"{who.name} stops the service, and the store knows of no intent")

    async def _litter(self, who: "Orchestrator", host: str, argvs: Sequence[Argv]) -> None:
        """What is uploaded late by an orchestrator that was away: nobody uses it, and nobody may remove it."""
        if (await self._holder(who, host)) != who.requested.rollout:
            self._world.litter |= {argv.words[-1] for argv in argvs if argv.words[0] == "tee"}

    async def _holder(self, who: "Orchestrator", host: str) -> str:
        stream = next(s for s, names in subjects(who.requested).items() if host in names)
        return lease_of(await self._world.store.read(stream)).rollout

    def _refused(self, host: str, argv: Argv) -> bool:
        """A script that carries another number than the host, or a mark that was looked at before another's was
        written. Uploads replace nothing, since their names hold a digest or the rollout: they count as refused too."""
        files = self._world.hosts[host].files
        carried = files.read(FENCE).decode().strip() if files.exists(FENCE) else ""
        first_mark = _UNMARKED in script_of(argv)
        return argv.words[0] == "tee" or number_of(argv) not in (None, carried) or bool(first_mark and carried)

    async def referred(self, events: Sequence[NewEvent]) -> None:
        """The evidence that an event refers to is stored before it."""
        for event in events:
            for ref in refs_in(dict(event.data)):
                try:
                    await self._world.evidence.get(ref.digest)
                except NotFound:
                    self._tell("evidence-first", f"{event.type} refers to {ref.digest[:12]}, which is not stored")

    async def appended(self, stream: str, after_version: int, events: Sequence[NewEvent]) -> None:
        """A lease passes from one rollout to another only by being given back."""
        if not stream.startswith(("host-", "service-lease-")):
            return
        held = lease_of((await self._world.store.read(stream))[:after_version])
        for event in events:
            rollout = event.data["rollout"]
            if event.type == SubjectLeased.wire and held.rollout not in ("", rollout):
                self._tell("one-holder", f"{stream} passes from {held.rollout} to {rollout}")
            if event.type == SubjectReleased.wire and held.rollout != rollout:
                self._tell("one-holder", f"{rollout} gives back {stream}, which {held.rollout or 'nobody'} holds")

    async def _by_the_holder(self, who: "Orchestrator", host: str, argvs: Sequence[Argv]) -> None:
        holder = await self._holder(who, host)
        if holder != who.requested.rollout:
            self._tell("one-holder", f"{who.name} changes {host}, held by {holder or 'nobody'}: {_last_words(argvs)}")

    def _intended(self, who: "Orchestrator", host: str, argvs: Sequence[Argv]) -> None:
        """The newest attempt of this orchestrator has no fact yet."""
        for wire in reversed(who.types):
            if wire == "action-started":
                return
            if wire not in ("cancel-requested", "rollout-resumed"):
                self._tell("intent-before-effect", f"{who.name} changes {host} after `{wire}`: {_last_words(argvs)}")
                return

    def _one_at_once(self, host: str) -> None:
        """Two steps' units never run at once on a host, nor one beside the host's own restoring."""
        services = self._world.hosts[host].systemd.services
        running = [
            n for n, s in services.items() if n.startswith("interlock-") and s.status.sub in ("start", "running")
        ]
        steps = [n for n in running if not n.startswith("interlock-rebind-")]
        if len(steps) > 1:
            self._tell("one-step-at-once", f"{host} runs {' and '.join(steps)}")

    def _tell(self, name: str, detail: str) -> None:
        self._world.broken.append(f"{name}: {detail}")
