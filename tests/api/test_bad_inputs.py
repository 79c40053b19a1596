"""What is off about a request is told in one clear sentence for each mistake, and nothing is touched."""

import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from deployments.api.wanted import MANIFEST
from tests.api.served import Served, served

R = "/api/v1/rollouts"
ID = "4f1c9be27a03"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """One server for all of them, which is a claim of its own: none of them hurts it."""
    folder = tmp_path_factory.mktemp("bad-inputs")
    url = f"sqlite:///{shutil.copy(sqlite_template, folder / 'store.db')}"
    async with served(url, folder / "marks", started=False) as ready:
        yield ready


def manifest(**changes: str) -> dict[str, Any]:
    text = MANIFEST
    for old, new in changes.items():
        text = text.replace(old.replace("_", " ").strip(), new)
    return {"manifest": text}


def without(line: str) -> dict[str, Any]:
    return {"manifest": "".join(one for one in MANIFEST.splitlines(keepends=True) if not one.startswith(line))}


BODIES: dict[str, tuple[str, Any, int, str]] = {
    # how the body is written
    "no-body": (R, b"", 422, "the body is missing"),
    "no-json": (R, b"{", 422, "is no JSON"),
    "a-trailing-comma": (R, b'{"manifest": "x",}', 422, "is no JSON"),
    "single-quotes": (R, b"{'manifest': 'x'}", 422, "is no JSON"),
    "yaml-instead": (R, b"manifest: x", 422, "is no JSON"),
    "not-utf-8": (R, b'{"manifest": "\xff\xfe"}', 400, "could not be read as JSON"),
    "nested-without-end": (R, b"[" * 100_000, 400, "could not be read as JSON"),
    "a-number-of-5000-digits": (R, b'{"plan": ' + b"9" * 5000 + b"}", 400, "could not be read as JSON"),
    "a-list": (R, [], 422, "must be a JSON object"),
    "a-text": (R, "manifest", 422, "must be a JSON object"),
    "null": (R, None, 422, "the body is missing"),
    "a-number": (R, 3, 422, "must be a JSON object"),
    # what is in it
    "nothing": (R, {}, 422, "must have either `manifest`, or `service` and `revision` together"),
    "both": (R, {**manifest(), "service": "a", "revision": "b"}, 422, "either `manifest`, or `service`"),
    "half-a-name": (R, {"service": "qwen35-122b"}, 422, "`service` and `revision` together"),
    "an-unknown-field": (R, {**manifest(), "dryrun": True}, 422, "`dryrun` is not known here"),
    "two-mistakes-at-once": (R, {**manifest(), "dryrun": True, "purpose": "look"}, 422, "and 1 more"),
    "an-unknown-purpose": (R, {**manifest(), "purpose": "rollback"}, 422, "`purpose` should be 'rollout' or 'verify'"),
    "a-manifest-that-is-a-number": (R, {"manifest": 7}, 422, "`manifest` must be YAML text or a JSON object"),
    "a-manifest-that-is-a-list": (R, {"manifest": []}, 422, "`manifest` must be YAML text or a JSON object"),
    "dry-run-in-words": (R, {**manifest(), "dry_run": "perhaps"}, 422, "`dry_run` should be a valid boolean"),
    "a-plan-that-is-no-digest": (R, {**manifest(), "plan": "latest"}, 422, "`plan` should match pattern"),
    "a-plan-too-short": (R, {**manifest(), "plan": "abc"}, 422, "`plan` should match pattern"),
    "a-reason-of-two-lines": (R, {**manifest(), "reason": "a\nb"}, 422, "`reason` should match pattern"),
    "a-reason-too-long": (R, {**manifest(), "reason": "a" * 501}, 422, "`reason` should have at most 500 characters"),
    "a-reason-that-is-null": (R, {**manifest(), "reason": None}, 422, "`reason` should be a valid string"),
    "a-service-with-a-slash": (R, {"service": "../etc", "revision": "day"}, 422, "`service` should match pattern"),
    "a-revision-that-climbs": (R, {"service": "a", "revision": "../day"}, 422, "`revision` should match pattern"),
    "nothing-on-file": (R, {"service": "qwen", "revision": "day"}, 404, "There is no manifest `qwen/day`"),
    # the manifest itself
    "an-empty-manifest": (R, {"manifest": ""}, 422, "expected a mapping of fields"),
    "an-empty-object": (R, {"manifest": {}}, 422, "is missing"),
    "no-yaml": (R, {"manifest": "a: [b"}, 422, "In the manifest"),
    "yaml-that-is-a-list": (R, {"manifest": "- a\n"}, 422, "expected a mapping of fields"),
    "two-documents": (R, {"manifest": MANIFEST + "---\n" + MANIFEST}, 422, "In the manifest"),
    "an-anchor-bomb": (R, {"manifest": "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"}, 422, "In the manifest"),
    "a-python-object": (R, {"manifest": "a: !!python/object/apply:os.system [id]\n"}, 422, "In the manifest"),
    "a-nul": (R, {"manifest": "interlock: 1\0"}, 422, "In the manifest"),
    "half-a-surrogate-pair": (R, b'{"manifest": "\\ud800"}', 422, "half a surrogate pair"),
    "half-a-pair-in-an-object": (R, b'{"manifest": {"a": "\\udfff"}}', 422, "half a surrogate pair"),
    "no-version": (R, without("interlock"), 422, "`interlock` is missing"),
    "no-service": (R, without("service"), 422, "`service` is missing"),
    "no-unit": (R, without("unit"), 422, "`unit` is missing"),
    "an-unknown-engine": (R, manifest(sglang_cmd="", **{"kind: sglang": "kind: tgi"}), 422, "`engine.kind`"),
    "a-misspelt-field": (
        R,
        manifest(**{"service: q": "servise: q"}),
        422,
        "`servise` is not known here; did you mean `service`",
    ),
    "a-duplicate-field": (R, {"manifest": MANIFEST + "service: other\n"}, 422, "In the manifest"),
    "a-bad-endpoint": (R, manifest(**{"http://127.0.0.1:30000": "ftp://x"}), 422, "`engine.endpoint`"),
    "a-host-that-is-not-there": (R, manifest(**{"{host: serving": "{host: other"}), 422, "`unit.host`"),
    "a-zone-that-is-none": (
        R,
        {"manifest": MANIFEST + 'schedule: [{cron: "0 7 * * *", revision: day, timezone: Europe/Berln}]\n'},
        422,
        "`schedule[0].timezone`",
    ),
    "deep-json": (R, {"manifest": json.loads('{"a":' * 60 + "1" + "}" * 60)}, 422, "In the manifest"),
    # other routes
    "plan-of-nothing": ("/api/v1/plan", {}, 422, "either `manifest`"),
    "verify-of-nothing": ("/api/v1/verify", {}, 422, "either `manifest`"),
    "verify-with-a-plan": ("/api/v1/verify", {**manifest(), "plan": "0" * 8}, 422, "`plan` is not known here"),
    "plan-with-a-reason": ("/api/v1/plan", {**manifest(), "reason": "x"}, 422, "`reason` is not known here"),
    "rollback-of-nothing": ("/api/v1/services/qwen/rollback", {}, 409, "qwen has 0 proven revisions"),
    "rollback-to-a-word": ("/api/v1/services/qwen/rollback", {"to": "day"}, 422, "`to` should match pattern"),
    "rollback-to-a-number": ("/api/v1/services/qwen/rollback", {"to": 7}, 422, "`to` should be a valid string"),
    "rollback-of-a-bad-name": ("/api/v1/services/Qwen!/rollback", {}, 422, "`service` in the path should match"),
    "answer-of-nothing": (f"{R}/{ID}/answer", {}, 422, "`answer` is missing"),
    "answer-in-other-words": (f"{R}/{ID}/answer", {"answer": "yes", "reason": "x"}, 422, "'promote' or 'rollback'"),
    "answer-without-reason": (f"{R}/{ID}/answer", {"answer": "promote"}, 422, "`reason` is missing"),
    "answer-with-blanks": (f"{R}/{ID}/answer", {"answer": "promote", "reason": "  "}, 422, "`reason` should match"),
    "answer-to-nobody": (f"{R}/{ID}/answer", {"answer": "promote", "reason": "x"}, 404, f"no rollout `{ID}`"),
    "cancel-of-nothing": (f"{R}/{ID}/cancel", {}, 404, f"no rollout `{ID}`"),
    "recover-of-nothing": (f"{R}/{ID}/recover", {}, 404, f"no rollout `{ID}`"),
    "recover-with-a-word": (f"{R}/{ID}/recover", {"take_over": "now"}, 422, "`take_over` should be a valid boolean"),
    "clear-of-nothing": (f"{R}/{ID}/gpus/clear", {"address": "0000:81:00.0"}, 404, f"no rollout `{ID}`"),
    "clear-of-no-address": (f"{R}/{ID}/gpus/clear", {"address": "81"}, 422, "`address` should match pattern"),
    "clear-without-address": (f"{R}/{ID}/gpus/clear", {}, 422, "`address` is missing"),
}


def is_one_sentence(text: str) -> bool:
    return bool(text) and "\n" not in text and len(text) < 700 and not re.search(r"Traceback|pydantic|<class", text)


def told(document: dict[str, Any]) -> list[str]:
    return [f"`{mistake['field']}` {mistake['sentence']}" for mistake in document["mistakes"]]


@pytest.mark.parametrize("name", BODIES)
async def test_a_bad_body_is_told_in_a_sentence(shared: Served, name: str) -> None:
    path, body, status, said = BODIES[name]
    sent = {"content": body} if isinstance(body, bytes) else {"json": body}
    before = await shared.events()
    async with shared.client() as client:
        answer = await client.post(path, headers={"Content-Type": "application/json"}, **sent)
    assert answer.status_code == status, answer.text
    document = answer.json()
    assert any(said in sentence for sentence in (document["detail"], *told(document))), document
    assert is_one_sentence(document["detail"])
    assert all(is_one_sentence(mistake["sentence"]) for mistake in document["mistakes"])
    assert document["status"] == status
    assert await shared.events() == before


PATHS: dict[str, tuple[str, int, str]] = {
    "an-unknown-route": ("/api/v1/nothing", 404, "There is nothing at /api/v1/nothing"),
    "a-trailing-slash": ("/api/v1/rollouts/", 404, "There is nothing at"),
    "a-service-nobody-knows": ("/api/v1/services/nobody", 404, "There is no service `nobody`"),
    "revisions-of-nobody": ("/api/v1/services/nobody/revisions", 404, "There is no service `nobody`"),
    "a-service-in-capitals": ("/api/v1/services/QWEN", 422, "`service` in the path should match pattern"),
    "a-nul-in-a-name": ("/api/v1/services/%00", 422, "`service` in the path should match pattern"),
    "a-rollout-nobody-knows": (f"{R}/{ID}", 404, f"There is no rollout `{ID}`"),
    "a-report-nobody-knows": (f"{R}/{ID}/report", 404, f"There is no rollout `{ID}`"),
    "events-nobody-knows": (f"{R}/{ID}/events", 404, f"There is no rollout `{ID}`"),
    "a-report-in-another-form": (f"{R}/{ID}/report?form=pdf", 422, "`form` in the query should be 'json' or 'html'"),
    "an-id-that-climbs": (f"{R}/..%2F..%2Fetc", 404, "There is nothing at"),
    "a-limit-of-nothing": (f"{R}?limit=0", 422, "`limit` in the query should be greater than or equal to 1"),
    "a-limit-too-large": (f"{R}?limit=501", 422, "`limit` in the query should be less than or equal to 500"),
    "a-limit-in-words": (f"{R}?limit=all", 422, "`limit` in the query should be a valid integer"),
    "a-cursor-of-its-own": (f"{R}?cursor=abc", 422, "The cursor is none that a page gave"),
    "a-cursor-of-other-json": (f"{R}?cursor=WzEsMl0", 422, "The cursor is none that a page gave"),
    "a-cursor-without-zone": (f"{R}?cursor=WyIyMDI2LTAxLTAxIiwgIngiXQ", 422, "The cursor is none that a page gave"),
    "another-purpose": (f"{R}?purpose=look", 422, "`purpose` in the query should be 'rollout', 'rollback' or"),
    "a-filter-with-a-quote": (f"{R}?service='", 422, "`service` in the query should match pattern"),
    "a-position-below-zero": ("/api/v1/events?after=-1", 422, "`after` in the query should be greater"),
    "a-position-beyond-all": (f"/api/v1/events?after={2**63}", 422, "`after` in the query should be less"),
    "evidence-by-half": ("/api/v1/evidence/abc", 422, "`digest` in the path should match pattern"),
    "evidence-nobody-has": (f"/api/v1/evidence/{'0' * 64}", 404, "There is no evidence"),
}


@pytest.mark.parametrize("name", PATHS)
async def test_a_bad_path_or_query_is_told_in_a_sentence(shared: Served, name: str) -> None:
    path, status, said = PATHS[name]
    async with shared.client() as client:
        answer = await client.get(path)
    assert answer.status_code == status, answer.text
    document = answer.json()
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert said in document["detail"], document["detail"]
    assert is_one_sentence(document["detail"])


@pytest.mark.parametrize("position", ["-1", "1.5", "x", "", str(2**63), "9" * 40])
async def test_a_bad_position_is_told_wherever_it_stands(shared: Served, position: str) -> None:
    async with shared.client() as client:
        stream = {"Last-Event-ID": position, "Accept": "text/event-stream"}
        by_header = await client.get("/api/v1/events", headers=stream)
        by_query = await client.get("/api/v1/events", params={"after": position})
    told = {"Last-Event-ID": by_header, "after": by_query}
    assert {name: answer.status_code for name, answer in told.items()} == {"Last-Event-ID": 422, "after": 422}
    assert [name in answer.json()["detail"] for name, answer in told.items()] == [True, True]


@pytest.mark.parametrize("position", [0, 2**63 - 1])
async def test_the_first_and_the_last_position_are_taken_wherever_they_stand(shared: Served, position: int) -> None:
    async with shared.client() as client:
        by_header = await client.get("/api/v1/events", headers={"Last-Event-ID": str(position)})
        by_query = await client.get("/api/v1/events", params={"after": position})
    assert (by_header.status_code, by_query.status_code) == (200, 200)
    assert by_header.json() == by_query.json()
    assert position == 0 or by_header.json() == {"events": [], "next": position}


async def test_a_position_in_the_header_goes_before_the_one_in_the_query(shared: Served) -> None:
    async with shared.client() as client:
        answer = await client.get("/api/v1/events?after=7", headers={"Last-Event-ID": str(2**63 - 1)})
    assert answer.json()["next"] == 2**63 - 1


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "tab\there"])
async def test_a_bad_idempotency_key_is_told(shared: Served, key: str) -> None:
    async with shared.client() as client:
        answer = await client.post(R, headers={"Idempotency-Key": key}, json=manifest())
    assert answer.status_code == 422
    assert "Idempotency-Key" in answer.json()["detail"]


async def test_a_method_that_a_path_has_not_is_told_with_those_it_has(shared: Served) -> None:
    async with shared.client() as client:
        answer = await client.put(R, json={})
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, POST")
    assert answer.json()["detail"] == f"PUT is not allowed at {R}"
