"""What vLLM is known to refuse or to overrule among its arguments (0.9 to 0.30), as sentences."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from state.engines.command_line import object_of
from state.engines.rendering import ArgumentMistake
from state.engines.versions import release
from state.engines.vllm.flag_names import NEGATABLE, OBJECTS
from state.engines.vllm.flags import (
    INTEGERS,
    METHODS,
    NEEDS_MODEL,
    PARALLEL,
    RENAMES,
    SECRETS,
    SPECULATIVE_SHORTHAND,
    TABLES,
    method_of,
)

Found = Iterator[tuple[str, str]]


def mistakes(arguments: Mapping[str, object], version: str | None) -> list[ArgumentMistake]:
    named = {TABLES.canonical(name): (name, value) for name, value in arguments.items()}
    asked = {
        name: _plain(name, value) for name, (_, value) in named.items() if value is not None and value is not False
    }
    found = [
        *_twice(arguments, named),
        *_secrets(asked),
        *_kinds(asked),
        *(_of_other_releases(asked, version) if version else ()),
        *_speculation(asked),
    ]
    return [ArgumentMistake(named[name][0] if name in named else "", sentence) for name, sentence in found]


def _plain(name: str, value: Any) -> Any:
    return object_of(value) if name in OBJECTS else value


def _twice(arguments: Mapping[str, object], named: Mapping[str, tuple[str, object]]) -> Found:
    for name in arguments:
        canonical = TABLES.canonical(name)
        if (kept := named[canonical][0]) != name:
            yield canonical, f"`{kept}` and `{name}` are the same argument; expected it once, as `{canonical}`"
    for short in sorted(SPECULATIVE_SHORTHAND.keys() & named.keys()):
        if "speculative_config" in named:
            key = SPECULATIVE_SHORTHAND[short]
            yield short, f"says what `speculative_config` has as `{key}`; expected one of both"


def _secrets(asked: Mapping[str, object]) -> Found:
    for name in sorted(SECRETS & asked.keys()):
        variable = "VLLM_API_KEY" if name == "api_key" else "HF_TOKEN"
        yield (
            name,
            (
                f"is a secret, and every user of the host can read an argv; expected it as {variable} in a root-only"
                " file that is named under `unit.secrets`"
            ),
        )


def _kinds(asked: Mapping[str, object]) -> Found:
    for name, value in asked.items():
        if name in INTEGERS and not (type(value) is int or (isinstance(value, str) and value.lstrip("-").isdigit())):
            yield name, f"`{value}` is no whole number; expected one"
        if name in PARALLEL and isinstance(value, int) and value < 1:
            yield name, f"`{value}` is no number of processes; expected 1 or more"
        if name == "gpu_memory_utilization" and isinstance(value, (int, float)) and not 0 < value <= 1:
            yield name, f"`{value}` is no share of a GPU's memory; expected a number up to 1, such as 0.85"
        if name in NEGATABLE and value is not True:
            yield name, f"`{value}` is given to a switch; expected true or false"
        if name in OBJECTS and not isinstance(value, Mapping):
            yield name, "is no JSON object; expected a mapping, or the JSON as text in single quotes"


def _of_other_releases(asked: Mapping[str, object], version: str) -> Found:
    for name, rename in RENAMES.items():
        if name in asked and rename.missing_in(release(version)):
            yield name, f"is no argument of vLLM {version}: {rename.story}; expected {rename.instead}"


def _speculation(asked: Mapping[str, object]) -> Found:
    config = asked.get("speculative_config")
    if not isinstance(config, Mapping):
        if asked.get("per_request_spec_decode_metrics") not in (None, "none"):
            yield "per_request_spec_decode_metrics", "has no effect without `speculative_config`; expected both"
        return
    name, method, tokens = "speculative_config", method_of(config), config.get("num_speculative_tokens")
    if method is None and not config.get("model"):
        yield name, "names neither `method` nor `model`; expected a method such as mtp"
    if method is not None and method not in METHODS and (meant := _meant(method)):
        yield name, f"`{method}` is no method of vLLM; expected `{meant}`"
    if method in NEEDS_MODEL and not config.get("model"):
        yield name, f"method `{method}` needs a draft model; expected `model`"
    yield from _draft(name, config, tokens, asked)


def _meant(method: str) -> str:
    """The method that was probably meant; empty for a name like none, which a later release may know."""
    if method.upper() == "NEXTN":
        return "mtp"
    return next(iter(difflib.get_close_matches(method.lower(), sorted(METHODS), n=1, cutoff=0.7)), "")


def _draft(name: str, config: Mapping[str, Any], tokens: object, asked: Mapping[str, object]) -> Found:
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        yield name, f"`{tokens}` is no number of drafts; expected `num_speculative_tokens` of 1 or more"
    ranks, draft_ranks = asked.get("tensor_parallel_size", 1), config.get("draft_tensor_parallel_size")
    if draft_ranks is not None and draft_ranks not in (1, ranks):
        yield name, f"`draft_tensor_parallel_size` is {draft_ranks}; expected 1 or the model's own, {ranks}"
    if "tensor_parallel_size" in config:
        yield name, "has `tensor_parallel_size`; expected `draft_tensor_parallel_size`"
    if config.get("rejection_sample_method") == "synthetic":
        yield name, "accepts drafts by a made-up rate (`synthetic`), which no service should; expected it left out"
