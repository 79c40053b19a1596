"""`interlock answer`: answering the question of a rollout that holds."""

from rich.console import Console

from deployments.run import print_json
from flows.history import full_id
from flows.hold import answer_hold
from flows.settings import Settings
from flows.wiring import wired
from state.hold import Answer


async def answer(console: Console, rollout: str, word: Answer, *, reason: str, as_json: bool) -> int:
    """Record the answer; whoever drives the rollout goes on with it."""
    async with wired(Settings()) as (ports, _):
        name = await full_id(ports, rollout)
        given = await answer_hold(ports, name, word, ports.holder, reason)
    if as_json:
        print_json({"rollout": name, **given.as_json()})
    else:
        console.print(
            f"rollout {name} is answered: {given.answer}; its orchestrator goes on with that", highlight=False
        )
        console.print(f"if that is gone: `interlock recover {name}`", style="dim", highlight=False)
    return 0
