"""The server's parts, put together: the resident runner, Prefect beside it, what runs in its flow runs."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from deployments.serve.beside import PrefectBeside
from deployments.serve.catalogue import Contents, FolderCatalogue, Switch
from deployments.serve.marks import Marks
from deployments.serve.notes import Notebook
from deployments.serve.resident import Drive, Resident, bare
from flows.history import History
from flows.hold import asking
from flows.ports import Ports
from flows.prefect_home import PrefectHome
from flows.settings import Settings
from state.events import RolloutRequested, decode
from state.narrative import tell
from state.rollout import Rollout
from state.store.port import RecordedEvent

if TYPE_CHECKING:  # both import Prefect, which takes seconds
    from deployments.serve.dispatch import Dispatcher
    from deployments.serve.forms import Form
    from deployments.serve.inside import Inside

log = logging.getLogger("interlock.serve")

TELL_S = 10.0
"""Seconds that flow runs may take at a stop to tell Prefect how they ended."""


class ServeHome:
    """Implements `deployments.serve.offered.Home`. `url` is where the HTTP API is for this machine's programs."""

    def __init__(
        self, ports: Ports, catalogue: FolderCatalogue, prefect: PrefectHome, settings: Settings, url: str
    ) -> None:
        self.ports, self.catalogue, self._settings = ports, catalogue, settings
        self._notebook = Notebook(_log_event, log.warning)
        self._beside = PrefectBeside(prefect, self._with_prefect)
        marks = Marks(settings.data_dir / "serve" / "rollouts")
        self.resident = Resident(ports, marks, self._drive, self._notebook.watched)
        self.resident.parts["prefect"] = lambda: self._beside.up
        self.resident.parts["schedules"] = lambda: self._beside.up or not self._switches
        self._api_url = settings.api_url or url
        self._inside: Inside | None = None
        self._dispatcher: Dispatcher | None = None
        self._mistakes: tuple[str, ...] = ()
        self._switches: tuple[Switch, ...] = ()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator["asyncio.Future[None]"]:
        """Everything in the background; the future ends only if a part of it fails."""
        self._take_in(await self.catalogue.contents())
        parts = [
            asyncio.create_task(self._beside.for_ever(), name="prefect"),
            asyncio.create_task(self.resident.recover_for_ever(self._settings.recover_every_s), name="recovery"),
        ]
        try:
            yield asyncio.ensure_future(_all_of(parts))
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await self._beside.stop()

    async def stop(self, grace_s: float) -> None:
        """Rollouts first; then the flow runs that show them."""
        if self._dispatcher is not None:
            self._dispatcher.close()
        await self.resident.stop(grace_s)
        if self._dispatcher is not None:
            await self._dispatcher.drained(TELL_S)

    async def drive(self, requested: RolloutRequested) -> Rollout:
        await self.resident.start(requested, self._inside_this_flow_run())
        return await self.resident.ended(requested.rollout)

    async def recover(self, rollout: str, *, take_over: bool) -> Rollout | None:
        if not rollout:
            await self.resident.recover_all()
            return None
        await self.resident.recover(rollout, take_over=take_over, drive=self._inside_this_flow_run())
        return await self.resident.ended(rollout)

    async def free(self, service: str) -> None:
        await self.resident.free(service)

    def _inside_this_flow_run(self) -> Drive:
        assert self._inside is not None  # no flow run runs here before Prefect answered
        return self._inside.in_this_flow_run

    async def _drive(self, history: History) -> Rollout:
        """Where nothing else is said: in a flow run of its own while Prefect answers, without one while it does not."""
        if self._inside is None or not self._beside.up:
            return await bare(history)
        return await self._inside.in_own_flow_run(history)

    async def _with_prefect(self) -> None:
        """While Prefect's server answers."""
        from deployments.serve.dispatch import Dispatcher
        from deployments.serve.inside import Inside, evidence_url

        self._inside = self._inside or Inside(self._notebook, evidence_url(self._api_url))
        alone = not self._beside.home.given
        self._dispatcher = Dispatcher(self, self._forms, self._inside.flow_runs, self.resident.cancel, alone=alone)
        await self._dispatcher.for_ever()

    async def _forms(self) -> "tuple[Form, ...]":
        """What is offered now. Mistakes on file are logged when they are new."""
        from deployments.serve.forms import forms

        contents = await self.catalogue.contents()
        self._take_in(contents)
        return forms(contents, await self._services(contents), await self._asking())

    async def _services(self, contents: Contents) -> list[str]:
        """On file, or with a revision that was proven."""
        known = [stream.removeprefix("service-") for stream in await self.ports.events.streams("service-")]
        return sorted({*contents.services, *(name for name in known if not name.startswith("lease-"))})

    async def _asking(self) -> list[str]:
        """The rollouts driven here that ask a person, newest first."""
        found = [await History(self.ports, rollout).load() for rollout in self.resident.under_way.values()]
        return [r.requested.rollout for r in reversed(found) if r.requested and asking(r)]

    def _take_in(self, contents: Contents) -> None:
        """Tell what is new on file: mistakes, and switches by schedule, which run while Prefect does."""
        found = tuple(str(mistake) for mistake in contents.mistakes)
        for sentence in found:
            if sentence not in self._mistakes:
                log.error("%s", sentence)
        for switch in contents.switches:
            if switch not in self._switches:
                said = "" if self._beside.up else "; schedules are not running until Prefect answers"
                when, told = f"{switch.cron} ({switch.timezone})", {"service": switch.service}
                log.info("by schedule: %s at %s%s", switch.revision, when, said, extra=told)
        self._mistakes, self._switches = found, contents.switches


async def _all_of(parts: "list[asyncio.Task[None]]") -> None:
    await asyncio.gather(*parts)


def _log_event(rollout: str, folded: Rollout, recorded: RecordedEvent) -> None:
    """Each line of the rollout's story."""
    if told := tell(decode(recorded)):
        mark, title, text = told
        service = folded.requested.service if folded.requested else None
        level = logging.WARNING if mark == "failed" else logging.INFO
        log.log(level, "%s: %s", title, text, extra={"rollout": rollout, "service": service})
