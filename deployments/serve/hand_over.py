"""Handing a rollout over from the command line to the server of the same data directory, and watching it there."""

import asyncio
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployments.serve.reach import Reach, is_served, reach
from flows.history import History
from flows.ports import Ports
from flows.settings import Settings
from flows.uncut import in_spite_of_cancellation
from state.errors import InterlockError, Refused, StoreUnavailable
from state.events import decode
from state.rollout import Rollout, evolve

LOOK_EVERY_S = 0.2
ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of the HTTP API: its path, its body."""

    path: str
    body: Mapping[str, Any]


async def served_here(settings: Settings) -> Reach | None:
    """The server that drives what is asked for here: of this data directory, and on the same event store."""
    found = await reach(settings.data_dir)
    return found if found is not None and found.store == settings.store_digest else None


async def handed_over(served: Reach, asked: Asked, ports: Ports) -> Rollout:
    """The rollout at its end, its events shown by the watch of `ports` as they come. A cancellation is handed over as
    well, and the safe end waited for. Raises what the server's refusal says."""
    rollout = (await _ask(served, asked))["rollout"]
    following = _Following(ports, rollout)
    try:
        return await following.to_the_end()
    except asyncio.CancelledError:
        await in_spite_of_cancellation(_turn_back(served, rollout))
        return await in_spite_of_cancellation(following.to_the_end())


async def _turn_back(served: Reach, rollout: str) -> None:
    """What is said no to (it has ended, or the server is stopping) is on its way to an end anyway."""
    try:
        await _ask(served, Asked(f"/rollouts/{rollout}/cancel", {}))
    except InterlockError as error:
        print(f"the server does not turn it back: {error}", file=sys.stderr)


class _Following:
    """Reads a rollout's stream as it grows."""

    def __init__(self, ports: Ports, rollout: str) -> None:
        self._ports, self._history = ports, History(ports, rollout)
        self._told_gone = False

    async def to_the_end(self) -> Rollout:
        history = self._history
        while not history.rollout.ended:
            try:
                found = await self._ports.events.read(history.stream, history.version)
            except StoreUnavailable:  # the server spools meanwhile
                found = ()
            for recorded in found:
                history.version, history.rollout = recorded.version, evolve(history.rollout, decode(recorded))
                self._ports.watch.recorded(history.rollout, recorded)
            if not found:
                self._tell_if_gone()
                await asyncio.sleep(LOOK_EVERY_S)
        return history.rollout

    def _tell_if_gone(self) -> None:
        if not self._told_gone and not is_served(Settings().data_dir):
            self._told_gone = True
            way_on = f"the next one, or `interlock recover {self._history.rollout_id}`, goes on with it"
            print(f"the server is gone in the middle of the rollout; {way_on}; still watching", file=sys.stderr)


async def _ask(served: Reach, asked: Asked) -> dict[str, Any]:
    """The answer's object. Raises the refusal as an error of the tree, Refused for no answer."""
    import httpx  # not for a command that is not handed over

    headers = {"Authorization": f"Bearer {served.token}", "Idempotency-Key": secrets.token_hex(16)}
    async with httpx.AsyncClient(base_url=f"{served.url}/api/v1", trust_env=False, timeout=ANSWER_S) as client:
        try:
            answer = await client.post(asked.path, json=asked.body, headers=headers)
        except httpx.TransportError as error:
            hint = "its log says why, `interlock history` what was begun; `--bare` does without it"
            raise Refused(f"The server at {served.url} does not answer: {error!r}", hint=hint) from error
    found: dict[str, Any] = answer.json()
    if answer.is_success:
        return found
    raise _refusal(found)


def _refusal(problem: Mapping[str, Any]) -> InterlockError:
    """The error that a problem document tells of, with its exit code."""
    mistakes = [str(mistake.get("sentence")) for mistake in problem.get("mistakes") or ()]
    cls = _BY_CODE.get(str(problem.get("code")), Refused)
    made = cls.__new__(cls)
    InterlockError.__init__(made, "\n".join([str(problem.get("detail")), *mistakes]), hint=str(problem.get("hint", "")))
    return made


def _tree(cls: type[InterlockError]) -> list[type[InterlockError]]:
    return [cls, *(below for child in cls.__subclasses__() for below in _tree(child))]


_BY_CODE: Mapping[str, type[InterlockError]] = {cls.__new__(cls).code: cls for cls in _tree(InterlockError)}
