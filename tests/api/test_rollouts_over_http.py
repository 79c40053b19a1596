"""Whole rollouts over HTTP on a practice scene: begun, followed, rolled back, turned back, answered, recovered."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from flows import requests
from flows.history import History
from flows.session import requested_history
from state.events import CancelRequested, DeviceCleared, HoldAnswered, RolloutRequested, decode
from state.manifest.load import load_manifest
from state.store.tokens import TokenStore
from tasks import timer
from tasks.practice.scene import GUEST_GPUS
from tests.api.served import Served, served, until

R = "/api/v1/rollouts"
SERVICE = "/api/v1/services/qwen35-122b"
CLOSE = [{"claim": "accept-length", "at_least": 3.4, "within": "1s"}]
"""The practice engine accepts 3.40 in the mean, so that no number of samples decides it."""


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with served(sqlite_url, tmp_path / "marks") as ready:
        yield ready


async def begun(client: httpx.AsyncClient, path: str, body: Mapping[str, Any]) -> str:
    answer = await client.post(path, json=body)
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"] == answer.json()["href"]
    return str(answer.json()["rollout"])


async def test_two_revisions_are_proven_and_one_request_takes_the_service_back(server: Served) -> None:
    scene = server.scene
    async with (
        server.client("roller") as roller,
        server.client("on-call") as on_call,
        server.client("reader") as reader,
    ):
        first = await begun(roller, R, {"manifest": scene.manifest(), "reason": "first"})
        assert await server.ended(first) == "promoted"
        slower = scene.manifest({"speculative_num_steps": 3, "speculative_num_draft_tokens": 4})
        second = await begun(roller, R, {"manifest": slower, "reason": "second"})
        assert await server.ended(second) == "promoted"

        revisions = (await reader.get(f"{SERVICE}/revisions")).json()
        newest, oldest = revisions["revisions"]
        assert (newest["rollout"], oldest["rollout"]) == (second, first)
        assert revisions["rollback_to"] == oldest["digest"]

        back = await begun(on_call, f"{SERVICE}/rollback", {"reason": "answers are garbage"})
        assert await server.ended(back) == "promoted"
        whole = (await reader.get(f"{R}/{back}")).json()
        assert whole["line"]["purpose"] == "rollback"
        assert (whole["line"]["actor"], whole["line"]["reason"]) == ("on-call", "answers are garbage")
        assert whole["line"]["revision"] == oldest["digest"]
        assert {verdict["outcome"] for verdict in whole["verdicts"]} == {"held"}

        service = (await reader.get(SERVICE)).json()
        assert service["line"]["revision"] == oldest["digest"]
        assert [line["rollout"] for line in service["rollouts"]] == [back, second, first]
        assert service["lease"] is None

        again = await begun(on_call, f"{SERVICE}/rollback", {"to": newest["digest"][:12]})
        assert await server.ended(again) == "promoted"
        assert (await reader.get(SERVICE)).json()["line"]["revision"] == newest["digest"]
        await _pages_meet(reader, [again, back, second, first])
        await _counted(reader)
        await _told(reader, whole)


async def _pages_meet(reader: httpx.AsyncClient, newest_first: list[str]) -> None:
    """Pages of any length say the same, and filters leave the others out."""
    for limit in (1, 2, 3, 500):
        seen: list[str] = []
        cursor: str | None = None
        while True:
            given = {"limit": limit} | ({"cursor": cursor} if cursor else {})
            page = (await reader.get(R, params=given)).json()
            seen += [line["rollout"] for line in page["rollouts"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert seen == newest_first
    backs = (await reader.get(R, params={"purpose": "rollback", "state": "promoted"})).json()["rollouts"]
    assert [line["rollout"] for line in backs] == newest_first[:2]
    assert (await reader.get(R, params={"service": "another"})).json() == {"rollouts": [], "next": None}


async def _counted(reader: httpx.AsyncClient) -> None:
    page = (await reader.get("/metrics")).text
    labels = 'outcome="promoted",purpose="{}",service="qwen35-122b"'
    for purpose in ("rollout", "rollback"):
        assert f"interlock_rollouts_total{{{labels.format(purpose)}}} 2.0" in page
        assert f'interlock_rollout_duration_seconds_bucket{{le="+Inf",{labels.format(purpose)}}} 2.0' in page
    assert 'interlock_dark_seconds_count{service="qwen35-122b"} 4.0' in page
    accepted = re.search(r'interlock_accept_length{service="qwen35-122b"} ([0-9.]+)\n', page)
    assert accepted
    assert 2 < float(accepted[1]) < 4
    assert 'interlock_proven_since_seconds{revision="' in page


async def _told(reader: httpx.AsyncClient, whole: Mapping[str, Any]) -> None:
    """The report in both forms, and evidence by the digest that the rollout names."""
    href = f"{R}/{whole['line']['rollout']}/report"
    report, page = await reader.get(href), await reader.get(href, params={"form": "html"})
    assert report.json()["rollout"] == whole["line"]["rollout"]
    assert page.headers["Content-Type"].startswith("text/html")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert whole["line"]["rollout"] in page.text
    assert whole["evidence"]
    for digest in whole["evidence"].values():
        evidence = await reader.get(f"/api/v1/evidence/{digest}")
        assert evidence.status_code == 200
        assert evidence.headers["Content-Disposition"] == f'attachment; filename="{digest}"'
        assert evidence.headers["X-Content-Type-Options"] == "nosniff"
        assert evidence.headers["Content-Type"] == "application/octet-stream"


async def test_a_dry_run_and_a_plan_say_what_would_be_done_and_touch_nothing(server: Served) -> None:
    claims = [{"claim": "throughput", "at_least": "+12%", "concurrency": [64], "within": "1s"}]
    text = server.scene.manifest(claims=[{"claim": "accept-length", "at_least": 2.0, "within": "1s"}, *claims])
    async with server.client("roller") as client:
        planned = await client.post("/api/v1/plan", json={"manifest": text})
        dry = await client.post(R, json={"manifest": text, "dry_run": True})
    assert (planned.status_code, dry.status_code) == (200, 200)
    assert planned.json() == dry.json()
    assert planned.json()["changes"]
    assert ["at concurrency 64 take" in remark for remark in planned.json()["remarks"]] == [True]
    assert "accept-length" in {claim["name"] for claim in planned.json()["claims"]}
    assert await server.events() == 0


async def test_a_manifest_is_the_same_as_text_as_an_object_and_on_file(server: Served) -> None:
    text = server.scene.manifest()
    server.shelf.texts["qwen35-122b", "day"] = text
    manifest = load_manifest(text, "manifest.yaml")
    bodies: list[dict[str, Any]] = [
        {"manifest": text},
        {"manifest": _plain(text)},
        {"service": "qwen35-122b", "revision": "day"},
        {"service": "qwen35-122b", "revision": "day", "manifest": None},
    ]
    async with server.client("roller") as client, server.client("reader") as reader:
        plans = [(await client.post("/api/v1/plan", json=body)).json() for body in bodies]
        listed = (await reader.get("/api/v1/services")).json()["services"]
    assert plans[1:] == [plans[0]] * 3
    assert plans[0]["service"] == manifest.service
    assert [(line["service"], line["catalogue"], line["state"]) for line in listed] == [("qwen35-122b", ["day"], None)]


def _plain(text: str) -> Any:
    return yaml.safe_load(text)


async def test_a_stale_plan_is_refused_and_a_reviewed_one_is_done(server: Served) -> None:
    text = server.scene.manifest()
    async with server.client("roller") as client:
        digest = (await client.post("/api/v1/plan", json={"manifest": text})).json()["digest"]
        stale = await begun(client, R, {"manifest": text, "plan": "0" * 12})
        assert await server.ended(stale) == "refused"
        assert await server.ended(await begun(client, R, {"manifest": text, "plan": digest[:12]})) == "promoted"


async def test_a_verification_changes_nothing_and_is_by_its_token(server: Served) -> None:
    before = server.scene.serving.files.read(server.scene.unit_file)
    async with server.client("roller") as client:
        rollout = await begun(client, "/api/v1/verify", {"manifest": server.scene.manifest()})
    assert await server.ended(rollout) == "unproven"
    assert server.scene.serving.files.read(server.scene.unit_file) == before
    assert await server.requested_by(rollout) == "roller"


async def test_a_rollout_under_way_is_turned_back_on_behalf_of_the_token(server: Served) -> None:
    before = server.scene.serving.files.read(server.scene.unit_file)
    async with server.client("all") as client, server.client("on-call") as on_call:
        rollout = await begun(client, R, {"manifest": server.scene.manifest()})
        second = await client.post(R, json={"manifest": server.scene.manifest()})
        assert (second.status_code, second.json()["code"]) == (409, "lease-held")
        assert second.json()["facts"]["subject"] == "qwen35-122b"
        await _until_begun(server, rollout, "do:")
        turned = await on_call.post(f"{R}/{rollout}/cancel")
        assert turned.status_code == 202
        assert await server.ended(rollout) in ("cancelled", "rolled-back", "aborted")
        ended = await on_call.post(f"{R}/{rollout}/cancel")
        assert (ended.status_code, ended.json()["code"]) == (409, "refused")
        assert f"{SERVICE}/rollback" in ended.json()["hint"]
    asked = [e for e in map(decode, await _recorded(server, rollout)) if isinstance(e, CancelRequested)]
    assert [event.actor for event in asked] == ["on-call"]
    assert server.scene.serving.files.read(server.scene.unit_file) == before


async def test_a_rollout_that_holds_asks_over_http_and_takes_the_first_answer(server: Served) -> None:
    manifest = server.scene.manifest(claims=CLOSE, policy={"inconclusive": "hold", "timer": "60s"})
    async with (
        server.client("roller") as client,
        server.client("on-call") as on_call,
        server.client("reader") as reader,
    ):
        rollout = await begun(client, R, {"manifest": manifest})
        await _until_begun(server, rollout, "hold")
        asking = (await reader.get(f"{R}/{rollout}")).json()
        assert asking["line"]["state"] == "holding"
        assert asking["question"]["open"] == ["accept-length"]
        assert asking["question"]["default"] == "rollback"
        assert asking["question"]["question"].endswith("promote, or roll back?")

        answers = await asyncio.gather(
            client.post(f"{R}/{rollout}/answer", json={"answer": "promote", "reason": "3.4 is plenty"}),
            on_call.post(f"{R}/{rollout}/answer", json={"answer": "rollback", "reason": "too close"}),
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        late = next(answer.json() for answer in answers if answer.status_code == 409)
        assert late["code"] == "refused"
        assert "has its answer already" in late["detail"]
        outcome = await server.ended(rollout)
    given = [e for e in map(decode, await _recorded(server, rollout)) if isinstance(e, HoldAnswered)]
    assert len(given) == 1
    assert (given[0].actor, outcome) in {("roller", "promoted"), ("on-call", "rolled-back")}


async def test_a_rollout_that_nobody_drives_is_gone_on_with(server: Served) -> None:
    """Another orchestrator recorded the request and died; its lease is as long as a server's patience."""
    requested = (await _left_behind(server)).rollout
    async with server.client("all") as client:
        early = await client.post(f"{R}/{requested}/recover")
        assert (early.status_code, early.json()["code"]) == (409, "lease-held")
        cancelled = await client.post(f"{R}/{requested}/cancel")
        assert (cancelled.status_code, cancelled.json()["code"]) == (409, "refused")
        taken = await client.post(f"{R}/{requested}/recover", json={"take_over": True})
        assert taken.status_code == 202
        assert await server.ended(requested) == "promoted"
        over = await client.post(f"{R}/{requested}/recover", json={"take_over": True})
        assert (over.status_code, over.json()["code"]) == (409, "refused")


async def _left_behind(server: Served) -> RolloutRequested:
    manifest = load_manifest(server.scene.manifest(), "manifest.yaml")
    made = requests.from_manifest(server.api.ports, manifest, "rollout", "left behind")
    await requested_history(server.api.ports, made)
    return made


async def test_a_device_that_was_not_quarantined_cannot_be_cleared(server: Served) -> None:
    async with server.client("roller") as client:
        rollout = await begun(client, "/api/v1/verify", {"manifest": server.scene.manifest()})
        await server.ended(rollout)
        answer = await client.post(f"{R}/{rollout}/gpus/clear", json={"address": "0000:81:00.0"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


async def test_a_device_in_quarantine_is_cleared_by_the_token(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "MOVE_TIMEOUT_S", 3)
    stuck = server.scene.hypervisor.pci.stuck_unbind
    stuck.add(GUEST_GPUS[1])
    async with server.client("roller") as client, server.client("reader") as reader:
        rollout = await begun(client, R, {"manifest": server.scene.manifest()})
        assert await server.ended(rollout) == "rolled-back"
        assert (await reader.get(f"{R}/{rollout}")).json()["line"]["quarantined"] == f"{GUEST_GPUS[1]} on hypervisor"
        wanted = {"address": GUEST_GPUS[1].upper(), "reason": "the host was rebooted"}
        early = await client.post(f"{R}/{rollout}/gpus/clear", json=wanted)
        assert (early.status_code, early.json()["code"]) == (409, "refused")
        planned = (await client.post("/api/v1/plan", json={"manifest": server.scene.manifest()})).json()
        assert [GUEST_GPUS[1] in refusal for refusal in planned["refusals"]] == [True]
        stuck.clear()
        await asyncio.sleep(5)  # what waits in the kernel ends
        cleared = await client.post(f"{R}/{rollout}/gpus/clear", json=wanted)
        assert cleared.status_code == 200, cleared.text
        assert (await reader.get(f"{R}/{rollout}")).json()["line"]["quarantined"] is None
    (said,) = [e for e in map(decode, await _recorded(server, rollout)) if isinstance(e, DeviceCleared)]
    assert (said.actor, said.reason) == ("roller", "the host was rebooted")


async def test_a_token_is_noted_when_it_is_used(server: Served) -> None:
    async with server.client("reader") as client:
        await client.get("/api/v1/services")
    used = {token.name: token.last_used_at for token in await TokenStore(server.api.stores.engine).all()}
    assert used["reader"] is not None
    assert used["on-call"] is None


async def _recorded(server: Served, rollout: str) -> Any:
    return await History(server.api.ports, rollout).recorded()


async def _until_begun(server: Served, rollout: str, action: str) -> None:
    """Wait until an action whose key begins so is on record."""
    seen: list[str] = []

    async def look() -> None:
        while not any(key.startswith(action) for key in seen):
            seen[:] = list((await History(server.api.ports, rollout).load()).attempts)
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    await until(looking.done)
    await looking
