"""Our own requests: checkable questions at concurrency one and two, and generations long enough to verify drafts."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from state.contracts import Probe, probes
from state.engines.engine import Drafting, Engine, HttpQuestion
from state.inspection.answer import read_answer
from state.smoke import QUESTIONS, Question, degenerate
from state.target import Target
from state.traffic import PAIR, Order
from tasks.endpoint import Answer, Endpoint

Item = TypeVar("Item")

ANSWER_TIMEOUT_S = 60.0
PAIR_TIMEOUT_S = 180.0
"""For two long generations at once; an engine may have room for one alone, so more of them get as much longer."""

ANSWER_TOKENS = 64
CONTRACT_TOKENS = 256
GENERATION_TOKENS = 256
"""At an accept length of 3 that is two decode records at the default interval of 40 forwards."""


async def checkable_answers(endpoint: Endpoint, engine: Engine, model: str) -> list[dict[str, Any]]:
    """Every question once: some alone, some two at a time, the last two streamed. A server that does not answer is not
    asked on and on: the first silence ends it."""
    asked = [(question, index >= len(QUESTIONS) - 2) for index, question in enumerate(QUESTIONS)]
    answers: list[dict[str, Any]] = []
    for group in (asked[:1], asked[1:2], asked[2:4], asked[4:6], asked[6:]):
        if _silent(answers):
            break
        answers += await asyncio.gather(*(_answer(endpoint, engine, model, *one, len(group)) for one in group))
    return answers


async def generations(endpoint: Endpoint, engine: Engine, order: Order, least_s: float = 0.0) -> list[dict[str, Any]]:
    """At least the order's generations of 256 tokens, for at least `least_s` seconds, as many at once as it says; until
    one is silent. Where single answers do not tell their acceptance, the first of each group has what was counted
    meanwhile."""
    clock = asyncio.get_running_loop().time
    end = clock() + least_s
    found: list[dict[str, Any]] = []
    prompts, before = order.traffic.prompts, await _counters(endpoint, engine)
    while (len(found) < order.generations or clock() < end) and not _silent(found):
        size = min(order.at_once, max(PAIR, order.generations - len(found)))
        group = [prompts[(len(found) + place) % len(prompts)] for place in range(size)]
        timeout_s = PAIR_TIMEOUT_S * size / PAIR
        records = await asyncio.gather(*(_generation(endpoint, engine, prompt, timeout_s) for prompt in group))
        after = await _counters(endpoint, engine) if before else None
        if before and after:
            counted = {"drafts": after.drafts - before.drafts, "accepted": after.accepted - before.accepted}
            records[0]["counted"] = counted
        before = after
        found += records
    return found


async def _counters(endpoint: Endpoint, engine: Engine) -> Drafting | None:
    """None where the engine has none, or does not answer."""
    got = await endpoint.ask(engine.probes()["metrics"], timeout_s=ANSWER_TIMEOUT_S)
    return engine.counters(got.body.decode("utf-8", "replace")) if got.ok else None


async def contracts(endpoint: Endpoint, engine: Engine, model: str, offers: Sequence[str]) -> list[dict[str, Any]]:
    """Every probe of what is offered: plain two at a time, then streamed alone; until one is silent."""
    asked = probes(offers)
    found: list[dict[str, Any]] = []
    for group in (*_pairs(asked), *([probe] for probe in asked)):
        if _silent(found):
            break
        stream = len(group) == 1
        found += await asyncio.gather(*(_probed(endpoint, engine, model, one, stream, len(group)) for one in group))
    return found


async def _probed(
    endpoint: Endpoint, engine: Engine, model: str, probe: Probe, stream: bool, concurrency: int
) -> dict[str, Any]:
    asked = engine.chat(model, probe.prompt, CONTRACT_TOKENS, stream=stream, extra=probe.body)
    got = await endpoint.ask(asked, timeout_s=ANSWER_TIMEOUT_S)
    reply = engine.reply(got.body) if got.ok else None
    record = _record(got, reply.text if reply else "")
    return {
        "offer": probe.offer,
        "prompt": probe.prompt,
        "stream": stream,
        "concurrency": concurrency,
        "broken": probe.broken(reply.text, reply.tool_calls) if reply else f"no answer: {record['shown']}",
        **record,
    }


def short_generation(engine: Engine) -> HttpQuestion:
    """What tells that a service generates: a few tokens, at once."""
    return engine.generation("The quick brown fox", 8, exact=False)


async def without_key(endpoint: Endpoint, engine: Engine, target: Target) -> list[dict[str, Any]]:
    """What a short generation brings without the key of the target; nothing is asked where it has none."""
    if target.key_file is None:
        return []
    async with endpoint.without_key() as keyless:
        got = await keyless.ask(short_generation(engine), timeout_s=ANSWER_TIMEOUT_S)
    return [{"status": got.status, "error": got.error}]


def _silent(found: Sequence[Mapping[str, Any]]) -> bool:
    return any(one["status"] == 0 for one in found)


async def _answer(
    endpoint: Endpoint, engine: Engine, model: str, question: Question, stream: bool, concurrency: int
) -> dict[str, Any]:
    asked = engine.chat(model, question.prompt, ANSWER_TOKENS, stream=stream)
    got = await endpoint.ask(asked, timeout_s=ANSWER_TIMEOUT_S)
    reply = engine.reply(got.body) if got.ok else None
    text = reply.text if reply else ""
    return {
        "prompt": question.prompt,
        "concurrency": concurrency,
        "stream": stream,
        "right": question.right(text),
        "degenerate": degenerate(text, question.prompt) if reply else None,
        **_record(got, text),
    }


async def _generation(endpoint: Endpoint, engine: Engine, prompt: str, timeout_s: float) -> dict[str, Any]:
    asked: HttpQuestion = engine.generation(prompt, GENERATION_TOKENS, exact=True)
    got = await endpoint.ask(asked, timeout_s=timeout_s)
    reply = engine.reply(got.body) if got.ok else None
    report = read_answer(json.loads(got.body)) if reply else None
    speculation = report.speculation if report else None
    return {
        "prompt": prompt,
        "tokens": reply.tokens if reply else None,
        "verify_calls": speculation.verify_calls if speculation else None,
        "accepted": speculation.accepted_tokens if speculation else None,
        "drafted": speculation.drafted_tokens if speculation else None,
        "degenerate": degenerate(reply.text, prompt) if reply else None,
        **_record(got, reply.text if reply else ""),
    }


def _record(got: Answer, text: str) -> dict[str, Any]:
    shown = text.strip()[:200] or got.error or f"HTTP {got.status}"
    return {"status": got.status, "seconds": round(got.seconds, 3), "shown": shown}


def _pairs(items: Sequence[Item]) -> list[Sequence[Item]]:
    return [items[i : i + 2] for i in range(0, len(items), 2)]


def model_name(body: bytes, fallback: str) -> str:
    """The first model that `/v1/models` names; `fallback` where it names none."""
    try:
        data = json.loads(body).get("data") or []
    except (ValueError, AttributeError):
        return fallback
    return str(data[0].get("id", fallback)) if data and isinstance(data[0], dict) else fallback
