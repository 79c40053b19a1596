"""Every error of the tree is one problem document, with the status that says whose fault it is."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.api.problems import MEDIA_TYPE, STATUS, answer, problem_of, status_of
from deployments.api.refusals import RequestRefused, too_often, unauthenticated
from deployments.api.schemas import Problem
from state import errors
from state.errors import InterlockError

UNAVAILABLE = errors.StoreUnavailable("connection refused")

CASES: list[tuple[InterlockError, int]] = [
    (errors.UsageInvalid("The plan is no digest"), 422),
    (errors.ManifestInvalid("manifest", ["manifest:3: engine.kind: `x` is no engine"]), 422),
    (errors.NotFound("service", "qwen"), 404),
    (errors.NoneProven("qwen", "", 0), 409),
    (errors.Refused("Rollout 1 asks nothing"), 409),
    (errors.PreflightRefused(["the model is missing", "the port is taken"]), 409),
    (errors.LeaseHeld("qwen", "ada@host (PID 3)", "night", "2026-11-30T08:00:00+00:00"), 409),
    (errors.PlanStale("a" * 64, "b" * 64), 409),
    (errors.StoreOutdated("/var/lib/interlock.db", "0001", ("0001", "0002")), 503),
    (errors.HostKeyMismatch("serving", "llm.example", "ed25519"), 424),
    (errors.HostUnreachable("serving", "llm.example", "timed out"), 424),
    (errors.LoginRefused("serving", "llm.example", "no key"), 424),
    (errors.PrivilegeRefused("serving", "interlock", "a password is required"), 424),
    (errors.ArgvFailed("serving", ["systemctl", "cat"], 1, "no such unit"), 424),
    (errors.StepFailed("stop", "the unit is still active"), 424),
    (errors.UnbindStuck("pve", {"0000:81:00.0": ("nvidia", "hung task")}, "4f1c9be27a03"), 424),
    (errors.DeadlineExceeded("readiness", 600), 424),
    (errors.EngineFailed("out-of-memory", "CUDA out of memory", "lower the fraction"), 424),
    (errors.FencedOut("serving", 7, "8"), 409),
    (errors.HostReverted("serving"), 409),
    (UNAVAILABLE, 503),
    (errors.VersionConflict("rollout-1", 3, 4), 409),
    (errors.TakenOver("4f1c9be27a03"), 409),
    (errors.HistoryCorrupt("rollout-1", 3, "its digest is off"), 500),
    (errors.EvidenceCorrupt("0" * 64, "its digest is off"), 500),
    (errors.Stranded("Neither revision could be proven"), 409),
    (errors.RolloutUnrecorded("4f1c9be27a03", "at stop", {"serving": 300.0}, UNAVAILABLE), 409),
    (RequestRefused(413, "body-too-large", "The body is over 10 bytes"), 413),
]


def tree(root: type[InterlockError]) -> Iterator[type[InterlockError]]:
    for child in root.__subclasses__():
        if child.__module__ == "state.errors":
            yield child
        yield from tree(child)


@pytest.mark.parametrize(("error", "status"), CASES, ids=[type(error).__name__ for error, _ in CASES])
def test_an_error_is_a_problem_document_with_its_status(error: InterlockError, status: int) -> None:
    document = problem_of(error)
    assert (status_of(error), document["status"]) == (status, status)
    assert document["type"] == f"urn:interlock:problem:{error.code}"
    assert document["code"] == error.code
    assert document["detail"]
    assert "\n" not in document["detail"]
    assert Problem.model_validate(json.loads(json.dumps(document)))
    response = answer(document)
    assert response.media_type == MEDIA_TYPE
    assert ("retry-after" in response.headers) == (status == 503)


def test_every_error_of_the_tree_has_a_status_that_is_meant() -> None:
    """By itself or by a parent other than the root, which is for faults of the program."""
    known = [*tree(InterlockError)]
    assert len(known) > 20
    meant = {cls: next((base for base in cls.__mro__ if base in STATUS), None) for cls in known}
    spooled = {cls for cls, base in meant.items() if base is InterlockError}
    assert {cls.__name__ for cls in spooled} <= {"SpoolDamaged"}


def test_no_client_is_blamed_for_the_server_and_the_other_way_round() -> None:
    server = {error.code for error, status in CASES if status >= 500}
    assert server == {"store-outdated", "store-unavailable", "history-corrupt", "evidence-corrupt"}


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        pytest.param(errors.NotFound("service", "qwen"), {"kind": "service", "name": "qwen"}, id="what-is-missing"),
        pytest.param(
            errors.LeaseHeld("qwen", "ada", "night", "2026-11-30T08:00:00+00:00"),
            {"subject": "qwen", "holder": "ada", "reason": "night", "until": "2026-11-30T08:00:00+00:00"},
            id="who-holds-it-until-when",
        ),
        pytest.param(
            errors.PreflightRefused(["the model is missing", "the port is taken"]),
            {"refusals": ["the model is missing", "the port is taken"]},
            id="all-refusals",
        ),
        pytest.param(
            errors.UnbindStuck("pve", {"0000:81:00.0": ("nvidia", "hung task")}, "4f1c9be27a03"),
            {
                "step": "rebind-gpus",
                "host": "pve",
                "devices": {"0000:81:00.0": ["nvidia", "hung task"]},
                "rollout": "4f1c9be27a03",
            },
            id="devices-in-quarantine",
        ),
    ],
)
def test_the_facts_are_the_errors_fields(error: InterlockError, facts: dict[str, Any]) -> None:
    assert problem_of(error)["facts"] == facts


def test_each_mistake_of_a_manifest_has_its_line_and_field() -> None:
    mistakes = [
        "manifest:3: engine.kind: `x` is no engine that is known; expected `sglang`",
        "manifest:7: hosts.serving.address: is missing; expected a name: or an address",
        "manifest:9: the file: something about all of it",
    ]
    document = problem_of(errors.ManifestInvalid("manifest", mistakes))
    assert document["mistakes"] == [
        {"line": 3, "field": "engine.kind", "sentence": "`x` is no engine that is known; expected `sglang`"},
        {"line": 7, "field": "hosts.serving.address", "sentence": "is missing; expected a name: or an address"},
        {"line": 9, "field": None, "sentence": "something about all of it"},
    ]
    assert document["detail"] == (
        "In the manifest, `engine.kind` `x` is no engine that is known; expected `sglang`; and 2 more"
    )


def test_secrets_leave_a_problem_before_it_is_sent() -> None:
    error = errors.ArgvFailed("serving", ["curl"], 1, "curl: --api-key sk-live-0123456789abcdef was refused")
    text = json.dumps(problem_of(error))
    assert "sk-live-0123456789abcdef" not in text
    assert "<redacted>" in text


@given(detail=st.text(max_size=200), name=st.text(max_size=60))
def test_any_text_in_an_error_makes_a_document_that_can_be_sent(detail: str, name: str) -> None:
    for error in (errors.StoreUnavailable(detail), errors.NotFound("service", name)):
        document = problem_of(error)
        assert Problem.model_validate(document).status == status_of(error)


def test_a_refusal_says_how_to_go_on() -> None:
    assert unauthenticated().headers == {"WWW-Authenticate": 'Bearer realm="interlock"'}
    assert too_often(3).headers == {"Retry-After": "3"}
    assert "token" in unauthenticated().hint
