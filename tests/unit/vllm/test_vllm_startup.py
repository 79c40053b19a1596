"""What is read of a start's log: arguments by source, whatever stands in front of the words (shapes of 0.9 to 0.29)."""

import pytest

from state.engines.vllm.startup import read_startup

ARGUMENTS = "non-default args: {'model': '/m', 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 3}}"
CONFIG = (
    "with config: model='/m', speculative_config=SpeculativeConfig(method='mtp', model='/m', num_spec_tokens=3), "
    "max_seq_len=4096, structured_outputs_config=StructuredOutputsConfig(backend='auto', reasoning_parser=''), "
    "enable_prefix_caching=True, compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, 'sizes': [1, 2]}"
)


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param("(APIServer pid=1) INFO 05-21 21:02:50 [utils.py:233] ", id="process-level-and-source"),
        pytest.param("INFO 03-20 10:00:00 [api_server.py:1] ", id="without-the-process"),
        pytest.param("INFO 03-20 10:00:00 api_server.py:123] ", id="with-half-a-bracket"),
        pytest.param("(EngineCore_DP0 pid=9) (Worker_TP0 pid=12) INFO 10-03 11:20:41 [x.py:7] ", id="nested-processes"),
        pytest.param("", id="bare"),
    ],
)
def test_the_prefix_does_not_matter(prefix: str) -> None:
    lines = [f"{prefix}{ARGUMENTS}", f"{prefix}Initializing a V1 LLM engine (v0.20.2) {CONFIG}"]
    found = read_startup([*lines, f"{prefix}Loading drafter model..."])
    assert found.asked is not None
    assert found.asked["speculative_config"] == {"method": "mtp", "num_speculative_tokens": 3}
    assert found.config is not None
    assert found.config["speculative_config"] == {"method": "mtp", "model": "/m", "num_spec_tokens": 3}
    assert found.config["max_seq_len"] == 4096
    assert (found.v1, found.drafter) == (True, True)


@pytest.mark.parametrize(
    ("line", "v1"),
    [
        pytest.param("Initializing a V1 LLM engine (v0.11.0) with config: model='/m'", True, id="v1"),
        pytest.param("Initializing an LLM engine (v0.8.4) with config: model='/m'", False, id="v0"),
        pytest.param("Initializing a V0 LLM engine (v0.9.1) with config: model='/m'", False, id="v0-by-name"),
        pytest.param("Received request: Initializing a V1 LLM engine (v1) with config: model='x'", None, id="a-prompt"),
    ],
)
def test_the_engines_generation_is_told_by_its_configuration_line(line: str, v1: bool | None) -> None:
    assert read_startup([f"INFO 03-20 10:00:00 [core.py:58] {line}"]).v1 is v1


def test_arguments_that_were_cut_prove_nothing() -> None:
    assert read_startup([ARGUMENTS[:-20]]).asked is None


def test_v0s_totals_are_no_windows() -> None:
    total = (
        "Speculative metrics: Draft acceptance rate: 0.512, System efficiency: 0.518, Number of speculative tokens: 2"
    )
    assert read_startup([f"INFO 03-20 10:00:00 metrics.py:4] {total}"]).windows == ()
