"""vLLM's arguments become the words of its command line, and come back from any way of writing them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.engines.vllm.rendering import RENDERING

SERVE = ("/opt/vllm/bin/vllm", "serve")
PYTHON = ("/opt/vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server")
MTP = {"method": "mtp", "num_speculative_tokens": 3}

HELP = """\
usage: vllm serve [model_tag] [options]

positional arguments:
  model_tag             The model tag to serve (optional if specified in config)

options:
  -h, --help            show this help message and exit

ModelConfig:
  --model MODEL         Name or path of the Hugging Face model to use.
                        Not to be confused with --tokenizer.
  --max-model-len MAX_MODEL_LEN
                        Model context length.
  --enforce-eager, --no-enforce-eager
                        Whether to always use eager-mode PyTorch.
  --tensor-parallel-size TENSOR_PARALLEL_SIZE, -tp TENSOR_PARALLEL_SIZE
                        Number of tensor parallel groups. (default: 1)
  --speculative-config SPECULATIVE_CONFIG, -sc SPECULATIVE_CONFIG
                        Speculative decoding configuration. (default: None)
"""


@pytest.mark.parametrize(
    ("arguments", "command", "words"),
    [
        pytest.param({"model": "/m", "port": 8001}, SERVE, ("/m", "--port", "8001"), id="serve-takes-the-model-first"),
        pytest.param({"model": "/m"}, PYTHON, ("--model", "/m"), id="the-module-takes-it-as-a-flag"),
        pytest.param({"model": "/m"}, (), ("--model", "/m"), id="a-wrapper-takes-it-as-a-flag"),
        pytest.param(
            {"speculative_config": MTP},
            SERVE,
            ("--speculative-config", '{"method":"mtp","num_speculative_tokens":3}'),
            id="a-mapping-is-one-word-of-json",
        ),
        pytest.param(
            {"speculative_config": ' {"num_speculative_tokens": 3,  "method": "mtp"} '},
            SERVE,
            ("--speculative-config", '{"method":"mtp","num_speculative_tokens":3}'),
            id="the-json-as-text-makes-the-same-revision",
        ),
        pytest.param({"enable_prefix_caching": False}, SERVE, ("--no-enable-prefix-caching",), id="false-negates"),
        pytest.param({"enforce_eager": True}, SERVE, ("--enforce-eager",), id="true-is-the-bare-flag"),
        pytest.param({"served_model_name": ["a", "b"]}, SERVE, ("--served-model-name", "a", "b"), id="several-names"),
        pytest.param(
            {"spec_method": "mtp", "spec_tokens": 3},
            SERVE,
            ("--speculative-config", '{"method":"mtp","num_speculative_tokens":3}'),
            id="the-shorthand-becomes-the-object",
        ),
    ],
)
def test_arguments_are_rendered(arguments: dict[str, Any], command: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert RENDERING.render_arguments(arguments, command) == words


@pytest.mark.parametrize(
    ("argv", "arguments"),
    [
        pytest.param((*SERVE, "/m", "--port", "8001"), {"model": "/m", "port": 8001}, id="serve"),
        pytest.param((*SERVE, "--model", "/m"), {"model": "/m"}, id="serve-with-the-deprecated-flag"),
        pytest.param((*PYTHON, "--model=/m"), {"model": "/m"}, id="module"),
        pytest.param((*SERVE, "/m", "-tp", "4"), {"model": "/m", "tensor_parallel_size": 4}, id="short-form"),
        pytest.param((*SERVE, "/m", "-tp=4"), {"model": "/m", "tensor_parallel_size": 4}, id="short-form-equals"),
        pytest.param((*SERVE, "/m", "-O3"), {"model": "/m", "optimization_level": 3}, id="optimization-level"),
        pytest.param((*PYTHON, "--max_model_len", "4096"), {"max_model_len": 4096}, id="underscores"),
        pytest.param(
            (*PYTHON, "--speculative_config", '{"method": "mtp"}'), {"speculative_config": {"method": "mtp"}}, id="json"
        ),
        pytest.param(
            (*PYTHON, "--speculative-config.method", "mtp", "--speculative-config.num_speculative_tokens=3"),
            {"speculative_config": MTP},
            id="keys-of-an-object-one-by-one",
        ),
        pytest.param(
            (*PYTHON, "-sc", '{"method": "ngram"}', "--speculative-config.num_speculative_tokens", "3"),
            {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}},
            id="a-key-beside-the-object",
        ),
        pytest.param(
            (*PYTHON, "--spec-method", "mtp", "--spec-tokens", "3"), {"speculative_config": MTP}, id="shorthand"
        ),
        pytest.param((*PYTHON, "--no-enable-prefix-caching"), {"enable_prefix_caching": False}, id="negated"),
        pytest.param((*PYTHON, "--served-model-name", "8"), {"served_model_name": ["8"]}, id="names-stay-text"),
        pytest.param(("/usr/bin/numactl", *SERVE, "/m"), {"model": "/m"}, id="behind-a-wrapper"),
        pytest.param(("/usr/bin/python3", *SERVE, "/m"), {"model": "/m"}, id="behind-the-interpreter-of-the-script"),
    ],
)
def test_any_way_of_writing_is_read(argv: tuple[str, ...], arguments: dict[str, Any]) -> None:
    assert RENDERING.parse_arguments(argv) == arguments


SCALARS = st.one_of(st.integers(-9, 10**6), st.booleans(), st.text(st.characters(codec="ascii", categories=["L"])))


@given(
    st.dictionaries(st.sampled_from(["method", "model", "num_speculative_tokens", "prompt_lookup_max"]), SCALARS),
    st.integers(1, 16),
    st.sampled_from([SERVE, PYTHON]),
)
def test_what_is_rendered_is_read_back(config: dict[str, Any], ranks: int, command: tuple[str, ...]) -> None:
    arguments: dict[str, Any] = {
        "model": "/m",
        "tensor_parallel_size": ranks,
        "speculative_config": config,
        "enforce_eager": True,
    }
    argv = (*command, *RENDERING.render_arguments(arguments, command))
    assert RENDERING.parse_arguments(argv) == RENDERING.canonical_arguments(arguments)


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        pytest.param(("/m", "-tp", "4", "--enforce-eager"), [], id="short-and-long-forms-of-the-help"),
        pytest.param(("/m", "--max_model_len", "1"), [], id="underscores-are-taken"),
        pytest.param(("/m", "--speculative-config.method", "mtp"), [], id="a-key-counts-as-its-object"),
        pytest.param(("/m", "--tokenizer", "/t"), ["--tokenizer"], id="only-mentioned-in-a-description"),
        pytest.param(("/m", "--speculative-model", "/d"), ["--speculative-model"], id="gone-with-v0"),
    ],
)
def test_flags_are_held_against_the_engines_own_help(words: tuple[str, ...], unknown: list[str]) -> None:
    assert [found.flag for found in RENDERING.unknown_flags((*SERVE, *words), HELP)] == unknown


@pytest.mark.parametrize(
    ("arguments", "version", "sentence"),
    [
        pytest.param({"api_key": "k"}, None, "is a secret", id="secret"),
        pytest.param({"tensor_parallel_size": 0}, None, "no number of processes", id="no-processes"),
        pytest.param({"gpu_memory_utilization": 85}, None, "no share of a GPU's memory", id="share-in-per-cent"),
        pytest.param({"speculative_config": "mtp"}, None, "no JSON object", id="method-without-an-object"),
        pytest.param({"speculative_config": {"num_speculative_tokens": 3}}, None, "neither `method`", id="no-method"),
        pytest.param({"speculative_config": {"method": "NEXTN"}}, None, "expected `mtp`", id="sglangs-word"),
        pytest.param({"speculative_config": {"method": "eagel3"}}, None, "expected `eagle3`", id="misspelt-method"),
        pytest.param({"speculative_config": {"method": "eagle3"}}, None, "needs a draft model", id="eagle-alone"),
        pytest.param(
            {"speculative_config": {"method": "mtp", "num_speculative_tokens": 0}}, None, "no number of drafts", id="0"
        ),
        pytest.param(
            {"tensor_parallel_size": 4, "speculative_config": {"method": "mtp", "draft_tensor_parallel_size": 2}},
            None,
            "expected 1 or the model's own, 4",
            id="draft-on-half-the-ranks",
        ),
        pytest.param(
            {"speculative_config": {"method": "mtp", "rejection_sample_method": "synthetic"}},
            None,
            "made-up rate",
            id="simulated-acceptance",
        ),
        pytest.param({"speculative_model": "/d"}, "0.11.0", "one JSON object", id="v0-speculation"),
        pytest.param(
            {"per_request_spec_decode_metrics": "summary", "speculative_config": MTP},
            "0.20.2",
            "came with 0.28",
            id="figures-of-requests-before-they-were",
        ),
        pytest.param({"spec_method": "mtp", "speculative_config": MTP}, None, "expected one of both", id="twice"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(arguments: dict[str, Any], version: str | None, sentence: str) -> None:
    (mistake,) = RENDERING.argument_mistakes(arguments, version)
    assert sentence in mistake.sentence


@pytest.mark.parametrize(
    ("arguments", "version"),
    [
        pytest.param({"speculative_config": MTP}, None, id="mtp"),
        pytest.param({"speculative_config": {"method": "qwen3_next_mtp"}}, "0.11.0", id="mtp-by-its-family"),
        pytest.param({"speculative_config": {"method": "brand_new"}}, None, id="a-method-that-is-not-known-yet"),
        pytest.param({"speculative_config": '{"method": "ngram"}'}, None, id="json-as-text"),
        pytest.param({"speculative_config": {"model": "/eagle"}}, None, id="method-told-by-the-draft-model"),
        pytest.param({"enable_prefix_caching": False, "port": 8001}, "0.29.0", id="plain"),
    ],
)
def test_what_is_sound_is_no_mistake(arguments: dict[str, Any], version: str | None) -> None:
    assert RENDERING.argument_mistakes(arguments, version) == []


def test_the_models_that_must_exist_are_named() -> None:
    paths = RENDERING.model_paths({"model": "/m", "speculative_config": {"method": "eagle3", "model": "/d"}})
    assert paths == {"model": "/m", "speculative_config.model": "/d"}
