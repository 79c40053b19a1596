"""What a service offers beside text: probes, what breaks them, claims and facts."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from core_evidence import evidence as made_evidence

from state.claims import Outcome
from state.contracts import PROBES, Probe, claims, facts, probes
from state.engines.openai_chat import chunk, reply
from state.judging import judge

SCHEMA = next(p for p in PROBES if p.prompt.startswith("Describe"))
TOOL = next(p for p in PROBES if p.tool == "get_weather")
CITY = json.dumps({"name": "Paris", "country": "France", "inhabitants": 2_100_000})


@pytest.mark.parametrize(
    ("probe", "text", "calls", "reason"),
    [
        pytest.param(SCHEMA, CITY, (), "", id="an answer that fits its schema"),
        pytest.param(SCHEMA, f"```json\n{CITY}\n```", (), "no JSON", id="JSON in a fence is not JSON"),
        pytest.param(SCHEMA, "Paris is a city.", (), "no JSON, but 'Paris is a city.'", id="prose"),
        pytest.param(SCHEMA, "", (), "no JSON", id="nothing"),
        pytest.param(SCHEMA, '{"name": "Paris"}', (), "'country' is a required property", id="a property is missing"),
        pytest.param(
            SCHEMA, CITY.replace("2100000", '"many"'), (), "at inhabitants: 'many' is not of type", id="a wrong type"
        ),
        pytest.param(SCHEMA, CITY[:-1] + ', "mayor": "x"}', (), "mayor", id="a property too many"),
        pytest.param(TOOL, "", (("get_weather", '{"city": "Paris"}'),), "", id="a call"),
        pytest.param(TOOL, "It is sunny.", (), "no tool was called", id="an answer without a call"),
        pytest.param(TOOL, "", (("get_time", "{}"),), "it calls get_time, which was not offered", id="another tool"),
        pytest.param(TOOL, "", (("", "{}"),), "a function without a name", id="a call without a name"),
        pytest.param(TOOL, "", (("get_weather", '{"city": 1}'),), "at city: 1 is not of type", id="a wrong argument"),
        pytest.param(TOOL, "", (("get_weather", '{"city": "Pa'),), "no JSON", id="arguments that are cut"),
        pytest.param(
            TOOL, '<tool_call>\n{"name": "get_weather"}\n</tool_call>', (), "parser does not fit", id="markup leaks"
        ),
    ],
)
def test_what_breaks_an_offer(probe: Probe, text: str, calls: Sequence[tuple[str, str]], reason: str) -> None:
    broken = probe.broken(text, calls)
    assert (reason in broken) if reason else broken == ""


def records(offer: str, broken: int, of: int) -> list[dict[str, Any]]:
    why = ["no answer: HTTP 500"] * broken + [""] * (of - broken)
    return [{"offer": offer, "prompt": "p", "status": 200, "broken": b} for b in why]


@pytest.mark.parametrize(
    ("offer", "found", "outcome"),
    [
        pytest.param("json-schema", records("json-schema", 0, 8), "held", id="all fit"),
        pytest.param("json-schema", records("json-schema", 1, 8), "refuted", id="one does not: it is enforced or not"),
        pytest.param("json-schema", records("json-schema", 0, 3), "inconclusive", id="too few"),
        pytest.param("json-schema", [], "inconclusive", id="no probe"),
        pytest.param("json-schema", [{"offer": "json-schema"}] * 8, "refuted", id="a record without a finding is none"),
        pytest.param("tool-calls", records("tool-calls", 2, 8), "held", id="a model may once do without its tool"),
        pytest.param("tool-calls", records("tool-calls", 3, 8), "refuted", id="but not often"),
        pytest.param("tool-calls", records("json-schema", 0, 8), "inconclusive", id="another offer's probes"),
    ],
)
def test_offers_are_judged_by_their_probes(offer: str, found: list[dict[str, Any]], outcome: Outcome) -> None:
    (claim,) = claims([offer])
    (verdict,) = judge([claim], facts(found, ("digest",)))
    assert verdict.outcome == outcome


def test_nothing_is_claimed_that_is_not_offered() -> None:
    assert list(claims(())) == []
    assert probes(()) == ()
    assert {p.offer for p in probes(["tool-calls"])} == {"tool-calls"}


def test_contract_facts_are_among_those_of_the_evidence() -> None:
    found = made_evidence(contracts=json.dumps(records("json-schema", 0, 8)).encode())
    assert [f.value for f in facts(found.records("contracts"), found.cite("contracts"))] == [1.0]


STREAM = (
    {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 1, "function": {"name": "g", "arguments": "{}"}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": None, "arguments": '{"a":'}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"completion_tokens": 7}},
)


def streamed(*events: object, done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events] + (["data: [DONE]\n\n"] if done else [])
    return "".join(lines).encode()


def test_calls_of_a_stream_are_put_together_by_their_index() -> None:
    found = reply(streamed(*STREAM))
    assert found is not None
    assert found.tool_calls == (("f", '{"a":1}'), ("g", "{}"))
    assert (found.text, found.tokens, found.finish_reason) == ("", 7, "stop")


def test_a_stream_that_broke_off_is_no_answer() -> None:
    assert reply(streamed(*STREAM, done=False)) is None


@pytest.mark.parametrize(
    "line",
    [": keep-alive", "event: x", "data: {broken", "", "data: [1]"],
    ids=["comment", "event", "broken", "empty", "list"],
)
def test_a_line_that_is_no_chunk_is_none(line: str) -> None:
    assert chunk(line) is None
