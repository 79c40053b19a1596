"""The command line, read as vLLM's parser reads it: underscores, short forms, keys of objects, `--help=all`."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence

from .arguments import ParserExit
from .flags import Flag
from .versions import Version

_DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")

FLAGS: tuple[Flag, ...] = (
    Flag("model", str, "Qwen/Qwen3-0.6B"),
    Flag("host", str),
    Flag("port", int, 8000),
    Flag("api_key", str),
    Flag("uvicorn_log_level", str, "info"),
    Flag("chat_template", str),
    Flag("enable_auto_tool_choice", bool, False),
    Flag("tool_call_parser", str),
    Flag("reasoning_parser", str, ""),
    Flag("tokenizer", str),
    Flag("trust_remote_code", bool, False),
    Flag("dtype", str, "auto", choices=_DTYPES),
    Flag("seed", int, 0),
    Flag("max_model_len", int),
    Flag("quantization", str, aliases=("-q",)),
    Flag("enforce_eager", bool, False),
    Flag("served_model_name", list),
    Flag("load_format", str, "auto"),
    Flag("download_dir", str),
    Flag("attention_backend", str, since=(0, 14, 0)),
    Flag("tensor_parallel_size", int, 1, aliases=("-tp",)),
    Flag("pipeline_parallel_size", int, 1, aliases=("-pp",)),
    Flag("data_parallel_size", int, 1, aliases=("-dp",)),
    Flag("enable_expert_parallel", bool, False, aliases=("-ep",)),
    Flag("disable_custom_all_reduce", bool, False),
    Flag("gpu_memory_utilization", float, 0.9),
    Flag("kv_cache_dtype", str, "auto", choices=("auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2")),
    Flag("block_size", int),
    Flag("swap_space", float, 4, until=(0, 20, 0)),
    Flag("enable_prefix_caching", bool),
    Flag("max_num_batched_tokens", int),
    Flag("max_num_seqs", int),
    Flag("enable_chunked_prefill", bool),
    Flag("async_scheduling", bool, since=(0, 11, 0)),
    Flag("compilation_config", dict, aliases=("-cc",)),
    Flag("speculative_config", dict, aliases=("-sc",)),
    Flag("disable_log_stats", bool, False),
    Flag("enable_log_requests", bool, False),
    Flag("per_request_spec_decode_metrics", str, "none", choices=("none", "summary", "detailed"), since=(0, 28, 0)),
)
"""A part of the engine's several hundred, with the defaults of recent releases."""

DEFAULTS = {flag.dest: flag.default for flag in FLAGS}

_GROUPS = """usage: vllm serve [model_tag] [options]

Config Groups:
  Frontend                Arguments for the OpenAI-compatible frontend server.
  ModelConfig             Configuration for the model.
  ParallelConfig          Configuration for the distributed execution.

For full list:            vllm serve --help=all
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # raises, as the base class exits
        raise ParserExit(2, f"{self.format_usage()}{self.prog}: error: {message}\n")

    def print_help(self, file: object = None) -> None:
        raise ParserExit(0, self.format_help())


def _object(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to <function loads>.") from error
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"Value {text} is no JSON object.")
    return found


def build_parser(version: Version, *, serves: bool) -> argparse.ArgumentParser:
    prog = "vllm serve" if serves else "api_server.py"
    parser = _Parser(prog=prog, usage=f"{prog} [model_tag] [options]" if serves else None, allow_abbrev=True)
    if serves:
        parser.add_argument("model_tag", nargs="?", help="The model tag to serve.")
    parser.add_argument("--config", help="a file of arguments, merged before they are parsed")
    for flag in FLAGS:
        if not flag.known_to(version):
            continue
        options = (f"--{flag.dest.replace('_', '-')}", *flag.aliases)
        if flag.kind is bool:
            parser.add_argument(*options, dest=flag.dest, default=flag.default, action=argparse.BooleanOptionalAction)
        elif flag.kind is list:
            parser.add_argument(*options, dest=flag.dest, nargs="+", default=flag.default)
        else:
            kind = _object if flag.kind is dict else flag.kind
            parser.add_argument(*options, dest=flag.dest, type=kind, default=flag.default, choices=flag.choices or None)
    return parser


def parse_arguments(argv: Sequence[str], version: Version, *, serves: bool) -> dict[str, object]:
    """The arguments as asked for, defaults filled in; `argv` is without program, `serve` and `--config`.

    Raises ParserExit for help and for every mistake that the engine's parser finds.
    """
    words = list(argv)
    parser = build_parser(version, serves=serves)
    if "--help=all" in words:
        if version < (0, 9, 1):
            parser.error("argument -h/--help: ignored explicit argument 'all'")
        words[words.index("--help=all")] = "--help"
    elif "--help" in words and version >= (0, 11, 0):
        raise ParserExit(0, _GROUPS)
    asked = dict(vars(parser.parse_args(_gathered([_dashed(word) for word in words]))))
    del asked["config"]
    model = asked.pop("model_tag", None)
    return {**asked, "model": model} if model else asked


def _dashed(word: str) -> str:
    flag, equals, value = word.partition("=")
    if not word.startswith("--"):
        return word
    name, dot, path = flag.partition(".")
    return f"{name.replace('_', '-')}{dot}{path}{equals}{value}"


def _gathered(words: Sequence[str]) -> list[str]:
    """`--speculative-config.method mtp` and the like as one object."""
    kept: list[str] = []
    objects: dict[str, dict[str, object]] = {}
    for word in words:
        found = re.fullmatch(r"(--[a-z-]+)\.(\w+)(?:=(.*))?", word)
        if found and found[3] is not None:
            objects.setdefault(found[1], {})[found[2]] = _value(found[3])
        elif found:
            objects.setdefault(found[1], {})[found[2]] = None
        elif objects and any(None in given.values() for given in objects.values()):
            given = next(given for given in objects.values() if None in given.values())
            given[next(key for key, value in given.items() if value is None)] = _value(word)
        else:
            kept.append(word)
    return kept + [part for flag, given in objects.items() for part in (flag, json.dumps(given))]


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
