"""The command line, read as llama-server's own parser reads it: next word, no `=`, no abbreviations, exit status 1."""

from __future__ import annotations

from collections.abc import Sequence

from .arguments import ParserExit
from .flags import Flag
from .versions import Version

RENAMED = (0, 0, 9200)
"""About the build of spring 2026 that took `--spec-draft-n-max` for `--draft-max`, which it still lists as removed."""

FLAGS: tuple[Flag, ...] = (
    Flag("model", str, aliases=("-m",)),
    Flag("alias", str, aliases=("-a",)),
    Flag("ctx_size", int, 0, aliases=("-c",)),
    Flag("predict", int, -1, aliases=("-n", "--n-predict")),
    Flag("batch_size", int, 2048, aliases=("-b",)),
    Flag("ubatch_size", int, 512, aliases=("-ub",)),
    Flag("threads", int, -1, aliases=("-t",)),
    Flag("seed", int, -1, aliases=("-s",)),
    Flag("flash_attn", str, "auto", aliases=("-fa",), choices=("on", "off", "auto")),
    Flag("cache_type_k", str, "f16", aliases=("-ctk",), choices=("f32", "f16", "bf16", "q8_0", "q4_0")),
    Flag("cache_type_v", str, "f16", aliases=("-ctv",), choices=("f32", "f16", "bf16", "q8_0", "q4_0")),
    Flag("n_gpu_layers", str, "auto", aliases=("-ngl", "--gpu-layers")),
    Flag("split_mode", str, "layer", aliases=("-sm",), choices=("none", "layer", "row")),
    Flag("tensor_split", str, aliases=("-ts",)),
    Flag("device", str, aliases=("-dev",)),
    Flag("parallel", int, -1, aliases=("-np",)),
    Flag("host", str, "127.0.0.1"),
    Flag("port", int, 8080),
    Flag("api_key", str),
    Flag("api_key_file", str),
    Flag("metrics", bool, False),
    Flag("props", bool, False),
    Flag("swa_full", bool, False),
    Flag("log_disable", bool, False),
    Flag("log_verbosity", int, 3, aliases=("-lv", "--verbosity")),
    Flag("chat_template", str),
    Flag("chat_template_file", str),
    Flag("chat_template_kwargs", str),
    Flag("reasoning_format", str, "auto"),
    Flag("spec_type", str, "none", since=RENAMED),
    Flag("spec_draft_n_max", int, 3, since=RENAMED),
    Flag("spec_draft_n_min", int, 0, since=RENAMED),
    Flag("draft_p_min", float, 0.0, aliases=("--spec-draft-p-min",)),
    Flag("model_draft", str, aliases=("-md", "--spec-draft-model")),
    Flag("n_gpu_layers_draft", str, "auto", aliases=("-ngld", "--gpu-layers-draft", "--spec-draft-ngl")),
    Flag("draft_max", int, 16, aliases=("--draft", "--draft-n"), until=RENAMED),
    Flag("draft_min", int, 0, aliases=("--draft-n-min",), until=RENAMED),
)
"""A part of the engine's two hundred, with the defaults of recent builds."""

SWITCHES = ("jinja", "mmap", "kv_offload", "warmup", "cont_batching", "context_shift", "kv_unified", "slots")
"""With a `--no-` form; what is not said is None."""

DEFAULTS: dict[str, object] = {**{flag.dest: flag.default for flag in FLAGS}, **dict.fromkeys(SWITCHES)}
_INSTEAD = {"draft_max": "--spec-draft-n-max or --spec-ngram-mod-n-max"}


def parse_arguments(argv: Sequence[str], version: Version) -> dict[str, object]:
    """The arguments as asked for, defaults filled in; `argv` is without the program.

    Raises ParserExit for help and for every mistake that the engine's parser finds.
    """
    asked, words = dict(DEFAULTS), list(argv)
    known = {option: flag for flag in FLAGS for option in flag.options if flag.known_to(version) or version >= RENAMED}
    while words:
        word = words.pop(0)
        option = word.replace("_", "-") if word.startswith("--") else word
        if option in ("-h", "--help", "--usage"):
            raise ParserExit(0, help_text(version))
        if (name := _switch(option)) is not None:
            asked[name] = not option.startswith("--no-")
        elif option in known:
            asked[known[option].dest] = _value(known[option], word, words, version)
        else:
            raise ParserExit(1, f"error: invalid argument: {word}\n")
    return asked


def _switch(option: str) -> str | None:
    name = option[5:] if option.startswith("--no-") else option[2:] if option.startswith("--") else ""
    return name.replace("-", "_") if name.replace("-", "_") in SWITCHES else None


def _value(flag: Flag, word: str, words: list[str], version: Version) -> object:
    if not flag.known_to(version):
        instead = _INSTEAD.get(flag.dest, f"--spec-{flag.dest.replace('_', '-')}")
        _fail(word, f"the argument has been removed. use {instead}")
    if flag.kind is bool:
        return True
    if not words:
        _fail(word, "expected value for argument")
    given = words.pop(0)
    try:
        value = flag.kind(given)
    except ValueError:
        _fail(word, "stoi" if flag.kind is int else "stof")
    if flag.choices and value not in flag.choices:
        _fail(word, f"unknown value: {given}")
    return value


def _fail(word: str, why: str) -> None:
    raise ParserExit(1, f'error while handling argument "{word}": {why}\n\n\nto show complete usage, run with -h\n')


def help_text(version: Version) -> str:
    """In the engine's layout: spellings from the first column, short ones first, descriptions from the 41st."""
    lines = ["----- common params -----\n", _entry("-h,    --help, --usage", "print usage and exit")]
    lines.append(_entry("--version", "show version and build info"))
    for flag in FLAGS:
        gone = version >= RENAMED and not flag.known_to(version)
        if not gone and not flag.known_to(version):
            continue
        says = f"the argument has been removed. use --spec-{flag.dest.replace('_', '-')}" if gone else "as it says"
        lines.append(_entry(_spellings(flag), f"{says} (default: {flag.default})"))
    lines += [_entry(f"--{_dashed(name)}, --no-{_dashed(name)}", "whether it is enabled") for name in SWITCHES]
    return "".join(lines)


def _spellings(flag: Flag) -> str:
    short = [option for option in flag.aliases if not option.startswith("--")]
    front = "".join(f"{option},".ljust(7) for option in short)
    long = ", ".join([*(option for option in flag.aliases if option.startswith("--")), flag.options[0]])
    return front + long + ("" if flag.kind is bool else " N" if flag.kind is int else " VALUE")


def _entry(spellings: str, says: str) -> str:
    return f"{spellings:<40}{says}\n" if len(spellings) < 40 else f"{spellings}\n{' ' * 40}{says}\n"


def _dashed(name: str) -> str:
    return name.replace("_", "-")
