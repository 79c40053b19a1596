"""Wrappers, containers and KillMode=process: units whose main process is not all there is.

Each test runs on a simulated host over SSH and, with INTERLOCK_LAB=1, on a container host with a systemd of its own.
"""

import json
import re
from pathlib import Path

import pytest

from flows.ports import opened
from state.errors import StepFailed
from state.evidence import Evidence
from state.inspection.log import LogReader
from state.inspection.report import LogReport
from state.rollout import Rollout
from state.steps import StopService
from tasks import service
from tasks.argv import FENCE
from tasks.lab import container
from tasks.practice.scene import UNIT, UNIT_FILE
from tasks.sequence import Fence
from tests.flows.test_rollout_endings import fault
from tests.lab.contained import Stage
from tests.lab.orchestrated import Orchestrated
from tests.lab.rehearsed import KINDS, rehearsed
from tests.lab.shapes import FOLDER, IGNORED, PYTHON, command, end, members, plain, refused, unit_text

pytestmark = pytest.mark.parametrize("kind", KINDS)


STAYS = '/bin/bash -c "{command}; exit $$?"'
WRAPPERS = [
    pytest.param('/bin/bash -c "exec {command}"', "", id="bash-that-becomes-it"),
    pytest.param(STAYS, "", id="bash-that-stays"),
    pytest.param("/opt/start.sh", "#!/bin/bash\nulimit -n 65000\n{command}\n", id="script-that-stays"),
]


@pytest.mark.parametrize(("exec_start", "script"), WRAPPERS)
async def test_an_engine_below_a_wrapper_is_found_and_comes_back(
    kind: str, tmp_path: Path, exec_start: str, script: str
) -> None:
    async with rehearsed(kind, tmp_path, IGNORED) as made:
        engine = command(made.port, f"$PRACTICE_ROOT{PYTHON}")
        if script:
            made.put("/opt/start.sh", script.format(command=engine), 0o755)
        text = unit_text(exec_start.format(command=engine.replace("$", "$$")), "User=sglang")
        await made.begin({UNIT_FILE: text})
        before = await made.state()
        ended = await made.roll_out()
        outcome, summary = end(ended)
        assert outcome == "rolled-back", summary
        assert await made.state() == before
        assert ended.plan is not None
        assert ended.plan.previous is not None
        assert ended.plan.previous.arguments["mem_fraction_static"] == 0.85
        assert {v.outcome for v in ended.judged["old:1"].verdicts} == {"held"}


CLIENT = """#!/bin/sh
# A stand-in for `docker run IMAGE ARGV`: a daemon, not the client, starts ARGV, so that it is of no unit's cgroup that
# runs the client; and it lives on when the client ends.
shift 2
if [ -n "$PRACTICE_ROOT" ]; then
    env -u INVOCATION_ID setsid "$PRACTICE_ROOT$@" >/dev/null 2>&1 &
else
    systemd-run --quiet --slice=docker.slice --unit=docker-4f5e "$@"
fi
exec sleep 1000000
"""


async def test_an_engine_in_a_container_is_outside_and_told(kind: str, tmp_path: Path) -> None:
    """Before the stop: the unit's stop would not end it. And if it is stopped all the same, that is no stop."""
    async with rehearsed(kind, tmp_path) as made:
        made.put("/opt/docker/docker", CLIENT, 0o755)
        await made.begin({UNIT_FILE: unit_text("/opt/docker/docker run lmsys/sglang " + command(made.port))})
        told = (
            rf"port {made.port} on serving is held by \S+ \(PID \d+ in /\S+\), which is not of {UNIT}: an engine that"
        )
        await refused(made, told)
        for leftovers in ("refuse", "kill"):
            with pytest.raises(StepFailed) as failed:
                await stop(made, leftovers)
            named = rf"left PID \d+ \(.*-m sglang\.launch_server.*\), which holds port {made.port}"
            assert re.search(named, str(failed.value)), failed.value
            assert (await made.show("ActiveState"))["ActiveState"] in ("inactive", "failed")
        await made.until_it_generates(2.0)


async def stop(made: Orchestrated, leftovers: str) -> None:
    """The step alone."""
    made.put(FENCE, "7\n")
    given = {"host": "serving", "unit": made.unit, "port": made.port, "timeout_s": 20.0, "leftovers": leftovers}
    step = StopService.model_validate(given)
    async with made.ports() as ports, opened(ports, made.wanted().hosts) as hosts:
        await service.stop(hosts["serving"], step, Fence("shape", 7), f"do:0:{leftovers}")


async def test_a_port_that_the_kernel_forwards_is_no_stop_either(kind: str, tmp_path: Path) -> None:
    """As of a container whose port is published without a proxy: nobody listens, and still something answers."""
    async with rehearsed(kind, tmp_path) as made:
        if not isinstance(made, Stage):
            pytest.skip("a simulated host has the network of this machine")
        behind = made.port + 1
        await made.begin(plain(made) | {f"{FOLDER}/other.service": unit_text(command(behind))})
        await made.run("systemctl", "start", "--", "other.service")
        chain = f"type nat hook output priority -100;\ntcp dport {made.port} redirect to :{behind}\n"
        rules = f"table ip nat {{\nchain output {{\n{chain}}}\n}}\n".encode()
        loaded = container.run_in_network(made.host, ("nft", "-f", "-"), stdin=rules)
        assert loaded.ok, loaded.stderr
        await made.until_it_generates()
        with pytest.raises(StepFailed, match=rf"left something that answers on port {made.port} \(HTTP 200\)"):
            await stop(made, "kill")


async def test_lines_of_an_older_process_are_not_the_new_start_s(kind: str, tmp_path: Path) -> None:
    """journald stamps them with the new start's InvocationID: evidence is bound to the processes as well."""
    logs_on = fault("old-process-keeps-logging", seconds=600)
    async with rehearsed(kind, tmp_path, logs_on) as made:
        await made.begin(plain(made))
        assert end(await made.roll_out())[0] == "promoted"
        made.put(f"{UNIT_FILE}.d/kill.conf", "[Service]\nKillMode=process\n")
        made.script_faults()
        await made.run("systemctl", "daemon-reload")
        await made.run("systemctl", "restart", "--", UNIT)
        await made.until_it_generates()
        new = (await made.show("InvocationID"))["InvocationID"]
        (left,) = [pid for pid in await members(made) if f"INVOCATION_ID={new}".encode() not in made.environ(pid)]
        stamped = await records(made, f"_SYSTEMD_INVOCATION_ID={new}")
        assert [r for r in stamped if r["_PID"] == str(left) and "Decode batch" in r["MESSAGE"]]

        ended = await made.roll_out(purpose="verify")
        assert end(ended)[0] == "unproven", end(ended)
        (told,) = [v for v in ended.verdicts if v.outcome != "held"]
        assert re.search(r"\d+ journal records of older processes", told.reason), told
        await unpolluted(made, ended, left)

        await made.run("kill", "-KILL", str(left))
        ended = await made.roll_out(purpose="verify")
        assert end(ended)[0] == "verified", end(ended)
        await unpolluted(made, ended, left)


async def records(made: Orchestrated, *words: str) -> list[dict[str, str]]:
    text = await made.run("journalctl", "--no-pager", "--output=json", "--all", *words)
    return [json.loads(line) for line in text.splitlines()]


async def unpolluted(made: Orchestrated, ended: Rollout, left: int) -> None:
    """The journal that was gathered has the older process's lines; what is read of it has none."""
    items = ended.gathered["new:1"]
    async with made.ports() as ports:
        kept = {name: await ports.evidence.get(item.digest) for name, item in items.items()}
    assert f'"_PID":"{left}"'.encode() in kept["journal"].replace(b'": "', b'":"')
    raw = LogReader()
    for line in kept["journal"].splitlines():
        raw.feed_line(line)
    assert writers(raw.report()) - writers(Evidence(kept).log) == {left}


def writers(report: LogReport) -> set[int]:
    return {pid for boot in report.boots for pid in boot.pids}


@pytest.mark.parametrize("leftovers", ["refuse", "kill"])
async def test_a_leftover_of_the_old_service_is_named(kind: str, tmp_path: Path, leftovers: str) -> None:
    """KillMode=process leaves the engine's children in the cgroup, as some hand-written units do; init takes them."""
    stays = fault("slow-stop-leftover", always=True, seconds=1, leftover_seconds=600)
    async with rehearsed(kind, tmp_path, stays) as made:
        await made.begin(plain(made, "KillMode=process"))
        made.script_faults()
        before = await made.state()
        outcome, summary = end(await made.roll_out(unit={"stop": {"leftovers": leftovers, "timeout": "20s"}}))
        if leftovers == "kill":
            assert outcome == "promoted", summary
            return
        assert outcome == "rolled-back", summary
        assert re.search(r"left PID \d+ \(\S+.*\), which holds port \d+", summary), summary
        assert await made.state() == before
