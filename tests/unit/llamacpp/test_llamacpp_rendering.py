"""llama-server's arguments become the words of its command line, and come back from any way of writing them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.engines.llamacpp import flags
from state.engines.llamacpp.rendering import RENDERING

SERVER = ("/opt/llamacpp/bin/llama-server",)

HELP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
--version                               show version and build info
-c,    --ctx-size N                     size of the prompt context (default: 0, 0 = loaded from model)
                                        (env: LLAMA_ARG_CTX_SIZE)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to enable KV cache offloading (default: enabled)
--mmap, --no-mmap                       DEPRECATED: use --load-mode
-ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers to store in VRAM, beside --mlock
-m,    --model FNAME                    model path to load


----- example-specific params -----

-np,   --parallel N                     number of server slots (default: -1, -1 = auto)
--host HOST                             ip address to listen (default: 127.0.0.1)
--port PORT                             port to listen (default: 8080)
--jinja, --no-jinja                     whether to use jinja template engine for chat (default: enabled)
--metrics                               enable prometheus compatible metrics endpoint (default: disabled)
--spec-draft-n-max N                    number of tokens to draft for speculative decoding (default: 3)
--spec-draft-model, -md, --model-draft FNAME
                                        draft model for speculative decoding (default: unused)
--spec-type none,draft-simple,draft-mtp comma-separated list of types of speculative decoding to use
--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max or
                                        --spec-ngram-mod-n-max
"""
"""In the layout of build 11000."""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"model": "/m.gguf", "port": 8001}, ("--model", "/m.gguf", "--port", "8001"), id="plain"),
        pytest.param({"n_gpu_layers": "all"}, ("--n-gpu-layers", "all"), id="words-for-numbers"),
        pytest.param({"flash_attn": True}, ("--flash-attn", "on"), id="yaml-reads-on-as-true"),
        pytest.param({"jinja": True, "metrics": True}, ("--jinja", "--metrics"), id="true-is-the-bare-flag"),
        pytest.param({"mmap": False}, ("--no-mmap",), id="false-negates"),
        pytest.param({"mmproj_auto": False}, ("--no-mmproj",), id="a-negation-of-its-own-kind"),
        pytest.param({"metrics": False, "seed": None}, (), id="nothing-is-left-out"),
        pytest.param({"tensor_split": [3, 1]}, ("--tensor-split", "3,1"), id="a-list-is-one-word"),
        pytest.param({"lora": ["/a", "/b"]}, ("--lora", "/a", "--lora", "/b"), id="what-adds-up-is-repeated"),
        pytest.param({"predict": -1}, ("--predict", "-1"), id="a-number-below-zero"),
        pytest.param(
            {"chat_template_kwargs": {"enable_thinking": False}},
            ("--chat-template-kwargs", '{"enable_thinking":false}'),
            id="a-mapping-is-one-word-of-json",
        ),
        pytest.param(
            {"spec_draft_model": "/d.gguf", "gpu_layers": 99},
            ("--model-draft", "/d.gguf", "--n-gpu-layers", "99"),
            id="other-names-make-the-same-revision",
        ),
        pytest.param(
            {"control_vector_layer_range": [3, 9]}, ("--control-vector-layer-range", "3", "9"), id="two-words"
        ),
    ],
)
def test_arguments_are_rendered(arguments: dict[str, Any], words: tuple[str, ...]) -> None:
    assert RENDERING.render_arguments(arguments, SERVER) == words


@pytest.mark.parametrize(
    ("argv", "arguments"),
    [
        pytest.param((*SERVER, "-m", "/m.gguf", "-c", "8192"), {"model": "/m.gguf", "ctx_size": 8192}, id="short"),
        pytest.param((*SERVER, "-ngl", "99", "-np", "2"), {"n_gpu_layers": 99, "parallel": 2}, id="two-letters"),
        pytest.param((*SERVER, "--ctx_size", "8192"), {"ctx_size": 8192}, id="underscores"),
        pytest.param((*SERVER, "-n", "-1", "--jinja"), {"predict": -1, "jinja": True}, id="a-number-is-no-flag"),
        pytest.param((*SERVER, "--alias", "-x"), {"alias": "-x"}, id="a-value-may-begin-with-a-dash"),
        pytest.param((*SERVER, "-fa", "-ngl", "9"), {"flash_attn": "on", "n_gpu_layers": 9}, id="old-flash-attention"),
        pytest.param((*SERVER, "-fa", "off"), {"flash_attn": "off"}, id="new-flash-attention"),
        pytest.param((*SERVER, "-nkvo", "--no-mmap"), {"kv_offload": False, "mmap": False}, id="negated"),
        pytest.param((*SERVER, "--no-mmproj"), {"mmproj_auto": False}, id="negated-projector"),
        pytest.param(
            (*SERVER, "-md", "/d.gguf", "--draft-max", "8", "-ngld", "99"),
            {"model_draft": "/d.gguf", "draft_max": 8, "n_gpu_layers_draft": 99},
            id="draft-of-older-builds",
        ),
        pytest.param(
            (*SERVER, "--spec-draft-model", "/d.gguf", "--spec-draft-n-max", "8", "--spec-type", "draft-simple"),
            {"model_draft": "/d.gguf", "spec_draft_n_max": 8, "spec_type": "draft-simple"},
            id="draft-of-newer-builds",
        ),
        pytest.param((*SERVER, "--lora", "/a", "--lora", "/b"), {"lora": ["/a", "/b"]}, id="repeated-adds-up"),
        pytest.param((*SERVER, "-c", "1", "-c", "2"), {"ctx_size": 2}, id="the-last-counts"),
        pytest.param((*SERVER, "--alias", "8"), {"alias": "8"}, id="names-stay-text"),
        pytest.param(("/usr/bin/numactl", *SERVER, "-m", "/m"), {"model": "/m"}, id="behind-a-wrapper"),
        pytest.param((*SERVER, "--brand-new", "7", "-m", "/m"), {"brand_new": 7, "model": "/m"}, id="not-known-yet"),
        pytest.param((*SERVER, "--brand-new", "-m", "/m"), {"brand_new": True, "model": "/m"}, id="a-switch-not-known"),
    ],
)
def test_any_way_of_writing_is_read(argv: tuple[str, ...], arguments: dict[str, Any]) -> None:
    assert RENDERING.parse_arguments(argv) == arguments


TEXT = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)
VALUES = st.one_of(st.integers(-9, 10**6), st.floats(0, 9, width=16), TEXT, st.lists(TEXT, min_size=1, max_size=3))


@given(
    st.dictionaries(st.sampled_from(sorted(flags.VALUED - flags.PAIRS - flags.OBJECTS)), VALUES, max_size=6),
    st.dictionaries(st.sampled_from(sorted(flags.NEGATABLE | flags.BARE)), st.booleans(), max_size=6),
)
def test_what_is_rendered_is_read_back(valued: dict[str, Any], switches: dict[str, bool]) -> None:
    arguments = {**valued, **switches}
    argv = (*SERVER, *RENDERING.render_arguments(arguments, SERVER))
    assert RENDERING.parse_arguments(argv) == RENDERING.canonical_arguments(arguments)


@given(st.lists(st.sampled_from([*sorted(flags.SHORT), "--model", "-1", "8", "/m", "--", "-", "--x y", "", "--no-a"])))
def test_no_argv_breaks_the_reader(words: list[str]) -> None:
    arguments = RENDERING.parse_arguments((*SERVER, *words))
    assert RENDERING.canonical_arguments(arguments) == arguments


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        pytest.param(("-m", "/m", "-c", "1", "-nkvo", "--model-draft", "/d"), [], id="short-and-long-forms"),
        pytest.param(("--ctx_size", "1", "-np", "4", "--no-jinja"), [], id="underscores-are-taken"),
        pytest.param(("--mlock",), [("--mlock", "")], id="only-mentioned-in-a-description"),
        pytest.param(
            ("--draft-max", "8"),
            [("--draft-max", "it was removed; use --spec-draft-n-max")],
            id="listed-as-removed",
        ),
        pytest.param(("--port=8080",), [("--port=8080", "the value as the next word")], id="no-equals-sign"),
        pytest.param(("--ngl", "9"), [("--ngl", "")], id="a-short-form-with-two-dashes"),
        pytest.param(("--ctx-sise", "9"), [("--ctx-sise", "did you mean --ctx-size?")], id="misspelt"),
    ],
)
def test_flags_are_held_against_the_engines_own_help(words: tuple[str, ...], unknown: list[tuple[str, str]]) -> None:
    found = RENDERING.unknown_flags((*SERVER, *words), HELP)
    assert [one.flag for one in found] == [flag for flag, _ in unknown]
    assert all(said in one.suggestion for one, (_, said) in zip(found, unknown, strict=True))


def test_a_help_without_flags_proves_none() -> None:
    (found,) = RENDERING.unknown_flags((*SERVER, "-m", "/m"), "usage: llama-server [options]")
    assert "names no flags" in found.suggestion


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param({"api_key": "k"}, "LLAMA_API_KEY", id="secret"),
        pytest.param({"ctx_size": "8k"}, "no whole number", id="context-in-thousands"),
        pytest.param({"metrics": 8081}, "given to a switch", id="a-value-for-a-switch"),
        pytest.param({"flash_attn": "fast"}, "expected on, off or auto", id="flash-attention"),
        pytest.param({"spec_type": "mtp"}, "expected `draft-mtp`", id="vllms-word"),
        pytest.param({"spec_type": "NEXTN"}, "expected `draft-mtp`", id="sglangs-word"),
        pytest.param({"spec_type": "draft-eagel3"}, "expected `draft-eagle3`", id="misspelt-type"),
        pytest.param({"draft_max": 4, "draft_min": 5}, "none is made", id="no-draft-is-long-enough"),
        pytest.param({"draft_max": 4, "spec_draft_n_max": 4}, "expected one of both", id="both-names"),
        pytest.param({"model_draft": "/d", "spec_draft_model": "/d"}, "expected one of both", id="twice"),
        pytest.param({"spec_synth_len": 3.5}, "made-up rates", id="simulated-acceptance"),
        pytest.param({"cache_type_v": "q8_0", "flash_attn": False}, "needs flash attention", id="cache-of-8-bits"),
        pytest.param({"chat_template_kwargs": "thinking"}, "no JSON object", id="no-object"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(arguments: dict[str, Any], sentence: str) -> None:
    (mistake,) = RENDERING.argument_mistakes(arguments, "b9849")
    assert sentence in mistake.sentence


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"model_draft": "/d", "draft_max": 16, "draft_min": 0}, id="a-draft-model"),
        pytest.param({"spec_type": "draft-mtp,ngram-mod"}, id="two-types"),
        pytest.param({"spec_type": "hydra"}, id="a-type-that-is-not-known-yet"),
        pytest.param({"cache_type_v": "q8_0", "flash_attn": True}, id="cache-of-8-bits"),
        pytest.param({"flash_attn": "auto", "n_gpu_layers": "all", "mmap": False, "metrics": True}, id="plain"),
    ],
)
def test_what_is_sound_is_no_mistake(arguments: dict[str, Any]) -> None:
    assert RENDERING.argument_mistakes(arguments, None) == []


def test_the_models_that_must_exist_are_named() -> None:
    paths = RENDERING.model_paths({"spec_draft_model": "/d.gguf", "mmproj": "/p.gguf", "model": "/m.gguf"})
    assert list(paths.items()) == [("model", "/m.gguf"), ("model_draft", "/d.gguf"), ("mmproj", "/p.gguf")]
