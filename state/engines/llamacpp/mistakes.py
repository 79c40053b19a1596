"""What llama-server is known to refuse or to overrule among its arguments (builds 5000 to 11000), as sentences."""

import difflib
from collections.abc import Iterator, Mapping

from state.engines.llamacpp import flags
from state.engines.rendering import ArgumentMistake

SPEC_TYPES = frozenset(
    {"none", "draft", "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark"}
    | {"ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"}
)
INTEGERS = frozenset(
    {"ctx_size", "port", "parallel", "batch_size", "ubatch_size", "threads", "threads_batch", "main_gpu", "predict"}
    | {"draft_max", "draft_min", "spec_draft_n_max", "spec_draft_n_min", "log_verbosity", "ctx_size_draft"}
)
FULL_PRECISION = ("f32", "f16", "bf16")
_SYNTHETIC = ("spec_synth_len", "spec_synth_rates")

Found = Iterator[tuple[str, str]]


def mistakes(arguments: Mapping[str, object]) -> list[ArgumentMistake]:
    named = {flags.canonical(name): (name, value) for name, value in arguments.items()}
    asked = {name: value for name, (_, value) in named.items() if value is not None and value is not False}
    given = {name: written for name, (written, _) in named.items()}
    found = [*_twice(arguments), *_secrets(asked), *_kinds(asked), *_speculation(asked), *_caches(asked, named)]
    return [ArgumentMistake(given.get(name, name), sentence) for name, sentence in found]


def _twice(arguments: Mapping[str, object]) -> Found:
    meant: dict[str, str] = {}
    for name in sorted(arguments):
        canonical = flags.canonical(name)
        if canonical in meant:
            yield canonical, f"is the same argument as `{meant[canonical]}`; expected one of both"
        meant.setdefault(canonical, name)
    for old, new in (("draft_max", "spec_draft_n_max"), ("draft_min", "spec_draft_n_min")):
        if old in meant and new in meant:
            yield old, f"is the older builds' name of `{new}`; expected one of both"


def _secrets(asked: Mapping[str, object]) -> Found:
    for name in sorted(flags.SECRETS & asked.keys()):
        variable = "LLAMA_API_KEY" if name == "api_key" else "HF_TOKEN"
        yield (
            name,
            f"is a secret, and every user of the host can read an argv; expected it as {variable} in a root-only"
            " file that is named under `unit.secrets`",
        )


def _kinds(asked: Mapping[str, object]) -> Found:
    for name, value in asked.items():
        if name in INTEGERS and not (type(value) is int or (isinstance(value, str) and value.lstrip("-").isdigit())):
            yield name, f"`{value}` is no whole number; expected one"
        if name in flags.NEGATABLE | flags.BARE and value is not True:
            yield name, f"`{value}` is given to a switch; expected true or false"
        if name in flags.ON_OFF and value not in (True, "on", "off", "auto", "0", "1", 1, "enabled", "disabled"):
            yield name, f"`{value}` is none of its values; expected on, off or auto"
        if name in flags.OBJECTS and not (isinstance(value, Mapping) or str(value).lstrip().startswith("{")):
            yield name, "is no JSON object; expected a mapping, or the JSON as text in single quotes"


def _speculation(asked: Mapping[str, object]) -> Found:
    given = asked.get("spec_type")
    for kind in str(given).split(",") if given is not None else ():
        if kind.strip() not in SPEC_TYPES and (meant := _meant(kind.strip())):
            yield "spec_type", f"`{kind.strip()}` is no type of speculation; expected `{meant}`"
    for most, least in (("draft_max", "draft_min"), ("spec_draft_n_max", "spec_draft_n_min")):
        high, low = asked.get(most), asked.get(least)
        if type(high) is int and type(low) is int and low > high:
            yield least, f"is {low}, above `{most}` {high}: every draft is too short and none is made; expected less"
    for name in _SYNTHETIC:
        if name in asked:
            yield name, "accepts drafts by made-up rates, which no service should; expected it left out"


def _meant(kind: str) -> str:
    """The type that was probably meant; empty for a name like none, which a later build may know."""
    if kind.lower() in ("mtp", "nextn", "eagle3", "dflash", "dspark"):
        return f"draft-{'mtp' if kind.lower() == 'nextn' else kind.lower()}"
    return next(iter(difflib.get_close_matches(kind.lower(), sorted(SPEC_TYPES), n=1, cutoff=0.7)), "")


def _caches(asked: Mapping[str, object], named: Mapping[str, tuple[str, object]]) -> Found:
    """`V cache quantization requires flash_attn` ends a start; `auto` turns it on by itself."""
    kind, attention = asked.get("cache_type_v"), named.get("flash_attn", ("", None))[1]
    if kind is not None and kind not in FULL_PRECISION and attention in (False, "off", "disabled", "0"):
        yield "cache_type_v", f"`{kind}` needs flash attention; expected `flash_attn: on` or auto"
