"""The law of verdicts: a claim whose evidence is missing, broken, of an unknown shape, or of requests that all failed
is never held. For every claim that an engine derives and a manifest can state, over the evidence of a whole rollout.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.prove import claims_of, target_of
from state.claims import Verdict
from state.engines.engine import engine_for
from state.evidence import Evidence, common_facts
from state.judging import judge
from state.performance import performance_facts
from state.plan import Plan
from tasks.practice.engine.install import EngineName
from tests.flows.rehearsal import rehearsal
from tests.practice.virtual_time import in_virtual_time

LEVELS = {"concurrency": [1, 2]}
STATED = [
    {"claim": "accept-length", "at_least": 1.2},
    {"claim": "accept-length", "at_least": "-60%"},
    {"claim": "throughput", "at_least": 1, **LEVELS},
    {"claim": "throughput", "at_least": "-80%", **LEVELS},
    {"claim": "time-to-first-token", "at_most": "20s", **LEVELS},
    {"claim": "time-to-first-token", "at_most": "+900%", **LEVELS},
    {"claim": "inter-token-latency", "at_most": "5s", **LEVELS},
    {"claim": "inter-token-latency", "at_most": "+900%", **LEVELS},
    {"claim": "goodput", "at_least": "10%", "first_token": "20s", "inter_token": "5s", **LEVELS},
    {"claim": "answers", "at_least": "20%", **LEVELS},
]
"""Every kind of claim that a manifest can state, with bounds that a sound service holds easily."""

AGAIN: Mapping[EngineName, dict[str, Any]] = {
    "sglang": {"arguments": {"mem_fraction_static": 0.7, "enable_metrics": True}},
    "vllm": {"arguments": {"gpu_memory_utilization": 0.75}},
    "llamacpp": {"arguments": {"ctx_size": 16384, "metrics": True}},
}
"""What is changed for a second rollout, whose acceptance can be held against that of the first."""

ENGINES = tuple(AGAIN)
METRICS = re.compile(r"metrics(@\d+)?")
Damage = Callable[[str, bytes], bytes | None]


@dataclass(frozen=True)
class Proven:
    """A rollout of which every claim is held: its plan, its evidence, and which pieces each claim cites."""

    plan: Plan
    items: Mapping[str, bytes]
    cited: Mapping[str, frozenset[str]]

    def verdicts(self, items: Mapping[str, bytes]) -> dict[str, Verdict]:
        claims, target = claims_of(self.plan, "new"), target_of(self.plan, "new")
        evidence = Evidence(items, {name: name for name in items})
        known = (*common_facts(target, evidence), *engine_for(target.engine).facts(target, evidence))
        return {v.claim: v for v in judge(claims, (*known, *performance_facts(claims, evidence)))}


@cache
def proven(engine: EngineName) -> Proven:
    found: list[Proven] = []

    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine=engine) as stage:
            await stage.roll_out()
            offers: dict[str, Any] = {"engine": {"offers": ["json-schema", "tool-calls"]}}
            ended = await stage.roll_out(**AGAIN[engine], **offers, claims=STATED, traffic={"tokens": 64})
            assert ended.plan is not None
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted", ended.concluded.summary
            kept = [items for key, items in ended.gathered.items() if key.startswith("new:")][-1]
            items = {name: await stage.evidence.get(item.digest) for name, item in kept.items()}
            blank = Proven(ended.plan, items, {})
            cited = {name: frozenset(v.evidence) for name, v in blank.verdicts(items).items()}
            found.append(Proven(ended.plan, items, cited))

    run()
    return found[0]


def unknown_lines(name: str, raw: bytes) -> bytes:
    """The same records, their messages in words that no reader knows; anything else as other people's text."""
    if name != "journal":
        return b"## a page\nthat=nobody [knows]: 1\n"
    records = [json.loads(line) for line in raw.splitlines()]
    return b"\n".join(json.dumps(record | {"MESSAGE": "step n=3 ok"}).encode() for record in records)


def failed_requests(name: str, raw: bytes) -> bytes:
    """The same records of requests, none of which succeeded; what is no such record is gone."""
    try:
        records = json.loads(raw)
    except ValueError:
        return b""
    return json.dumps([failed(record) for record in records] if isinstance(records, list) else None).encode()


FAILED = {"status": 503, "error": "HTTP 503", "shown": "HTTP 503", "right": False, "degenerate": None, "tokens": None,
          "verify_calls": None, "counted": None, "broken": "no answer: HTTP 503", "first_token_s": None,
          "inter_token_s": None}  # fmt: skip


def failed(record: Any) -> Any:
    if not isinstance(record, dict):
        return None
    requests = [failed(one) for one in record.get("requests", ())]
    return (
        record
        | {name: value for name, value in FAILED.items() if name in record or name == "status"}
        | ({"requests": requests, "tokens": 0} if requests else {})
    )


DAMAGES: Mapping[str, Damage] = {
    "missing": lambda name, raw: None,
    "empty": lambda name, raw: b"",
    "cut": lambda name, raw: raw[: min(7, len(raw) // 2)],
    "no-json": lambda name, raw: b"no JSON at all",
    "an-empty-list": lambda name, raw: b"[]",
    "an-empty-object": lambda name, raw: b"{}",
    "not-utf8": lambda name, raw: b"\xff\xfe{",
    "unknown-shape": unknown_lines,
    "failed-requests": failed_requests,
}

STILL_EVIDENCE = {
    ("kernel-quiet", "kernel", "empty"): "a kernel that has said nothing since the start is a quiet one",
    ("kernel-quiet", "kernel", "failed-requests"): "the same",
    ("kernel-quiet", "kernel", "cut"): "the same, where there was nothing to cut",
    ("no-strangers", "journal", "unknown-shape"): "whose process wrote a record is journald's own word",
}
"""Damage that leaves what the claim rests on."""


def leaves(claim: str, piece: str, damage: str) -> bool:
    return (claim, piece.partition("@")[0], damage) in STILL_EVIDENCE


def damaged(whole: Proven, damages: Mapping[str, str]) -> dict[str, bytes]:
    done = {name: DAMAGES[damages[name]](name, raw) if name in damages else raw for name, raw in whole.items.items()}
    return {name: raw for name, raw in done.items() if raw is not None}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_claim_of_the_whole_rollout_is_held_and_cites_its_evidence(engine: EngineName) -> None:
    whole = proven(engine)
    assert {v.outcome for v in whole.verdicts(whole.items).values()} == {"held"}
    assert [name for name, pieces in whole.cited.items() if not pieces] == []
    planes = {v.plane for v in whole.verdicts(whole.items).values()}
    assert planes == {"identity", "control", "data", "resource", "function", "speculation", "performance"}


@pytest.mark.parametrize("engine", ENGINES)
def test_no_evidence_at_all_holds_nothing(engine: EngineName) -> None:
    assert {v.outcome for v in proven(engine).verdicts({}).values()} == {"inconclusive"}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_claim_all_of_whose_evidence_is_damaged_is_never_held(engine: EngineName, damage: str) -> None:
    whole = proven(engine)
    wrong = []
    for pieces in set(whole.cited.values()):
        found = whole.verdicts(damaged(whole, dict.fromkeys(pieces, damage)))
        resting = [name for name, cited in whole.cited.items() if cited == pieces]
        wrong += [
            f"{name}: {found[name].reason}"
            for name in resting
            if found[name].outcome == "held" and not any(leaves(name, piece, damage) for piece in pieces)
        ]
    assert wrong == []


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whatever_is_damaged_a_held_claim_has_some_evidence_left(engine: EngineName, data: st.DataObject) -> None:
    whole = proven(engine)
    damages = data.draw(st.dictionaries(st.sampled_from(sorted(whole.items)), st.sampled_from(sorted(DAMAGES))))
    for name, verdict in whole.verdicts(damaged(whole, damages)).items():
        if verdict.outcome == "held":
            sound = [p for p in whole.cited[name] if p not in damages or leaves(name, p, damages[p])]
            assert sound, (name, verdict.reason, damages)


REQUESTS = ("answers", "generations", "load", "quiz", "contracts")


@pytest.mark.parametrize("engine", ENGINES)
def test_when_no_request_succeeds_nothing_that_is_about_requests_is_held(engine: EngineName) -> None:
    """Nor has the engine counted anything meanwhile: its metrics are what they were before."""
    whole = proven(engine)
    asked = [name for name in whole.items if name.partition("@")[0] in REQUESTS]
    uncounted = {n: whole.items[n.replace("metrics", "metrics-before")] for n in whole.items if METRICS.fullmatch(n)}
    found = whole.verdicts(damaged(whole, dict.fromkeys(asked, "failed-requests")) | uncounted)
    about = [name for name, pieces in whole.cited.items() if pieces & set(asked)]
    assert len(about) > 20
    assert [name for name in about if found[name].outcome == "held"] == []
