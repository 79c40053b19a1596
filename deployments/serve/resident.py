"""The resident runner: drives rollouts in this process, one for a service at a time, each in a task of its own.

The record is the rollout's own stream, as everywhere; what is kept here is only who is being driven.
"""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from deployments.serve.marks import Marks
from flows.history import History, stream_of
from flows.ports import Ports, Watch
from flows.recovery import unfinished_rollouts
from flows.retrying import retrying
from flows.session import cancel, go_on, refuse_driven, requested_history, resumed_history
from state.errors import InterlockError, LeaseHeld, NotFound, Refused, StoreUnavailable, VersionConflict
from state.events import RolloutRequested
from state.rollout import Rollout

log = logging.getLogger("interlock.serve")

Drive = Callable[[History], Awaitable[Rollout]]
"""Drives a rollout from where its history stands to its end, in the task that calls it."""

Watched = Callable[[str], Watch]
"""By rollout: who is told what happens in it."""


async def bare(history: History) -> Rollout:
    """Without Prefect."""
    return await go_on(history, retrying)


@dataclass(frozen=True, slots=True)
class Run:
    """A rollout that is being driven here."""

    history: History
    requested: RolloutRequested
    task: "asyncio.Task[Rollout]"


class Resident:
    """Implements `deployments.api.ports.Starter`. `drive` is how rollouts are driven that nothing else is said of."""

    def __init__(
        self, ports: Ports, marks: Marks, drive: Drive = bare, watched: Watched = lambda _rollout: Watch()
    ) -> None:
        self._ports, self._marks, self._drive, self._watched = ports, marks, drive, watched
        self._runs: dict[str, Run] = {}
        self._services: dict[str, str] = {}
        self._closing = False
        self._hurry = asyncio.Event()
        self.parts: dict[str, Callable[[], bool]] = {"runner": lambda: not self._closing}
        self._left_by_predecessor = marks.all()

    @property
    def under_way(self) -> Mapping[str, str]:
        """Services with the rollouts that are being driven here."""
        return dict(self._services)

    async def ready(self) -> Mapping[str, bool]:
        return {part: works() for part, works in self.parts.items()}

    async def start(self, requested: RolloutRequested, drive: Drive | None = None) -> None:
        """Record the request durably, and drive it. With a `drive` of its own, in the caller's context.

        Raises LeaseHeld while another rollout of the service is driven here, Refused while this is stopping,
        VersionConflict if there is a stream for that rollout already, StoreUnavailable.
        """
        if requested.rollout in (*self._runs, *self._services.values()):
            raise VersionConflict(stream_of(requested.rollout), 0, 1)
        self._admit(requested)
        try:
            history = await requested_history(self._ports_for(requested.rollout), requested)
        except InterlockError:
            self._services.pop(requested.service, None)
            raise
        self._launch(history, requested, drive)

    async def recover(self, rollout: str, *, take_over: bool = False, drive: Drive | None = None) -> None:
        """Go on with a rollout whose orchestrator is gone, in the background.

        Raises NotFound; LeaseHeld while its orchestrator may be alive (unless `take_over`) or its service is being
        changed here; Refused while this is stopping.
        """
        if rollout in self._runs:
            return
        if not take_over:
            await refuse_driven(self._ports, rollout)
        found = await History(self._ports, rollout).load()
        requested = found.requested
        if requested is None:
            raise NotFound("rollout", rollout)
        self._admit(requested)
        try:
            history = await resumed_history(self._ports_for(rollout), rollout)
        except InterlockError:
            self._services.pop(requested.service, None)
            raise
        self._launch(history, requested, drive)

    async def recover_all(self) -> tuple[str, ...]:
        """Go on with every unfinished rollout that nobody drives any more; their ids. What keeps one from being gone
        on with is logged, and does not keep the others."""
        begun: list[str] = []
        for rollout in await unfinished_rollouts(self._ports):
            if rollout in self._runs or self._closing:
                continue
            try:
                await self.recover(rollout, take_over=await self._was_predecessors(rollout))
                begun.append(rollout)
            except LeaseHeld as held:
                log.debug("left alone: %s", held, extra={"rollout": rollout})
            except InterlockError as error:
                log.error("cannot go on with it: %s", error, extra={"rollout": rollout, "error": error.code})
        self._left_by_predecessor = {}
        return tuple(begun)

    async def recover_for_ever(self, every_s: float) -> None:
        """Look for what was left behind at once, and then every `every_s` seconds."""
        while True:
            try:
                begun = await self.recover_all()
            except InterlockError as error:
                log.error("cannot look for unfinished rollouts: %s", error, extra={"error": error.code})
            else:
                for rollout in begun:
                    log.warning("going on with a rollout that was left unfinished", extra={"rollout": rollout})
            await asyncio.sleep(every_s)

    async def cancel(self, rollout: str, actor: str) -> bool:
        run = self._runs.get(rollout)
        if run is None:
            return False
        _turn_back(run, actor)
        return True

    async def ended(self, rollout: str) -> Rollout:
        """How a rollout that was started here ended, as its history says. Cancelling the wait cancels nothing else."""
        run = self._runs.get(rollout)
        if run is not None:
            await asyncio.wait([run.task])
        return await History(self._ports, rollout).load()

    async def free(self, service: str) -> None:
        """Wait until no rollout of the service is driven here."""
        while (run := self._runs.get(self._services.get(service, ""))) is not None:
            await asyncio.wait([run.task])

    async def stop(self, grace_s: float) -> None:
        """Take no new ones; give those under way `grace_s` seconds to end, then turn them back, each to a safe end."""
        self._closing = True
        if not self._runs:
            return
        log.warning("stopping: %d rollouts may go on for %g s", len(self._runs), grace_s)
        hurried = asyncio.ensure_future(self._hurry.wait())
        ending = asyncio.ensure_future(asyncio.wait(self._tasks()))
        await asyncio.wait((hurried, ending), timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        for run in tuple(self._runs.values()):
            _turn_back(run, f"{self._ports.holder}, which is stopping")
        await ending

    def hurry(self) -> None:
        """End the grace of a stop at once."""
        self._closing = True
        self._hurry.set()

    def _tasks(self) -> "list[asyncio.Task[Rollout]]":
        return [run.task for run in self._runs.values()]

    async def _was_predecessors(self, rollout: str) -> bool:
        """Whether the server that had this data directory before drove it, and nobody has since: that one is dead."""
        session = self._left_by_predecessor.get(rollout)
        return session is not None and (await History(self._ports, rollout).load()).session <= session

    def _admit(self, requested: RolloutRequested) -> None:
        """Keep the service for this rollout, before anything is awaited."""
        if self._closing:
            raise Refused("This server is stopping", hint="nothing was touched; ask again once it is back")
        held = self._services.get(requested.service)
        if held is not None:
            reason = f"rollout {held} is under way"
            until = self._ports.now() + timedelta(seconds=self._ports.lease_s)
            raise LeaseHeld(requested.service, self._ports.holder, reason, until.isoformat(timespec="seconds"))
        self._services[requested.service] = requested.rollout

    def _ports_for(self, rollout: str) -> Ports:
        return replace(self._ports, watch=self._watched(rollout))

    def _launch(self, history: History, requested: RolloutRequested, drive: Drive | None) -> None:
        rollout = requested.rollout
        with suppress(OSError):  # its loss costs a wait, see Marks
            self._marks.set(rollout, history.rollout.session)
        context = contextvars.Context() if drive is None else contextvars.copy_context()
        driven = _driven(drive or self._drive, history)
        task = asyncio.get_running_loop().create_task(driven, name=f"rollout {rollout}", context=context)
        self._runs[rollout] = Run(history, requested, task)
        task.add_done_callback(lambda done: self._forget(rollout, requested.service, done))

    def _forget(self, rollout: str, service: str, task: "asyncio.Task[Rollout]") -> None:
        run = self._runs.pop(rollout)
        self._services.pop(service, None)
        with suppress(OSError):
            self._marks.remove(rollout)
        _tell_end(run, None if task.cancelled() else task.exception())


async def _driven(drive: Drive, history: History) -> Rollout:
    """A cancellation has turned into a safe end when it comes out; where it came before anything was begun, it does so
    here. A store that is lost once the end is recorded changes nothing about that end."""
    try:
        return await drive(history)
    except asyncio.CancelledError:
        return await cancel(history)
    except StoreUnavailable:
        if history.rollout.concluded is None:
            raise
        return history.rollout


def _turn_back(run: Run, actor: str) -> None:
    if not run.history.canceller:  # not again: the first one is on its way to a safe end
        run.history.canceller = actor
        run.task.cancel()


def _tell_end(run: Run, error: BaseException | None) -> None:
    rollout, told = run.history.rollout, {"rollout": run.requested.rollout, "service": run.requested.service}
    if error is not None:
        code = error.code if isinstance(error, InterlockError) else type(error).__name__
        unexpected = None if isinstance(error, InterlockError) else error
        log.error("broke off: %s", error, extra={**told, "error": code}, exc_info=unexpected)
    elif rollout.concluded is not None:
        level = logging.INFO if rollout.concluded.exit_code == 0 else logging.WARNING
        log.log(level, "ended: %s", rollout.concluded.summary, extra={**told, "outcome": rollout.concluded.outcome})
