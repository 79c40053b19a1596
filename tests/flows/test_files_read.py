"""Files that the engine reads itself at its start: one that is missing is refused, wherever only root looks."""

from typing import Any

import pytest

from state.engines.registry import NAMES
from state.engines.rendering import files_read, rendering_for
from tests.flows.engine_rollouts import differences
from tests.flows.rehearsal import rehearsal
from tests.practice.virtual_time import in_virtual_time

NONE, SOME = "/etc/interlock/private/nope", "/etc/interlock/private/some"

MISSING = [
    pytest.param("sglang", {"config": NONE}, ["config"], id="sglang-config"),
    pytest.param("sglang", {"ssl_keyfile": NONE, "ssl_certfile": SOME}, ["ssl_keyfile"], id="sglang-tls"),
    pytest.param("sglang", {"chat_template": NONE}, ["chat_template"], id="sglang-template"),
    pytest.param("vllm", {"config": NONE}, ["config"], id="vllm-config"),
    pytest.param("vllm", {"ssl_keyfile": NONE, "ssl_certfile": NONE}, ["ssl_certfile", "ssl_keyfile"], id="vllm-tls"),
    pytest.param("vllm", {"chat_template": NONE}, ["chat_template"], id="vllm-template"),
    pytest.param("llamacpp", {"api_key_file": NONE}, ["api_key_file"], id="llamacpp-keys"),
    pytest.param(
        "llamacpp", {"ssl_key_file": NONE, "ssl_cert_file": NONE}, ["ssl_cert_file", "ssl_key_file"], id="llamacpp-tls"
    ),
    pytest.param("llamacpp", {"chat_template_file": NONE}, ["chat_template_file"], id="llamacpp-template"),
    pytest.param("llamacpp", {"lora": [SOME, NONE]}, ["lora"], id="llamacpp-one-of-two-adapters"),
    pytest.param("sglang", {"config": "/etc/interlock"}, ["config"], id="a-folder-is-no-file"),
]


@pytest.mark.parametrize(("engine", "arguments", "named"), MISSING)
def test_a_file_that_is_not_there_is_refused_before_anything_stops(
    engine: Any, arguments: dict[str, Any], named: list[str]
) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(engine=engine) as stage:
            stage.scene.serving.files.put(SOME, "", mode=0o600)
            before = await stage.state()
            ended = await stage.roll_out(engine={"arguments": arguments})
            assert ended.concluded is not None
            assert (ended.concluded.outcome, ended.concluded.exit_code) == ("refused", 3), ended.concluded.summary
            for name in named:
                path = arguments[name] if isinstance(arguments[name], str) else NONE
                said = f"engine.arguments.{name}: {path} does not exist on serving, or is no file"
                assert said in ended.concluded.summary
            assert ended.concluded.summary.count("does not exist") == len(named)
            assert await stage.state() == before

    run()


def test_a_file_that_only_root_sees_is_there() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            stage.scene.serving.files.put(SOME, "tp-size: 4\n", mode=0o600)
            ended = await stage.roll_out(engine={"arguments": {"config": SOME}})
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted", ended.concluded.summary
            assert await differences(stage) == []

    run()


ELSEWHERE = [
    pytest.param("sglang", {"chat_template": "chatml"}, id="a-template-by-name"),
    pytest.param("sglang", {"config": "sglang.yaml"}, id="a-path-from-the-working-directory"),
    pytest.param("vllm", {"chat_template": "/{{ messages }}"}, id="a-template-itself"),
    pytest.param("vllm", {"tool_parser_plugin": NONE}, id="a-plugin-that-is-passed-over"),
    pytest.param("llamacpp", {"slot_save_path": NONE, "log_file": NONE}, id="what-is-written"),
    pytest.param("llamacpp", {"lora": "/a.gguf,/b.gguf"}, id="a-list-in-one-word"),
    pytest.param("none", {"config": NONE}, id="an-engine-that-is-not-known"),
]


@pytest.mark.parametrize(("engine", "arguments"), ELSEWHERE)
def test_what_is_no_path_of_a_file_is_not_looked_for(engine: str, arguments: dict[str, Any]) -> None:
    assert files_read(engine, arguments) == ()


@pytest.mark.parametrize("engine", NAMES)
def test_names_are_the_engine_s_own(engine: str) -> None:
    """Under another name they would be looked for by nobody."""
    rendering = rendering_for(engine)
    assert rendering is not None
    given = dict.fromkeys(rendering.file_arguments, SOME)
    assert rendering.canonical_arguments(given) == given
    assert not rendering.file_arguments & rendering.secret_arguments
