"""The shapes of units that operators have: drop-ins, files of variables, templates, wrappers, containers, KillMode.

Each test runs on a simulated host over SSH and, with INTERLOCK_LAB=1, on a container host with a systemd of its own.
"""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.ports import opened
from state.drop_ins import drop_in_folders, in_force
from state.errors import StepFailed
from state.evidence import Evidence
from state.inspection.log import LogReader
from state.inspection.report import LogReport
from state.inspection.unit import read_unit
from state.rollout import Rollout
from state.steps import StopService
from state.store.export import export_lines
from tasks import argv, service
from tasks.argv import FENCE
from tasks.practice.engine.install import QWEN
from tasks.practice.scene import UNIT, UNIT_FILE, free_port
from tasks.sequence import Fence
from tests.flows.test_rollout_endings import fault
from tests.lab.orchestrated import Orchestrated
from tests.lab.rehearsed import KINDS, rehearsed

pytestmark = pytest.mark.parametrize("kind", KINDS)
FOLDER = "/etc/systemd/system"
PYTHON = "/opt/sglang/bin/python"
IGNORED = fault("flag-ignored")


def command(port: int | str, program: str = PYTHON) -> str:
    """The hand-written service's command line, in systemd's words."""
    words = f"--model-path {QWEN.path} --host 127.0.0.1 --port {port} --tp-size 4 --mem-fraction-static 0.85"
    return f"{program} -m sglang.launch_server {words}"


def unit_text(command: str, *more: str) -> str:
    lines = ("Environment=NCCL_P2P_DISABLE=1", f"ExecStart={command}", "TimeoutStopSec=20", *more)
    return "[Unit]\nDescription=SGLang\n\n[Service]\n" + "".join(f"{line}\n" for line in lines)


def plain(made: Orchestrated, *more: str) -> dict[str, str]:
    return {UNIT_FILE: unit_text(command(made.port), "User=sglang", *more)}


def end(rollout: Rollout) -> tuple[str, str]:
    assert rollout.concluded is not None
    return rollout.concluded.outcome, rollout.concluded.summary


async def stops(made: Orchestrated) -> int:
    """How often systemd has stopped the service."""
    return (await made.journal(f"--unit={made.unit}")).count(f"Stopping {made.unit}")


async def refused(made: Orchestrated, sentence: str, **changes: Any) -> None:
    """Such a rollout is refused with that sentence, and leaves host and service as they are; whether a reload is due is
    systemd's own look at the disk, which it takes when it likes."""
    before, stopped = await made.state(), await stops(made)
    outcome, summary = end(await made.roll_out(**changes))
    assert outcome == "refused", summary
    assert re.search(sentence, summary), summary
    after = replace(await made.state(), reload=before.reload)
    assert (after, await stops(made)) == (before, stopped), summary


# Drop-ins


async def test_a_drop_in_that_adds_to_the_unit_stays_in_force(kind: str, tmp_path: Path) -> None:
    async with rehearsed(kind, tmp_path, IGNORED) as made:
        path = f"{UNIT_FILE}.d/10-limits.conf"
        text = "# of the operators\n[Service]\nNice=5\nLimitNOFILE=65000\nEnvironment=HF_HOME=/shared/hf\n"
        await made.begin(plain(made) | {path: text})
        before = await made.state()
        outcome, summary = end(await made.roll_out())
        assert outcome == "rolled-back", summary
        assert await made.state() == before
        made.script_faults()
        outcome, summary = end(await made.roll_out())
        assert outcome == "promoted", summary
        assert made.path(path).read_text() == text
        facts = await made.show("DropInPaths", "LimitNOFILE", "MainPID")
        assert (facts["DropInPaths"], facts["LimitNOFILE"]) == (path, "65000")
        assert b"HF_HOME=/shared/hf\0" in made.environ(int(facts["MainPID"]))


OVERRIDES = [
    ("ExecStart", f"{UNIT}.d/a.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/true\n", "ExecStart"),
    ("spaces-around-the-sign", f"{UNIT}.d/a.conf", "[Service]\nExecStart =\nExecStart = /usr/bin/true\n", "ExecStart"),
    ("behind-a-comment-like-a-header", f"{UNIT}.d/a.conf", "[Service]\n# /x\nUser=nobody\n", "User"),
    (
        "variable",
        f"{UNIT}.d/a.conf",
        '[Service]\nEnvironment="A=1" NCCL_P2P_DISABLE=0\n',
        "Environment=NCCL_P2P_DISABLE",
    ),
    ("variable-taken-away", f"{UNIT}.d/a.conf", "[Service]\nUnsetEnvironment=NCCL_P2P_DISABLE\n", "Environment=NCCL_"),
    ("all-variables-taken-away", f"{UNIT}.d/a.conf", "[Service]\nEnvironment=\n", "Environment;"),
    ("file-of-variables", f"{UNIT}.d/a.conf", "[Service]\nEnvironmentFile=-/etc/x.env\n", "EnvironmentFile"),
    ("KillMode", f"{UNIT}.d/a.conf", "[Service]\nKillMode=process\n", "KillMode"),
    ("of-a-shortened-name", "sglang-.service.d/a.conf", "[Service]\nRestart=no\n", "Restart"),
    ("of-all-services", "service.d/a.conf", "[Service]\nTimeoutStopSec=1\n", "TimeoutStopSec"),
]


@pytest.mark.parametrize("reload", [pytest.param(True, id="read-by-systemd"), pytest.param(False, id="not-yet-read")])
async def test_a_drop_in_that_overrides_is_told_before_the_stop(kind: str, tmp_path: Path, reload: bool) -> None:
    """systemd does not notice a new drop-in by itself, not even with NeedDaemonReload=; the new unit brings it in."""
    async with rehearsed(kind, tmp_path) as made:
        await made.begin(plain(made))
        for _, name, text, told in OVERRIDES if reload else OVERRIDES[::3]:
            path = f"{FOLDER}/{name}"
            made.put(path, text)
            if reload:
                await made.run("systemctl", "daemon-reload")
            await refused(made, rf"the drop-in {re.escape(path)} overrides {re.escape(told)}")
            made.path(path).unlink()
            made.path(path).parent.rmdir()
        await made.run("systemctl", "daemon-reload")
        assert (await made.show("DropInPaths"))["DropInPaths"] == ""


# Files of variables

SECRETS = {
    "HF_TOKEN": "hf-9d1c77aa-token",
    "SGLANG_LICENCE": "l1c3nce-0af3-77",
    "MODEL_NOTE": "n0te-of-nobodys-business",
}


async def test_secrets_of_a_file_reach_the_process_and_nothing_else(kind: str, tmp_path: Path) -> None:
    async with rehearsed(kind, tmp_path, IGNORED) as made:
        await made.begin(plain(made))
        path = "/etc/interlock/qwen.env"
        made.put(path, "".join(f"{name}={value}\n" for name, value in SECRETS.items()), 0o600)
        assert end(await made.roll_out(unit={"secrets": [path]}))[0] == "rolled-back"
        made.script_faults()
        ended = await made.roll_out(unit={"secrets": [path]})
        assert end(ended)[0] == "promoted", end(ended)
        environ = made.environ(int((await made.show("MainPID"))["MainPID"])).split(b"\0")
        assert {f"{name}={value}".encode() for name, value in SECRETS.items()} <= set(environ)
        kept = await everything_kept(made)
        assert b'"SGLANG_LICENCE": null' in kept, "the names are evidence"
        assert [value for value in SECRETS.values() if value.encode() in kept] == []


async def everything_kept(made: Orchestrated) -> bytes:
    """All that the store holds: every event, every piece of evidence, and the database's own bytes."""
    kept = [path.read_bytes() for path in sorted(made.folder.iterdir()) if path.is_file()]
    async with made.ports() as ports:
        for stream in await ports.events.streams():
            async for line in export_lines(ports.events, stream, ports.evidence):
                kept.append(line.encode())
                if digest := json.loads(line).get("evidence"):
                    kept.append(await ports.evidence.get(digest))
    return b"\n".join(kept)


async def test_a_file_of_variables_that_will_not_do_is_told_before_the_stop(kind: str, tmp_path: Path) -> None:
    async with rehearsed(kind, tmp_path) as made:
        await made.begin(plain(made))
        path = "/etc/interlock/qwen.env"
        wanted = {"unit": {"secrets": [path]}}
        await refused(made, rf"unit\.secrets: {path} does not exist on serving, or is no file", **wanted)
        made.put(f"{path}/inside", "A=1\n")
        await refused(made, rf"unit\.secrets: {path} does not exist on serving, or is no file", **wanted)
        made.path(f"{path}/inside").unlink()
        made.path(path).rmdir()
        made.put(path, "HF_TOKEN=hf-9d1c77aa\n  NCCL_P2P_DISABLE = 0123456789\n", 0o600)
        told = rf"unit\.secrets: {path} on serving sets NCCL_P2P_DISABLE, as `unit\.environment` does"
        await refused(made, told, **wanted)
        assert b"0123456789" not in await everything_kept(made)


# Templates


async def test_an_instance_of_a_template_is_rolled_out_alone(kind: str, tmp_path: Path) -> None:
    """It gets a unit file of its own; a rollback takes that away again. The template and its other instances stay."""
    async with rehearsed(kind, tmp_path, IGNORED) as made:
        for path, text in template(free_port(), 2).items():
            made.put(path, text)
        await made.run("systemctl", "daemon-reload")
        await made.run("systemctl", "start", "--", "sglang@2.service")
        await made.begin(template(made.port, 1), "sglang@1.service")
        wanted = {"unit": {"name": "sglang@1.service", "stop": {"timeout": "20s"}}}
        before, second = await made.state(), await instance(made, 2)
        outcome, summary = end(await made.roll_out(**wanted))
        assert outcome == "rolled-back", summary
        assert await made.state() == before
        made.script_faults()
        ended = await made.roll_out(**wanted)
        assert end(ended)[0] == "promoted", end(ended)
        assert ended.plan is not None
        assert [c for c in ended.plan.changes if "sglang@.service and its other instances stay as they are" in c]
        facts = await made.show("FragmentPath", "DropInPaths", "ControlGroup")
        assert facts["FragmentPath"] == f"{FOLDER}/sglang@1.service"
        assert facts["DropInPaths"].split() == [
            f"{FOLDER}/sglang@.service.d/10.conf",
            f"{FOLDER}/sglang@1.service.d/20.conf",
        ]
        assert facts["ControlGroup"] == service.default_group(made.unit)
        assert end(await made.roll_out(purpose="verify", **wanted))[0] == "verified"
        assert end(await made.roll_out(**wanted))[0] == "unchanged"
        assert await instance(made, 2) == second
        await inspected(made)
        made.put(f"{FOLDER}/sglang@.service.d/30.conf", "[Service]\nUser=nobody\n")
        changed = wanted | {"arguments": {"speculative_num_steps": 3, "speculative_num_draft_tokens": 4}}
        await refused(made, r"the drop-in \S+/sglang@\.service\.d/30\.conf overrides User", **changed)


def template(port: int, number: int) -> dict[str, str]:
    return {
        f"{FOLDER}/sglang@.service": unit_text(command("${PORT}"), "User=sglang", "EnvironmentFile=/etc/sglang/%i.env"),
        f"{FOLDER}/sglang@.service.d/10.conf": "[Service]\nNice=3\n",
        f"{FOLDER}/sglang@{number}.service.d/20.conf": "[Service]\nLimitNOFILE=64000\n",
        f"/etc/sglang/{number}.env": f"PORT={port}\n",
    }


async def instance(made: Orchestrated, number: int) -> str:
    names = "ActiveState,MainPID,InvocationID,FragmentPath,NRestarts,NeedDaemonReload"
    return await made.run("systemctl", "show", f"--property={names}", "--", f"sglang@{number}.service")


async def inspected(made: Orchestrated) -> None:
    """What inspection reads of the instance's journal and unit."""
    reader = LogReader()
    for line in (
        await made.run("journalctl", "--output=json", "--all", "--no-pager", f"--unit={made.unit}")
    ).splitlines():
        reader.feed_line(line.encode())
    assert [boot.outcome for boot in reader.report().boots][-1] == "ready"
    report = read_unit(await made.run("systemctl", "cat", "--", made.unit), made.unit)
    assert report.arguments["speculative_algorithm"] == "NEXTN"


# Wrappers and containers

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


# KillMode=process


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


async def members(made: Orchestrated) -> list[int]:
    group = (await made.show("ControlGroup"))["ControlGroup"]
    return [int(pid) for pid in (await made.run("cat", "--", f"/sys/fs/cgroup{group}/cgroup.procs")).split()]


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


NAMES = ["sglang-qwen.service", "sglang-qwen-a@b-c.service", "sglang@1.service"]
DECOYS = ["sglang-qwen-.service", "sglang-qwen@.service", "sglang-qwen-a@b-.service", "sglang.service", "-.service"]


async def test_drop_ins_are_looked_for_where_systemd_reads_them(kind: str, tmp_path: Path) -> None:
    """One in every folder, of a name of its own; of those of one name the stronger folder's alone counts."""
    async with rehearsed(kind, tmp_path) as made:
        folders = {folder for name in (*NAMES, *DECOYS) for folder in drop_in_folders(name)}
        folders = {folder for folder in folders if folder.startswith(("/etc/systemd/system/", "/run/systemd/system/"))}
        for number, folder in enumerate(sorted(folders)):
            made.put(f"{folder}/{number:03}.conf", "[Service]\nNice=1\n")
            made.put(f"{folder}/same.conf", "[Service]\nNice=2\n")
        for name in NAMES:
            made.put(f"{FOLDER}/{name}", unit_text("/usr/bin/true"))
        await made.run("systemctl", "daemon-reload")
        for name in NAMES:
            made.unit = name
            there = (await made.run(*argv.drop_ins(name).words)).splitlines()
            assert list(in_force(there)) == (await made.show("DropInPaths"))["DropInPaths"].split(), name
