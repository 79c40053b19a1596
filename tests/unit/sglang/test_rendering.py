"""SGLang's arguments become the words of its command line, and come back from any way of writing them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.engines.sglang.rendering import RENDERING

USAGE = """\
usage: sglang serve [-h] --model-path MODEL_PATH [--skip-tokenizer-init]
                    [--tp-size TP_SIZE] [--pp-size PP_SIZE]
                    [--pp-max-micro-batch-size PP_MAX_MICRO_BATCH_SIZE]
                    [--lora-strict-loading | --no-lora-strict-loading]
                    [--speculative-algorithm SPECULATIVE_ALGORITHM]
                    [--speculative-num-steps SPECULATIVE_NUM_STEPS]
                    [--mamba-radix-cache-strategy {auto,no_buffer,extra_buffer}]

options:
  -h, --help            show this help message and exit
  --model-path MODEL_PATH, --model MODEL_PATH
                        The path of the weights. Stands in for --weights-path.
  --tp-size TP_SIZE, --tensor-parallel-size TP_SIZE
                        The tensor parallelism size.
"""
PYTHON = ("/opt/sglang/bin/python", "-m", "sglang.launch_server")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"tp_size": 4}, ("--tp-size", "4"), id="a-number-is-a-word-of-its-own"),
        pytest.param({"tp": 4}, ("--tp-size", "4"), id="an-alias-gets-its-canonical-flag"),
        pytest.param({"mem_fraction_static": 0.75}, ("--mem-fraction-static", "0.75"), id="a-fraction-keeps-its-text"),
        pytest.param({"enable_metrics": True}, ("--enable-metrics",), id="true-is-the-bare-flag"),
        pytest.param({"enable_metrics": False, "tp_size": None}, (), id="false-and-null-are-left-out"),
        pytest.param({"lora_strict_loading": False}, ("--no-lora-strict-loading",), id="false-negates-where-it-can"),
        pytest.param({"cuda_graph_bs": [1, 2]}, ("--cuda-graph-bs", "1", "2"), id="a-list-is-several-words"),
        pytest.param({"chunked_prefill_size": -1}, ("--chunked-prefill-size=-1",), id="a-leading-dash-stays-a-value"),
        pytest.param({"b": 1, "a": 2}, ("--a", "2", "--b", "1"), id="the-order-of-asking-does-not-matter"),
        pytest.param(
            {"json_model_override_args": '{"a": 1}'}, ("--json-model-override-args", '{"a": 1}'), id="json-is-one-word"
        ),
    ],
)
def test_arguments_are_rendered(arguments: dict[str, object], words: tuple[str, ...]) -> None:
    assert RENDERING.render_arguments(arguments) == words  # type: ignore[arg-type]  # tables hold plain objects


@pytest.mark.parametrize(
    ("argv", "arguments"),
    [
        pytest.param((*PYTHON, "--tp", "4"), {"tp_size": 4}, id="module-entry-point"),
        pytest.param(("/opt/sglang/bin/sglang", "serve", "--tp-size=4"), {"tp_size": 4}, id="serve-and-equals-sign"),
        pytest.param(
            ("/usr/bin/numactl", "--cpunodebind=0", *PYTHON, "--tp", "4"), {"tp_size": 4}, id="wrapper-ignored"
        ),
        pytest.param(("--speculative-algo", "NEXTN"), {"speculative_algorithm": "NEXTN"}, id="abbreviation"),
        pytest.param(("--model", "/m"), {"model_path": "/m"}, id="alias"),
        pytest.param(("--tensor-parallel-size", "2"), {"tp_size": 2}, id="long-alias"),
        pytest.param(("--tp", "2", "--tp", "4"), {"tp_size": 4}, id="the-last-one-counts"),
        pytest.param(
            ("--enable-metrics", "--port", "1"), {"enable_metrics": True, "port": 1}, id="switch-before-a-flag"
        ),
        pytest.param(("--served-model-name", "8"), {"served_model_name": "8"}, id="names-stay-text"),
        pytest.param(("--chunked-prefill-size", "-1"), {"chunked_prefill_size": -1}, id="a-negative-number-is-a-value"),
        pytest.param(("--cuda-graph-bs", "8"), {"cuda_graph_bs": [8]}, id="a-list-of-one-stays-a-list"),
        pytest.param(("--no-lora-strict-loading",), {"lora_strict_loading": False}, id="negated"),
        pytest.param(("--mem-fraction-static", "0.75"), {"mem_fraction_static": 0.75}, id="fraction"),
        pytest.param(("--pp", "2"), {"pp_size": 2}, id="short-alias-though-ambiguous"),
        pytest.param(("--speculative-num", "2"), {"speculative_num": 2}, id="an-ambiguous-abbreviation-stays"),
        pytest.param(("/bin/bash", "-lc", "run.sh"), {}, id="hidden-in-a-shell"),
    ],
)
def test_any_way_of_writing_is_read(argv: tuple[str, ...], arguments: dict[str, object]) -> None:
    assert RENDERING.parse_arguments(argv) == arguments


WORDS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]))
SCALARS = st.one_of(st.booleans(), st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), WORDS)
LISTED = st.one_of(st.integers(min_value=0), WORDS.filter(lambda word: not word.startswith("-")))
NAMES = st.one_of(
    st.sampled_from(["tp_size", "model_path", "cuda_graph_bs", "lora_strict_loading", "host", "mem_fraction_static"]),
    st.from_regex(r"[a-z][a-z0-9]{1,8}_x", fullmatch=True),
)


@given(st.dictionaries(NAMES, st.one_of(SCALARS, st.lists(LISTED, min_size=1, max_size=4)), max_size=6))
def test_rendered_arguments_come_back(arguments: dict[str, object]) -> None:
    words = RENDERING.render_arguments(arguments)  # type: ignore[arg-type]  # drawn from the same types
    assert RENDERING.parse_arguments((*PYTHON, *words)) == RENDERING.canonical_arguments(arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        pytest.param(("--tp-size", "4", "--model", "/m"), [], id="declared-flags-and-aliases-pass"),
        pytest.param(("--no-lora-strict-loading",), [], id="negated-flags-pass"),
        pytest.param(("--speculative-algo", "NEXTN"), [], id="an-unambiguous-abbreviation-passes"),
        pytest.param(
            ("--speculative-num-step-s", "3"),
            [("--speculative-num-step-s", "did you mean --speculative-num-steps?")],
            id="a-misspelt-flag-gets-its-neighbour",
        ),
        pytest.param(
            ("--pp=2",),
            [("--pp", "it could be short for --pp-max-micro-batch-size or --pp-size")],
            id="an-ambiguous-abbreviation-is-refused-as-argparse-does",
        ),
        pytest.param(
            ("--mamba-scheduler-strategy", "auto"),
            [
                (
                    "--mamba-scheduler-strategy",
                    "it is `--mamba-radix-cache-strategy` since 0.5.14, and the old name is gone since 0.5.20",
                )
            ],
            id="a-renamed-flag-gets-its-new-name",
        ),
        pytest.param(("--weights-path", "/m"), [("--weights-path", "")], id="a-flag-in-a-description-is-not-declared"),
        pytest.param(("--zzz", "1"), [("--zzz", "")], id="a-flag-like-no-other-gets-no-suggestion"),
    ],
)
def test_flags_are_checked_against_the_engines_own_help(words: tuple[str, ...], unknown: list[object]) -> None:
    assert RENDERING.unknown_flags((*PYTHON, *words), USAGE) == unknown


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        pytest.param("--tp-size TP_SIZE", ("--tensor-parallel-size", "4"), id="an-alias-of-what-is-shown"),
        pytest.param("--tensor-parallel-size TP_SIZE", ("--tp-size", "4"), id="the-name-whose-alias-is-shown"),
    ],
)
def test_a_usage_block_shows_one_spelling_of_a_flag(usage: str, words: tuple[str, ...]) -> None:
    block = f"usage: sglang serve [-h] [{usage}]\n"
    assert RENDERING.unknown_flags((*PYTHON, *words), block) == []
    assert RENDERING.unknown_flags((*PYTHON, *words), f"{block}\noptions:\n  {usage}\n") != []


def test_a_help_text_without_flags_proves_nothing() -> None:
    (found,) = RENDERING.unknown_flags((*PYTHON, "--tp-size", "4"), "Traceback (most recent call last):\n")
    assert found == ("--tp-size", "the engine's help names no flags, so none can be checked")


TRIPLE = {"speculative_num_steps": 3, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
NEXTN = {"speculative_algorithm": "NEXTN"}


@pytest.mark.parametrize(
    ("arguments", "version", "names", "words"),
    [
        pytest.param({**NEXTN, **TRIPLE, "tp_size": 4}, None, [], "", id="a-sound-set-passes"),
        pytest.param(NEXTN, None, [], "", id="the-algorithm-alone-passes"),
        pytest.param({"api_key": "sk-1"}, None, ["api_key"], "secret", id="a-secret"),
        pytest.param({"tp": 2, "tp_size": 4}, None, ["tp_size"], "same argument", id="two-names-for-one"),
        pytest.param({"tp_size": "four"}, None, ["tp_size"], "whole number", id="a-number-in-words"),
        pytest.param({"tp_size": True}, None, ["tp_size"], "whole number", id="a-number-as-a-switch"),
        pytest.param({"tp_size": -4}, None, ["tp_size"], "1 or more", id="fewer-than-one-process"),
        pytest.param(
            {"mem_fraction_static": 7.5}, None, ["mem_fraction_static"], "between 0 and 1", id="a-share-above-one"
        ),
        pytest.param({"enable_metrics": 1}, None, ["enable_metrics"], "switch", id="a-switch-with-a-value"),
        pytest.param(
            {"speculative_num_steps": 3}, None, ["speculative_num_steps"], "without", id="steps-without-algorithm"
        ),
        pytest.param(
            {**NEXTN, "speculative_num_steps": 3}, "0.5.23", ["speculative_num_steps"], "topk", id="a-partial-triple"
        ),
        pytest.param(
            {**NEXTN, "speculative_num_steps": 3},
            None,
            [],
            "",
            id="a-partial-triple-is-left-to-the-preflight-of-an-unknown-version",
        ),
        pytest.param(
            {**NEXTN, **TRIPLE, "speculative_num_draft_tokens": 6},
            None,
            ["speculative_num_draft_tokens"],
            "steps [+] 1 = 4",
            id="draft-tokens-that-would-be-overruled",
        ),
        pytest.param(
            {"speculative_algorithm": "MTP"}, None, ["speculative_algorithm"], "NEXTN", id="mtp-is-no-algorithm"
        ),
        pytest.param(
            {"speculative_algorithm": "eagle3"}, None, ["speculative_algorithm"], "draft", id="eagle3-needs-a-draft"
        ),
        pytest.param({"mamba_scheduler_strategy": "auto"}, "0.5.19", [], "", id="an-old-name-while-it-is-an-alias"),
        pytest.param(
            {"mamba_scheduler_strategy": "auto"},
            "0.5.23",
            ["mamba_scheduler_strategy"],
            "mamba_radix_cache_strategy",
            id="an-old-name-after-its-removal",
        ),
        pytest.param(
            {"mamba_radix_cache_strategy": "auto"},
            "0.5.10.post1",
            ["mamba_radix_cache_strategy"],
            "mamba_scheduler_strategy",
            id="a-new-name-before-its-time",
        ),
        pytest.param({"enable_beta_spec": True}, "0.5.6", ["enable_beta_spec"], "left out", id="a-removed-flag"),
    ],
)
def test_known_mistakes_are_told(
    arguments: dict[str, object], version: str | None, names: list[str], words: str
) -> None:
    found = RENDERING.argument_mistakes(arguments, version)
    assert [mistake.name for mistake in found] == names
    assert all(re.search(words, mistake.sentence) for mistake in found)
