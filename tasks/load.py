"""Passes of our own requests under load: the same prompts in the same order at a level of concurrency, each timed.

Closed loop: as many requests go on at once as the level says, and a place that falls free takes the next one. The rate
and the seconds bound it, and the first request without a whole answer ends it: nobody is asked on and on.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from state.claims import Claim
from state.engines.engine import Engine
from state.load_record import request_record
from state.smoke import Question
from state.traffic import Order, questions, requests_in_pass
from tasks.endpoint import Clock, Endpoint

REQUEST_TIMEOUT_S = 180.0
ANSWER_TIMEOUT_S = 60.0
ANSWER_TOKENS = 64
SOONEST_S = 0.05
"""A request gets so long at least: a budget that is over shows as one that is cut, not as an error of the service."""


@dataclass
class Pace:
    """Lets requests start, `rate` a second at most and none in a burst (None: at once)."""

    rate: float | None
    clock: Clock
    free_at: float = 0.0

    async def wait(self) -> float:
        """Seconds that the start was held back."""
        if self.rate is None:
            return 0.0
        now = self.clock()
        due = max(now, self.free_at)
        self.free_at = due + 1 / self.rate
        await asyncio.sleep(due - now)
        return due - now


@dataclass(frozen=True, slots=True)
class Load:
    """One round's load on one side."""

    endpoint: Endpoint
    engine: Engine
    model: str
    order: Order
    clock: Clock
    pace: Pace


@dataclass
class _Pass:
    """A pass under way: which requests are still to come, what they brought, and whether it must end early."""

    level: int
    name: str
    until: float
    left: Iterator[int]
    requests: dict[int, dict[str, Any]] = field(default_factory=dict)
    held_back_s: float = 0.0
    cut: bool = False
    silent: bool = False


async def measure(endpoint: Endpoint, engine: Engine, model: str, order: Order, clock: Clock) -> list[dict[str, Any]]:
    """The passes of the order, level by level, each with an equal share of the time that is left. Shapes as
    `state.performance` says. Raises what the host raises."""
    load = Load(endpoint, engine, model, order, clock, Pace(order.traffic.rate, clock))
    end, found = clock() + order.seconds, list[dict[str, Any]]()
    for index, level in enumerate(order.levels):
        until = clock() + (end - clock()) / (len(order.levels) - index)
        found += await _level(load, level, until)
        if found and found[-1]["silent"]:
            break
    return found


async def _level(load: Load, level: int, until: float) -> list[dict[str, Any]]:
    """A pass that warms up, then measured ones, while another as long as the longest still fits in."""
    order = load.order
    names = [f"w{order.round}", *map(str, range(order.first_pass, order.first_pass + order.passes))]
    found: list[dict[str, Any]] = []
    for index, name in enumerate(names):
        if load.clock() + max((p["seconds"] for p in found), default=0.0) > until:
            break
        found.append({**await _pass(load, level, name, until), "warm_up": index == 0})
        if found[-1]["cut"] or found[-1]["silent"]:
            break
    return found


async def _pass(load: Load, level: int, name: str, until: float) -> dict[str, Any]:
    under_way = _Pass(level, name, until, iter(range(requests_in_pass(level))))
    begun = load.clock()
    workers = [asyncio.ensure_future(_work(load, under_way)) for _ in range(level)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    took = load.clock() - begun
    requests = [under_way.requests[index] for index in sorted(under_way.requests)]
    return {
        "concurrency": level,
        "pass": name,
        "seconds": round(took, 6),
        "tokens": sum(request["tokens"] or 0 for request in requests),
        "held_back": round(under_way.held_back_s / (level * took), 4) if took > 0 else 0.0,
        "cut": under_way.cut,
        "silent": under_way.silent,
        "requests": requests,
    }


async def _work(load: Load, under_way: _Pass) -> None:
    """One place: the next request as soon as the last has ended."""
    for index in under_way.left:
        under_way.held_back_s += await load.pace.wait()
        if under_way.cut or under_way.silent:
            return
        under_way.requests[index] = await _request(load, under_way, index)


async def _request(load: Load, under_way: _Pass, index: int) -> dict[str, Any]:
    traffic = load.order.traffic
    left = max(SOONEST_S, under_way.until - load.clock())
    prompt = traffic.prompt(load.order.salt, under_way.name, index)
    asked = load.engine.load(load.model, prompt, traffic.tokens)
    heard = await load.endpoint.listen(asked, timeout_s=min(REQUEST_TIMEOUT_S, left))
    if heard.error and left < REQUEST_TIMEOUT_S and heard.seconds >= 0.99 * left:
        under_way.cut = True
    elif heard.error:
        under_way.silent = True
    record = request_record(heard.status, heard.error, heard.seconds, heard.lines, traffic.tokens, prompt)
    return {"prompt": index % len(traffic.prompts), **record}


async def quiz(endpoint: Endpoint, engine: Engine, model: str, order: Order, clock: Clock) -> list[dict[str, Any]]:
    """The questions of each claim in turn, as many at once as it says, with an equal share of the time for each claim;
    until one is silent. An asking is a sample: a question that is asked again may be answered otherwise, since other
    sequences are decoded beside it."""
    pace = Pace(order.traffic.rate, clock)
    end, found = clock() + order.seconds, list[dict[str, Any]]()
    for index, claim in enumerate(order.quizzes):
        until = clock() + (end - clock()) / (len(order.quizzes) - index)
        level, asked = int(claim.conditions["concurrency"]), _askings(order, claim)
        for group in (asked[i : i + level] for i in range(0, len(asked), level)):
            if clock() >= until or any(one["status"] == 0 for one in found):
                break
            found += await asyncio.gather(*(_asking(endpoint, engine, model, pace, claim, q) for q in group))
    return found


def _askings(order: Order, claim: Claim) -> Sequence[Question]:
    """Each question once at least in the first round."""
    known = questions(claim)
    count = order.askings if order.first_asking else max(order.askings, len(known))
    return [known[(order.first_asking + i) % len(known)] for i in range(count)]


async def _asking(
    endpoint: Endpoint, engine: Engine, model: str, pace: Pace, claim: Claim, question: Question
) -> dict[str, Any]:
    await pace.wait()
    asked = engine.chat(model, question.prompt, ANSWER_TOKENS, stream=False)
    got = await endpoint.ask(asked, timeout_s=ANSWER_TIMEOUT_S)
    reply = engine.reply(got.body) if got.ok else None
    text = reply.text if reply else ""
    return {
        "claim": claim.name,
        "prompt": question.prompt,
        "right": question.right(text) if reply else False,
        "status": got.status,
        "seconds": round(got.seconds, 3),
        "shown": text.strip()[:200] or got.error or f"HTTP {got.status}",
    }
