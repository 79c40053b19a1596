"""`interlock serve` with Prefect beside it: deployments, artifacts, events, cancellations, questions, schedules."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.practice.scene import UNIT
from tests.cli.practice import Stage, stage
from tests.serve.home import PREFECT_CAME_UP, SERVICE, Served, eventually, file, served

pytestmark = [pytest.mark.serve, pytest.mark.prefect]

IGNORED = {"fault": "flag-ignored", "when": {"speculative_algorithm": "EAGLE3"}}
STRANDED = Path(__file__).parents[2] / "deployments/automations/stranded.yaml"
SLOW = {"stage_seconds": {"weights": 1.5}}


@pytest.fixture(scope="module")
def practice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("serve"), faults=[IGNORED], settings=SLOW) as made:
        yield made


@pytest.fixture(scope="module")
def server(practice: Stage) -> Iterator[Served]:
    """One server for all tests here, in their order: each leaves the service with a revision that is proven."""
    with served(practice, with_prefect=True) as made:
        made.until_it_says(PREFECT_CAME_UP)
        eventually(lambda: deployments(made), lambda found: len(found) == 6)
        yield made


def deployments(server: Served) -> dict[str, Any]:
    return {d["name"]: d for d in server.prefect("POST", "/deployments/filter", {})}


def artifacts(server: Served, run: str) -> dict[str, Any]:
    """By the first word of their keys."""
    filed = {"artifacts": {"flow_run_id": {"any_": [run]}}}
    return {a["key"].partition("-")[0]: a for a in server.prefect("POST", "/artifacts/filter", filed)}


def events(server: Served, rollout: str) -> list[str]:
    wanted = {"resource": {"id": [f"interlock.rollout.{rollout}"]}, "order": "ASC"}
    found = server.prefect("POST", "/events/filter", {"filter": wanted})["events"]
    return [event["event"].removeprefix("interlock.rollout.") for event in found]


def test_the_forms_offer_what_is_on_file(server: Served) -> None:
    found = deployments(server)
    target = found["rollout"]["parameter_openapi_schema"]["properties"]["target"]
    assert target["enum"] == [f"{SERVICE}/{name}" for name in ("asks", "day", "ignored", "night-vm")]
    assert target["title"] == "Service and revision"
    assert found["rollback"]["parameter_openapi_schema"]["properties"]["service"]["enum"] == [SERVICE]
    assert all(
        d["description"] and "Args" not in d["description"] and d["tags"] == ["interlock"] for d in found.values()
    )
    assert found["scheduled switch"]["schedules"] == []


def test_a_rollout_from_a_form_is_promoted_with_its_plan_claims_and_report(server: Served) -> None:
    dry = server.flow_run_ended(server.run_deployment("rollout", target=f"{SERVICE}/day", dry_run=True))
    assert (dry["state"]["type"], dry["state"]["name"]) == ("COMPLETED", "planned")
    assert "nothing was touched" in dry["state"]["message"]
    run = server.run_deployment("rollout", target=f"{SERVICE}/day", reason="from the form")
    ended = server.flow_run_ended(run)
    assert (ended["state"]["type"], ended["state"]["name"]) == ("COMPLETED", "promoted"), ended["state"]
    shown = artifacts(server, run)
    assert set(shown) == {"plan", "claims", "readiness", "report"}
    assert shown["report"]["data"].startswith(f"# {SERVICE}: promoted")
    assert f"]({server.reach.url}/api/v1/evidence/" in shown["report"]["data"]
    assert shown["readiness"]["data"] == 100.0
    tasks = server.prefect("POST", "/task_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    assert {"plan", "preflight", "stop-service", "start-service", "await-readiness"} <= {t["name"] for t in tasks}
    rollout = server.api("GET", f"/rollouts?service={SERVICE}&limit=1").json()["rollouts"][0]["rollout"]
    assert eventually(lambda: events(server, rollout), lambda e: e[-1:] == ["promoted"]) == ["started", "promoted"]


def test_a_refuted_rollout_fails_with_the_sentence(server: Served) -> None:
    run = server.run_deployment("rollout", target=f"{SERVICE}/ignored")
    ended = server.flow_run_ended(run)
    assert (ended["state"]["type"], ended["state"]["name"]) == ("FAILED", "rolled-back")
    assert "refuted" in ended["state"]["message"]
    assert "Traceback" not in ended["state"]["message"]


def test_a_cancellation_in_prefect_turns_the_rollout_back(server: Served, practice: Stage) -> None:
    before = practice.facts()
    run = server.run_deployment("rollout", target=f"{SERVICE}/night-vm")
    rollout = server.until_it_says("asked by ", times=3)["rollout"]
    server.until_it_says("start-service: ", rollout=rollout)
    server.prefect("POST", f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}, "force": False})
    ended = server.flow_run_ended(run)
    assert ended["state"]["type"] == "CANCELLED"
    assert ended["state"]["message"].startswith("rolled-back: cancelled by somebody in Prefect")
    assert practice.facts().unit_file == before.unit_file
    assert practice.facts().active == "active"


def test_a_rollback_from_a_form_goes_to_the_revision_before(server: Served, practice: Stage) -> None:
    forward = server.flow_run_ended(server.run_deployment("rollout", target=f"{SERVICE}/night-vm"))
    assert forward["state"]["name"] == "promoted"
    ended = server.flow_run_ended(server.run_deployment("rollback", service=SERVICE))
    assert (ended["state"]["type"], ended["state"]["name"]) == ("COMPLETED", "promoted"), ended["state"]
    assert b"--speculative-num-steps 5" in (practice.facts().unit_file or b"")


def test_verify_and_recover_from_their_forms(server: Served) -> None:
    verified = server.flow_run_ended(server.run_deployment("verify", target=f"{SERVICE}/day"))
    assert (verified["state"]["type"], verified["state"]["name"]) == ("COMPLETED", "verified"), verified["state"]
    recovered = server.flow_run_ended(server.run_deployment("recover"))
    assert recovered["state"]["type"] == "COMPLETED"
    unknown = server.flow_run_ended(server.run_deployment("recover", rollout="feed"))
    assert (unknown["state"]["type"], unknown["state"]["name"]) == ("FAILED", "not-found")


@pytest.mark.parametrize("way", ["form", "http", "command line"])
def test_a_question_is_answered_alike_in_every_way(server: Served, practice: Stage, way: str) -> None:
    held = server.run_deployment("rollout", target=f"{SERVICE}/asks", reason=way)
    asked = server.until_it_says("hold: asks until ", times=1 + ["form", "http", "command line"].index(way))
    rollout = asked["rollout"]
    if way == "form":
        form = eventually(lambda: deployments(server)["answer"], lambda f: rollout in choices(f))
        assert form["parameters"] == {"rollout": rollout}
        given = {"rollout": rollout, "answer": "rollback", "who": "ada", "reason": "seen"}
        assert server.flow_run_ended(server.run_deployment("answer", **given))["state"]["type"] == "COMPLETED"
    elif way == "http":
        assert server.api("POST", f"/rollouts/{rollout}/answer", {"answer": "rollback", "reason": "seen"}).is_success
    else:
        assert practice.interlock("answer", rollout, "rollback", "--reason", "seen").code == 0
    ended = server.flow_run_ended(held)
    assert (ended["state"]["type"], ended["state"]["name"]) == ("FAILED", "rolled-back")
    assert "answered rollback: seen" in ended["state"]["message"]
    assert rollout in artifacts(server, held)["question"]["data"]
    assert "holding" in eventually(lambda: events(server, rollout), lambda e: e[-1:] == ["rolled-back"])


def choices(form: dict[str, Any]) -> list[str]:
    found: list[str] = form["parameter_openapi_schema"]["properties"]["rollout"].get("enum", [])
    return found


def test_the_automation_on_file_pauses_the_deployment_whose_rollout_is_stranded(
    server: Served, practice: Stage
) -> None:
    made = server.prefect("POST", "/automations/", yaml.safe_load(STRANDED.read_text(encoding="utf-8")))
    try:
        with starts_refused(practice):
            run = server.run_deployment("rollout", target=f"{SERVICE}/night-vm", reason="nothing starts")
            ended = server.flow_run_ended(run)
        assert (ended["state"]["type"], ended["state"]["name"]) == ("FAILED", "stranded"), ended["state"]
        eventually(lambda: paused(server), lambda found: found == ["rollout"])
        assert eventually(lambda: actions(server, made["id"]), bool) == ["prefect.automation.action.executed"]
        rollout = server.api("GET", f"/rollouts?service={SERVICE}&limit=1").json()["rollouts"][0]["rollout"]
        mended = server.flow_run_ended(server.run_deployment("recover", rollout=rollout))
        assert mended["state"]["name"] == "rolled-back", mended["state"]
        assert practice.facts().active == "active"
        by_hand = server.flow_run_ended(server.run_deployment("rollout", target=f"{SERVICE}/day", dry_run=True))
        assert by_hand["state"]["name"] == "planned", "what is paused are schedules"
        later = file(practice, "later")
        eventually(lambda: targets(server), lambda found: f"{SERVICE}/later" in found)
        assert paused(server) == ["rollout"], "what is registered anew stays paused until somebody resumes it"
        later.unlink()
    finally:
        server.prefect("DELETE", f"/automations/{made['id']}")
        server.prefect("POST", f"/deployments/{deployments(server)['rollout']['id']}/resume_deployment")


def targets(server: Served) -> list[str]:
    found: list[str] = deployments(server)["rollout"]["parameter_openapi_schema"]["properties"]["target"]["enum"]
    return found


@contextmanager
def starts_refused(practice: Stage) -> Iterator[None]:
    """Neither revision comes up meanwhile: systemd on the serving host starts nothing."""
    is_broken, start = True, ("systemctl", "start", "--", UNIT)
    practice.scene.serving.faults.fail(lambda argv: is_broken and tuple(argv) == start, times=None)
    try:
        yield
    finally:
        is_broken = False


def paused(server: Served) -> list[str]:
    return [name for name, found in deployments(server).items() if found["paused"]]


def actions(server: Served, automation: str) -> list[str]:
    """What Prefect says that it did for the automation."""
    wanted = {
        "resource": {"id": [f"prefect.automation.{automation}"]},
        "event": {"prefix": ["prefect.automation.action."]},
    }
    found = [e["event"] for e in server.prefect("POST", "/events/filter", {"filter": wanted})["events"]]
    return [event for event in found if not event.endswith(".triggered")]


def test_a_schedule_in_a_manifest_starts_a_rollout(server: Served, practice: Stage) -> None:
    """Within two minutes: cron has no seconds, and Prefect looks for what to schedule now and then."""
    each_minute = [{"cron": "* * * * *", "revision": "night-vm", "timezone": "Europe/Berlin"}]
    file(practice, "day", schedule=each_minute)
    try:
        server.until_it_says("by schedule: night-vm at * * * * * (Europe/Berlin)")
        due = server.until_it_says("a flow run of `scheduled-switch` is due")
        ended = server.flow_run_ended(due["flow_run"])
        assert (ended["state"]["type"], ended["state"]["name"]) == ("COMPLETED", "promoted"), ended["state"]
        assert ended["auto_scheduled"]
        assert ended["parameters"]["reason"] == "by schedule: * * * * * (Europe/Berlin)"
    finally:
        file(practice, "day")
    eventually(lambda: deployments(server)["scheduled switch"]["schedules"], lambda found: found == [])


def test_a_rollout_of_the_api_is_shown_whole_in_a_flow_run_of_its_own(server: Served, practice: Stage) -> None:
    lost = [True]
    practice.scene.serving.faults.cut_before(lambda words: "--help" in words and bool(lost and lost.pop()))
    file(practice, "shown", {"mem_fraction_static": 0.71})
    rollout = server.started("shown")
    assert server.ended(rollout)["state"] == "promoted"
    wanted = {"flow_runs": {"name": {"any_": [f"{SERVICE} {rollout}"]}}}
    (run,) = eventually(
        lambda: server.prefect("POST", "/flow_runs/filter", wanted),
        lambda found: [one["state"]["name"] for one in found] == ["promoted"],
    )
    assert set(artifacts(server, run["id"])) == {"plan", "claims", "readiness", "report"}
    recorded = server.api("GET", f"/rollouts/{rollout}/events?limit=500").json()["events"]
    begun = Counter(e["data"]["action"] for e in recorded if e["type"] == "action-started")
    shown = eventually(
        lambda: task_runs(server, run["id"]),
        lambda found: [t["state"]["type"] for t in found] == ["COMPLETED"] * len(begun),
    )
    assert Counter(t["run_count"] for t in shown) == Counter(begun.values())
    assert [t["name"] for t in shown if t["run_count"] > 1] == ["preflight"]


def task_runs(server: Served, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.prefect("POST", "/task_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    return found


def test_prefect_is_started_again_and_rollouts_go_on_without_it(server: Served, practice: Stage) -> None:
    rollout = server.started("day")
    server.until_it_says("start-service: ", rollout=rollout)
    kill_prefect(server)
    assert server.ended(rollout)["state"] == "promoted"
    said = server.until_it_says("Prefect's server ended (exit status -9)")
    assert "rollouts go on without it" in said["message"]
    server.until_it_says(PREFECT_CAME_UP, times=2)
    ended = server.flow_run_ended(server.run_deployment("rollout", target=f"{SERVICE}/day"))
    assert (ended["state"]["type"], ended["state"]["name"]) == ("COMPLETED", "unchanged"), ended["state"]


def kill_prefect(server: Served) -> None:
    """Its process group, as the kernel does when memory runs out: it is the one child in a session of its own."""
    children = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    found = [int(pid) for path in children for pid in path.read_text(encoding="ascii").split()]
    own = [pid for pid in found if os.getpgid(pid) == pid]
    assert len(own) == 1
    os.killpg(own[0], signal.SIGKILL)
