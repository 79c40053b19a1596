"""What `plan` notes beside what it would do."""

from pathlib import Path

from tests.cli.practice import stage

CLAIMS = [{"claim": "throughput", "at_least": "+12%", "concurrency": [4096]}]
SAID = "claims about load cannot be decided: 4 passes of 8192 requests at concurrency 4096 take"


def test_a_time_that_no_traffic_can_keep_is_noted_and_refuses_nothing(tmp_path: Path) -> None:
    with stage(tmp_path) as practice:
        manifest = practice.manifest(claims=CLAIMS, traffic={"rate": 8})
        planned = practice.interlock("plan", manifest)
        assert (planned.code, planned.err) == (0, "")
        assert f"note: {SAID}" in " ".join(planned.out.split())
        (remark,) = practice.interlock("plan", manifest, "--json").json["remarks"]
        assert remark.startswith(SAID)
        usual = practice.manifest(claims=[{**CLAIMS[0], "concurrency": [8]}])
        assert practice.interlock("plan", usual, "--json").json["remarks"] == []
