"""The stand-in in memory, as a unit of a practice machine, in virtual time."""

import asyncio
import json
import signal
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest

from tasks.practice.engine.install import QWEN, QWEN_MTP, engine_files, install_in
from tasks.practice.engine.memory import memory_engine
from tasks.practice.host import PracticeMachine
from tests.engine_standin.standin_launch import TRIPLE
from tests.practice.session import Session
from tests.practice.virtual_time import in_virtual_time

COMMAND = f"/opt/sglang/bin/python -m sglang.launch_server --model-path {QWEN.path} --tp 4"
URL = "http://127.0.0.1:30000"


def session(words: str = TRIPLE, faults: Sequence[Mapping[str, object]] = (), more: str = "") -> Session:
    run = Session(PracticeMachine(factory=memory_engine))
    install_in(run.machine.files, engine_files(models=(QWEN, QWEN_MTP), faults=faults))
    unit = f"[Unit]\nDescription=SGLang\n[Service]\nExecStart={COMMAND} {words}\n{more}"
    run.machine.files.put("/etc/systemd/system/sglang.service", unit)
    return run


def client(run: Session, timeout: float = 60.0) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=run.machine.transport(), base_url=URL, timeout=timeout)


async def ready(run: Session) -> None:
    await run("systemctl", "start", "sglang.service")
    async with client(run) as http, asyncio.timeout(60):
        while True:
            try:
                if (await http.get("/health")).status_code == 200:
                    return
            except httpx.ConnectError:
                pass
            await asyncio.sleep(0.05)


async def generate(http: httpx.AsyncClient, text: str, **sampling: object) -> dict[str, Any]:
    body = {"text": text, "sampling_params": {"temperature": 0, **sampling}}
    answer: dict[str, Any] = (await http.post("/generate", json=body)).raise_for_status().json()
    return answer


async def records(run: Session) -> list[dict[str, str]]:
    done = await run("journalctl", "-o", "json", "--all", "--unit=sglang.service")
    return [json.loads(line) for line in done.text.splitlines() if line.startswith("{")]


@in_virtual_time
async def test_a_whole_life_as_a_unit() -> None:
    run = session()
    await ready(run)
    assert asyncio.get_running_loop().time() == pytest.approx(1.3, abs=0.3)
    async with client(run) as http:
        long, sum_ = await asyncio.gather(
            generate(http, "Describe how bread is made.", max_new_tokens=256, ignore_eos=True),
            generate(http, "What is 17 + 25? Answer with the number only."),
        )
        async with http.stream("POST", "/generate", json={"text": "Rivers", "stream": True}) as stream:
            lines = [line async for line in stream.aiter_lines() if line]
    assert 0 < long["meta_info"]["spec_verify_ct"] < 255
    assert sum_["text"] == " 42"
    assert lines[-1] == "data: [DONE]"
    main = int((await run.shown("sglang.service", "MainPID"))["MainPID"])
    by_rank = {record["_PID"] for record in await records(run) if " TP0] " in record["MESSAGE"]}
    assert len(by_rank) == 1
    assert str(main) not in by_rank
    assert (await run("systemctl", "stop", "sglang.service")).status == 0
    down = await run.shown("sglang.service", "ActiveState", "ExecMainCode", "ExecMainStatus")
    assert down == {"ActiveState": "failed", "ExecMainCode": "2", "ExecMainStatus": "9"}  # it kills itself, drained
    assert not list(run.machine.systemd.groups())


@in_virtual_time
async def test_a_crash_while_loading_fails_the_unit() -> None:
    run = session(faults=[{"fault": "crash-loading-draft"}])
    await run("systemctl", "start", "sglang.service")
    await asyncio.sleep(2)
    said = await run.said("sglang.service")
    assert any("Scheduler hit an exception: Traceback" in line for line in said)
    assert "KeyError: 'model.layers.0.mlp.experts.w2_weight'" in said


@in_virtual_time
async def test_help_and_version_in_a_session() -> None:
    run = session()
    help_ = await run("/opt/sglang/bin/python", "-m", "sglang.launch_server", "--help")
    assert help_.status == 0
    assert "--speculative-num-steps" in help_.text
    code = "import importlib.metadata as m; print(m.version('sglang'))"
    assert (await run("/opt/sglang/bin/python", "-c", code)).text == "0.5.20\n"
    refused = await run("/opt/sglang/bin/python", "-m", "sglang.launch_server", "--model-path", "/none")
    assert refused.status == 1


@in_virtual_time
async def test_a_hang_ends_in_a_read_timeout() -> None:
    run = session(faults=[{"fault": "hang-after-ready"}])
    await ready(run)
    async with client(run, timeout=30) as http:
        assert (await http.get("/v1/models")).status_code == 200
        begun = asyncio.get_running_loop().time()
        with pytest.raises(httpx.ReadTimeout):
            await generate(http, "Rivers")
        assert asyncio.get_running_loop().time() - begun == pytest.approx(30, abs=0.1)


@in_virtual_time
async def test_a_leftover_holds_the_port_until_it_is_killed() -> None:
    run = session(
        faults=[{"fault": "slow-stop-leftover", "seconds": 1, "leftover_seconds": 600}], more="KillMode=process\n"
    )
    await ready(run)
    await run("systemctl", "stop", "sglang.service")
    (group,) = run.machine.systemd.groups()
    ((pid, argv),) = group.members().items()
    assert argv == ("sglang::scheduler_TP0",)
    assert group.listening() == {30000: pid}
    run.machine.signal(pid, signal.SIGTERM)
    assert list(run.machine.systemd.groups())
    run.machine.signal(pid, signal.SIGKILL)
    assert not list(run.machine.systemd.groups())


@in_virtual_time
async def test_an_old_process_logs_after_the_new_one_started() -> None:
    fault = {"fault": "old-process-keeps-logging", "seconds": 5}
    run = session(faults=[fault], more="KillMode=process\n")
    await ready(run)
    await run("systemctl", "stop", "sglang.service")
    await run("systemctl", "start", "sglang.service")
    await asyncio.sleep(3)
    pids = [record["_PID"] for record in await records(run) if "Decode batch" in record["MESSAGE"]]
    assert len(pids) > 3
    main = int((await run.shown("sglang.service", "MainPID"))["MainPID"])
    assert all(int(pid) < main for pid in pids)


@in_virtual_time
async def test_killing_a_scheduler_fails_the_unit() -> None:
    run = session()
    await ready(run)
    (group,) = run.machine.systemd.groups()
    victim = next(pid for pid, argv in group.members().items() if argv[0].endswith("TP3"))
    run.machine.signal(victim, signal.SIGKILL)
    await asyncio.sleep(1)
    assert f"Subprocess scheduler_3 (pid={victim}) crashed" in "\n".join(await run.said("sglang.service"))
    assert not list(run.machine.systemd.groups())


@in_virtual_time
async def test_a_stopped_scheduler_turns_health_to_503_after_20_seconds() -> None:
    run = session()
    await ready(run)
    (group,) = run.machine.systemd.groups()
    first = next(pid for pid, argv in group.members().items() if argv[0].endswith("TP0"))
    run.machine.signal(first, signal.SIGSTOP)
    async with client(run, timeout=30) as http:
        begun = asyncio.get_running_loop().time()
        assert (await http.get("/health")).status_code == 503
        assert asyncio.get_running_loop().time() - begun == pytest.approx(20, abs=0.1)
        run.machine.signal(first, signal.SIGCONT)
        assert (await http.get("/health")).status_code == 200
