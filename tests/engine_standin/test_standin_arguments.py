"""The stand-in's command line and its resolution, against the tables of SGLang's versions."""

import pytest

from tasks.practice.engine.arguments import ParserExit, parse_arguments
from tasks.practice.engine.flags import FLAGS
from tasks.practice.engine.models import Model
from tasks.practice.engine.resolution import ResolutionFailed, Resolved, resolve
from tasks.practice.engine.versions import parse_version

HYBRID = Model("/m", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", 262_144, 244 * 10**9, 8 * 10**9, 24_576)
PLAIN = Model("/m", "LlamaForCausalLM", "llama", 131_072, 16 * 10**9, 0, 131_072)
NEXTN = "--speculative-algorithm NEXTN"
TRIPLE = f"{NEXTN} --speculative-num-steps 5 --speculative-eagle-topk 1 --speculative-num-draft-tokens 6"


def resolved(words: str, version: str = "0.5.20", model: Model = HYBRID, **environment: str) -> Resolved:
    number = parse_version(version)
    return resolve(parse_arguments(["--model-path", "/m", *words.split()], number), model, number, environment)


@pytest.mark.parametrize(
    ("words", "version", "end"),
    [
        pytest.param(
            "--speculative-bogus 3",
            "0.5.20",
            "sglang serve: error: unrecognized arguments: --speculative-bogus 3",
            id="unknown flag",
        ),
        pytest.param(
            "--speculative-num-steps three",
            "0.5.20",
            "error: argument --speculative-num-steps: invalid int value: 'three'",
            id="no number",
        ),
        pytest.param(
            "--mamba-scheduler-strategy extra_buffer",
            "0.5.20",
            "unrecognized arguments: --mamba-scheduler-strategy extra_buffer",
            id="old strategy flag is gone in 0.5.20",
        ),
        pytest.param(
            "--mamba-radix-cache-strategy extra_buffer",
            "0.5.13",
            "unrecognized arguments: --mamba-radix-cache-strategy extra_buffer",
            id="new strategy flag is unknown to 0.5.13",
        ),
        pytest.param(
            "--speculative-algorithm MTP",
            "0.5.11",
            "error: argument --speculative-algorithm: invalid choice: 'MTP'",
            id="argparse judged algorithms to 0.5.11",
        ),
        pytest.param("--tp", "0.5.20", "error: argument --tp-size/", id="value missing"),
        pytest.param("--bogus", "0.5.9", "launch_server.py: error: unrecognized", id="program's name before 0.5.10"),
    ],
)
def test_argparse_refuses(words: str, version: str, end: str) -> None:
    with pytest.raises(ParserExit) as refusal:
        parse_arguments(["--model-path", "/m", *words.split()], parse_version(version))
    assert refusal.value.status == 2
    assert refusal.value.text.startswith("usage: ")
    assert end in refusal.value.text.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        pytest.param("--speculative-algo EAGLE", "speculative_algorithm", "EAGLE", id="unambiguous prefix"),
        pytest.param("--speculative-num-s 4", "speculative_num_steps", 4, id="prefix of several words"),
        pytest.param("--tp 4", "tp_size", 4, id="alias"),
        pytest.param("--tensor-parallel-size=2", "tp_size", 2, id="alias with equals sign"),
        pytest.param("--speculative-draft-model /d", "speculative_draft_model_path", "/d", id="alias of the draft"),
    ],
)
def test_argparse_accepts(words: str, name: str, value: object) -> None:
    assert parse_arguments(["--model-path", "/m", *words.split()], parse_version("0.5.20"))[name] == value


def test_old_strategy_flag_is_an_alias_up_to_0_5_19() -> None:
    asked = parse_arguments(["--model-path", "/m", "--mamba-scheduler-strategy", "no_buffer"], parse_version("0.5.19"))
    assert asked["mamba_radix_cache_strategy"] == "no_buffer"


def test_help_names_every_flag_and_ends_well() -> None:
    with pytest.raises(ParserExit) as help_:
        parse_arguments(["--help"], parse_version("0.5.20"))
    assert help_.value.status == 0
    known = [flag for flag in FLAGS if flag.known_to(parse_version("0.5.20"))]
    assert len(known) >= 80
    assert all(flag.options[0] in help_.value.text for flag in known)


@pytest.mark.parametrize(
    ("words", "version", "expected"),
    [
        pytest.param(
            NEXTN,
            "0.5.23",
            {
                "speculative_algorithm": "EAGLE",
                "speculative_num_steps": 3,
                "speculative_eagle_topk": 1,
                "speculative_num_draft_tokens": 4,
                "max_running_requests": 48,
                "mamba_radix_cache_strategy": "extra_buffer",
                "disable_overlap_schedule": False,
            },
            id="defaults for Qwen3.5 with NEXTN alone, as measured with 0.5.23",
        ),
        pytest.param(
            "--speculative-algorithm nextn --speculative-num-steps 3 --speculative-eagle-topk 1"
            " --speculative-num-draft-tokens 6",
            "0.5.23",
            {"speculative_algorithm": "EAGLE", "speculative_num_draft_tokens": 4},
            id="draft tokens are forced to steps + 1",
        ),
        pytest.param(
            f"{NEXTN} --speculative-num-steps 5",
            "0.5.9",
            {
                "speculative_num_draft_tokens": 6,
                "disable_radix_cache": True,
                "disable_overlap_schedule": True,
                "mamba_scheduler_strategy": "no_buffer",
            },
            id="0.5.9 without the switch: no radix cache, no overlap",
        ),
        pytest.param("", "0.5.20", {"speculative_algorithm": None, "mem_fraction_static": 0.849}, id="no speculation"),
        pytest.param(
            f"{TRIPLE} --max-running-requests 12",
            "0.5.20",
            {"max_running_requests": 12},
            id="own limit is kept",
        ),
        pytest.param(
            f"{TRIPLE} --disable-overlap-schedule",
            "0.5.20",
            {"mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True},
            id="no overlap, no extra buffer",
        ),
    ],
)
def test_resolution(words: str, version: str, expected: dict[str, object]) -> None:
    arguments = resolved(words, version).arguments
    assert {name: arguments[name] for name in expected} == expected


def test_the_switch_of_0_5_9_turns_the_overlap_on() -> None:
    found = resolved(f"{NEXTN} --speculative-num-steps 5", "0.5.9", SGLANG_ENABLE_SPEC_V2="1")
    assert found.arguments["mamba_scheduler_strategy"] == "extra_buffer"
    assert found.arguments["disable_overlap_schedule"] is False
    assert found.notes[-1].startswith("Spec v2 is enabled for eagle/eagle3 speculative decoding")


@pytest.mark.parametrize(
    ("words", "version", "model", "kind", "text"),
    [
        pytest.param(
            "--speculative-algorithm MTP",
            "0.5.23",
            HYBRID,
            "ValueError",
            "Unknown speculative algorithm name: MTP",
            id="MTP is no algorithm",
        ),
        pytest.param(
            f"{NEXTN} --speculative-num-steps 5",
            "0.5.20",
            HYBRID,
            "TypeError",
            "'>' not supported between instances of 'NoneType' and 'int'",
            id="steps alone",
        ),
        pytest.param(
            f"{NEXTN} --speculative-num-draft-tokens 5", "0.5.20", HYBRID, "AssertionError", "", id="draft tokens alone"
        ),
        pytest.param(
            TRIPLE,
            "0.5.10",
            HYBRID,
            "ValueError",
            "please use --mamba-scheduler-strategy extra_buffer and set SGLANG_ENABLE_SPEC_V2=1.",
            id="hybrid on 0.5.10 without extra_buffer",
        ),
        pytest.param(
            "--mamba-radix-cache-strategy extra_buffer --disable-radix-cache",
            "0.5.20",
            HYBRID,
            "ValueError",
            "mamba extra_buffer is not compatible with --disable-radix-cache",
            id="contradictory flags",
        ),
        pytest.param(
            "--context-length 999999",
            "0.5.20",
            PLAIN,
            "ValueError",
            "is greater than the derived context_length (131072)",
            id="context longer than the model's",
        ),
    ],
)
def test_resolution_refuses(words: str, version: str, model: Model, kind: str, text: str) -> None:
    with pytest.raises(ResolutionFailed) as refusal:
        resolved(words, version, model)
    assert refusal.value.kind == kind
    assert text in refusal.value.text


def test_a_plain_model_takes_speculation_on_every_version() -> None:
    for version in ("0.5.9", "0.5.10", "0.5.13", "0.5.14", "0.5.20", "0.5.23"):
        assert resolved(TRIPLE, version, PLAIN).drafts_per_step == 5
