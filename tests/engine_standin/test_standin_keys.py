"""The API key of the stand-in: each way in which an engine is told one, and the paths for which it is asked."""

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from tasks.practice.engine.arguments import ParserExit
from tasks.practice.engine.config_file import merged
from tasks.practice.engine.install import EngineName
from tasks.practice.host import PracticeMachine
from tasks.practice.scene import SERVICES
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

YAML, KEYS, ENV = "/etc/interlock/engine.yaml", "/etc/interlock/keys", "/etc/interlock/engine.env"
FILES: Mapping[str, str] = {
    YAML: "# of the engine\napi-key: 'k1'  # rotated in May\nenable_metrics: true\nlog_requests: false\n",
    KEYS: "k0\nk1\nk2\r\n",  # the last one is no k2: llama-server keeps the carriage return
    ENV: "VLLM_API_KEY=k1\nLLAMA_API_KEY=k1\n",
}
PLAIN = "api-key: k1\n"
SGLANG = {"/health": 200, "/metrics": 200, "/generate": 401, "/server_info": 401, "/v1/models": 401}
VLLM = {"/health": 200, "/metrics": 200, "/version": 200, "/v1/models": 401, "/v1/completions": 401}
LLAMACPP = {"/health": 200, "/v1/models": 200, "/props": 401, "/metrics": 401, "/completion": 401}
UNAUTHORIZED = {"error": "Unauthorized"}
INVALID = {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}}

WAYS = [
    pytest.param("sglang", "--api-key k1 --enable-metrics", "", SGLANG, UNAUTHORIZED, id="sglang-flag"),
    pytest.param("sglang", f"--config {YAML}", "", SGLANG, UNAUTHORIZED, id="sglang-config"),
    pytest.param("sglang", f"--config={YAML}", "", SGLANG, UNAUTHORIZED, id="sglang-config-in-one-word"),
    pytest.param("vllm", "--api-key k1", "", VLLM, UNAUTHORIZED, id="vllm-flag"),
    pytest.param("vllm", f"--config {YAML}.plain", "", VLLM, UNAUTHORIZED, id="vllm-config"),
    pytest.param("vllm", "", ENV, VLLM, UNAUTHORIZED, id="vllm-variable"),
    pytest.param("llamacpp", "--api-key k0,k1", "", LLAMACPP, INVALID, id="llamacpp-flag"),
    pytest.param("llamacpp", f"--api-key-file {KEYS}", "", LLAMACPP, INVALID, id="llamacpp-file"),
    pytest.param("llamacpp", "", ENV, LLAMACPP, INVALID, id="llamacpp-variable"),
]


@pytest.mark.parametrize(("engine", "flags", "variables", "paths", "refusal"), WAYS)
def test_a_key_is_asked_for_where_the_engine_asks_for_it(
    engine: EngineName, flags: str, variables: str, paths: Mapping[str, int], refusal: object
) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine=engine, started=False) as stage:
            furnish(stage, flags, variables)
            await stage._run("systemctl", "start", "--", stage.scene.unit)
            await stage.scene.until_it_answers(key="k1")
            await asyncio.sleep(5)  # of virtual time: /health is 503 until the warm-up is done
            async with httpx.AsyncClient(transport=stage.scene.serving.transport(), base_url=URL) as client:
                for key in ("", "k2", "k1 "):
                    headers = {"Authorization": f"Bearer {key}"} if key else {}
                    told = {path: await client.request(method(path), path, headers=headers) for path in paths}
                    assert {path: answer.status_code for path, answer in told.items()} == paths
                    assert next(answer.json() for answer in told.values() if answer.status_code == 401) == refusal
                sent = {"Authorization": "Bearer k1"}
                assert 401 not in [(await client.request(method(p), p, headers=sent)).status_code for p in paths]

    run()


URL = "http://127.0.0.1:30000"


def method(path: str) -> str:
    return "POST" if path.endswith(("generate", "completion", "completions")) else "GET"


def furnish(stage: Rehearsal, flags: str, variables: str) -> None:
    files = stage.scene.serving.files
    for path, text in {**FILES, f"{YAML}.plain": PLAIN}.items():
        files.put(path, text, mode=0o600)
    unit = SERVICES[stage.scene.engine].text(stage.scene.port)
    unit = unit.replace(" --host 127.0.0.1", f" --host 127.0.0.1 {flags}")
    files.put(stage.scene.unit_file, unit.replace("[Service]", f"[Service]\nEnvironmentFile=-{variables or '/none'}"))


def test_the_command_line_wins_over_the_file() -> None:
    machine = PracticeMachine("llm-two")
    machine.files.put(YAML, FILES[YAML])
    words = merged(["--tp", "4", "--config", YAML, "--api-key", "k2"], machine.files)
    assert words == ["--api-key", "k1", "--enable-metrics", "--tp", "4", "--api-key", "k2"]


def test_a_file_that_is_not_there_ends_the_start() -> None:
    with pytest.raises(ParserExit, match=f"Config file not found: {YAML}") as ended:
        merged(["--config", YAML], PracticeMachine("llm-two").files)
    assert ended.value.status == 1
