"""`interlock recover`: going on with rollouts that an orchestrator left unfinished."""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from rich.console import Console

from deployments.run import print_error, report, watching
from flows.history import History, full_id
from flows.ports import Ports
from flows.recovery import left_behind
from flows.session import recover as go_on_with
from flows.session import resume
from state.errors import InterlockError, LeaseHeld, Stranded, UsageInvalid
from state.rollout import Rollout

Going = Callable[[Ports, str], Awaitable[Rollout]]


async def recover(console: Console, rollout: str, *, as_json: bool, take_over: bool) -> int:
    """Go on with one rollout, or with every unfinished one that nobody drives any more.

    `take_over` goes on with the named one whatever its lease says. If its orchestrator lives after all, its next
    append or step is refused: the stream's version and the host's fencing number are no longer its own.

    What keeps one from being gone on with does not keep the others; the exit code is the highest of all. A stranded
    one waits for a person, so it is only told, unless it is named.
    """
    if take_over and not rollout:
        raise UsageInvalid("--take-over needs the rollout to take over", hint="`interlock history` lists them")
    async with watching(console, as_json) as ports:
        if rollout:
            going = resume if take_over else go_on_with
            ended, code, left = [await _gone_on(ports, await full_id(ports, rollout), going)], 0, 0
        else:
            ended, code, left = await _every(ports)
    if not (ended or code or as_json):
        console.print(_NOTHING_ELSE if left else "nothing to recover: every rollout has ended")
    return max(code, report(console, ended, as_json=as_json, as_list=not rollout))


_MEND = "mend what `interlock show {0}` names, then try its way back again: interlock recover {0}"
_NOTHING_ELSE = (
    "nothing else to recover; if an orchestrator above is gone, `interlock recover --take-over ROLLOUT` does not wait "
    "for its lease"
)


async def _every(ports: Ports) -> tuple[list[Rollout], int, int]:
    """Those that were gone on with, the highest exit code, and how many were left to their orchestrators."""
    ended: list[Rollout] = []
    code = left = 0
    behind = await left_behind(ports)
    for name in behind.stranded:
        code = Stranded.exit_code
        print_error(f"rollout {name} is stranded, and its hosts are kept from every other", hint=_MEND.format(name))
    for name in behind.unfinished:
        try:
            ended.append(await _gone_on(ports, name))
        except LeaseHeld as held:
            left += 1
            print(f"left alone: {held}", file=sys.stderr)
        except InterlockError as error:
            print_error(str(error), error.hint)
            code = max(code, error.exit_code)
        if ended and ended[-1].cancelled:
            break
    return ended, code, left


async def _gone_on(ports: Ports, name: str, going: Going = go_on_with) -> Rollout:
    """The rollout at its end; an interruption has turned it into a safe one."""
    try:
        return await going(ports, name)
    except asyncio.CancelledError:
        return await History(ports, name).load()
