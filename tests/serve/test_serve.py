"""`interlock serve` while Prefect does not answer: rollouts over HTTP, and the server's end in the middle of one."""

import re
import signal
import stat
from collections.abc import Iterator

import pytest

from tests.cli.practice import Stage, end_of, ended, stage
from tests.serve.home import SERVICE, Served, file, served

pytestmark = pytest.mark.serve

IGNORED = {"fault": "flag-ignored", "when": {"speculative_algorithm": "EAGLE3"}}
SLOW = {"stage_seconds": {"weights": 1.5}}
NO_PREFECT = {"PREFECT_API_URL": "http://127.0.0.1:9/api"}


@pytest.fixture(scope="module")
def practice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("serve"), faults=[IGNORED], settings=SLOW) as made:
        yield made


def starting(server: Served, revision: str) -> str:
    """A rollout whose service is down."""
    rollout = server.started(revision)
    server.until_it_says("start-service: ", rollout=rollout)
    return rollout


def test_a_rollout_over_http_is_promoted_and_a_second_server_refused(practice: Stage) -> None:
    with served(practice) as server:
        mode = stat.S_IMODE((practice.directory / "serve.json").stat().st_mode)
        assert mode == 0o600
        rollout = server.started("day", reason="by day")
        again = ended(practice.start("serve", "--port", "0", environment=NO_PREFECT))
        assert again.code == 3
        assert f"`interlock serve` runs already on {practice.directory} (PID {server.process.pid})" in again.err
        assert server.ended(rollout)["state"] == "promoted"
        listed = server.api("GET", "/services").json()["services"]
        assert [s["service"] for s in listed] == [SERVICE]
        server.signal(signal.SIGTERM)
        assert server.end() == 0
    assert not (practice.directory / "serve.json").exists()


def test_a_port_that_is_taken_is_one_sentence(practice: Stage) -> None:
    with served(practice) as server:
        port = server.reach.url.rpartition(":")[2]
        other = practice.start(
            "serve", "--port", port, "--prefect-port", "0", data_dir=str(practice.directory / "other")
        )
        ran = ended(other)
    assert ran.code == 3
    assert ran.err.startswith(f"error: Cannot listen at 127.0.0.1:{port}: Address already in use\n")
    assert "Traceback" not in ran.err


def test_nobody_is_served_from_elsewhere_before_there_is_a_token(practice: Stage) -> None:
    ran = ended(practice.start("serve", "--host", "0.0.0.0", "--port", "0", environment=NO_PREFECT))
    assert ran.code == 3
    assert "error: 0.0.0.0 can be reached from elsewhere, and there is no token to ask with" in ran.err


@pytest.mark.parametrize(
    ("grace_s", "outcome"),
    [pytest.param("60", "promoted", id="it ends within the grace"), pytest.param("0", "rolled-back", id="it does not")],
)
def test_sigterm_in_the_middle_leaves_nothing_half_done(practice: Stage, grace_s: str, outcome: str) -> None:
    before = practice.facts()
    with served(practice, stop_grace_s=grace_s) as server:
        rollout = starting(server, "night-vm" if outcome == "promoted" else "day")
        server.signal(signal.SIGTERM)
        server.until_it_says("stopping: 1 rollouts")
        refused = server.api("POST", "/rollouts", {"service": SERVICE, "revision": "day"})
        assert refused.status_code == 409
        assert server.end() == 0
        assert [line["outcome"] for line in server.lines if line.get("outcome")] == [outcome]
    assert not list((practice.directory / "serve" / "rollouts").iterdir())
    after = practice.facts()
    assert after.active == "active"
    assert (after.unit_file == before.unit_file) == (outcome == "rolled-back")
    assert practice.interlock("show", rollout).code == 0


def test_what_a_killed_server_drove_is_gone_on_with_at_once_by_the_next(practice: Stage) -> None:
    with served(practice) as server:
        rollout = starting(server, "day")
        server.signal(signal.SIGKILL)
        server.end()
    with served(practice) as server:
        server.until_it_says("going on with a rollout that was left unfinished", rollout=rollout)
        assert server.ended(rollout)["state"] == "promoted"
    assert b"--speculative-num-steps 5" in (practice.facts().unit_file or b"")


def test_a_cancellation_over_http_turns_back(practice: Stage) -> None:
    with served(practice) as server:
        rollout = starting(server, "night-vm")
        assert server.api("POST", f"/rollouts/{rollout}/cancel").status_code == 202
        found = server.ended(rollout)
        assert found["state"] == "rolled-back"
        assert re.search(r"cancelled by \S+@\S+ local-[0-9a-f]{8}\.", found["summary"])


def test_a_manifest_with_a_mistake_is_told_with_its_line_and_takes_no_other_away(practice: Stage) -> None:
    broken = file(practice, "broken", schedule=[{"cron": "0 7 * * *", "revision": "gone"}])
    away = file(practice, "away", schedule=[{"cron": "0 7 * * *", "revision": "day", "timezone": "Europe/Berln"}])
    unreadable = practice.directory / "manifests" / "unreadable.yaml"
    unreadable.write_text("interlock: 1\nservice: [\n", encoding="utf-8")
    try:
        with served(practice) as server:
            told = server.until_it_says("there is no manifest of")["message"]
            line = 1 + broken.read_text(encoding="utf-8").splitlines().index("schedule:")
            assert f"{broken}:{line + 1}: schedule[0].revision: there is no manifest of {SERVICE}" in told
            told = server.until_it_says("did you mean `Europe/Berlin`?")["message"]
            line = 1 + [one.strip() for one in away.read_text(encoding="utf-8").splitlines()].index(
                "timezone: Europe/Berln"
            )
            assert f"{away}:{line}: schedule[0].timezone: `Europe/Berln` is not in this machine's time zone" in told
            server.until_it_says(f"{unreadable}:")
            assert server.started("day")
            server.signal(signal.SIGTERM)
            assert server.end() == 0
    finally:
        broken.unlink()
        away.unlink()
        unreadable.unlink()


def test_the_command_line_hands_a_rollout_over_and_shows_it(practice: Stage) -> None:
    with served(practice) as server:
        done = practice.interlock("apply", practice.manifest({"mem_fraction_static": 0.8}), "--reason", "handed over")
        assert done.code == 0, done
        assert "PROMOTED" in done.out
        assert "start-service" in done.out
        assert server.until_it_says("ended: ")["outcome"] == "promoted"
        assert practice.interlock("apply", practice.manifest({"mem_fraction_static": 0.65})).code == 0
        back = practice.interlock("rollback", SERVICE, "--json")
        assert (back.code, back.json["outcome"], back.json["purpose"]) == (0, "promoted", "rollback")
        nothing = practice.interlock("rollback", SERVICE, "--to", "feed")
        assert nothing.code == 2
        assert re.match(rf"error: {SERVICE} has \d+ proven revisions: none begins with `feed`", nothing.err)


def test_an_interrupted_command_turns_back_what_it_handed_over(practice: Stage) -> None:
    before = practice.facts()
    with served(practice) as server:
        command = practice.start("apply", practice.manifest({"mem_fraction_static": 0.7}))
        server.until_it_says("start-service: ")
        ran = end_of(command, signal.SIGINT)
        assert ran.code == 130, ran
        assert "ROLLED-BACK" in ran.out
    assert practice.facts().unit_file == before.unit_file
