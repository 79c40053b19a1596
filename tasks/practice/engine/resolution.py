"""From the arguments asked for to those in effect: the engine's own changes, notes and refusals, by version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .models import Model
from .versions import Version

ALGORITHMS = ("EAGLE", "EAGLE3", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO")

_RESET_48 = (
    "Max running requests is reset to 48 for speculative decoding."
    " You can override this by explicitly setting --max-running-requests."
)
_DRAFT_TOKENS = "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1"
_V1 = (
    "Overlap scheduler is disabled when spec v2 is off or using unsupported speculative algorithm."
    " You can set env SGLANG_ENABLE_SPEC_V2=True to enable the experimental overlap scheduler."
)
_V2 = "Spec v2 is enabled for eagle/eagle3 speculative decoding and overlap schedule is turned on."
_V2_DEFAULT = "Spec v2 is enabled by default for eagle/eagle3/standalone speculative decoding."
_V2_GONE = "SGLANG_ENABLE_SPEC_V2 has been removed: speculative decoding always runs the V2 worker."
_SYNCHRONOUS = "Non-overlap (synchronous) spec v2 is used for eagle/eagle3/standalone speculative decoding."


class ResolutionFailed(Exception):
    """The engine's own check raised `kind` with `text`: a traceback and exit status 1."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text


@dataclass
class Resolved:
    """`arguments` in effect, in the engine's order, and the `notes` that it logs on the way."""

    arguments: dict[str, object]
    notes: list[str] = field(default_factory=list)

    def integer(self, name: str) -> int:
        """The argument as a number; 0 where it is unset."""
        value = self.arguments.get(name)
        return int(value) if isinstance(value, (int, float)) else 0

    def fraction(self, name: str) -> float:
        value = self.arguments.get(name)
        return float(value) if isinstance(value, (int, float)) else 0.0

    def text(self, name: str) -> str:
        return str(self.arguments.get(name) or "")

    @property
    def speculation(self) -> str:
        """The algorithm in effect, "" where speculation is off."""
        return self.text("speculative_algorithm")

    @property
    def drafts_per_step(self) -> int:
        if not self.speculation:
            return 0
        return self.integer("speculative_num_steps") or self.integer("speculative_num_draft_tokens") - 1


def resolve(asked: Mapping[str, object], model: Model, version: Version, environment: Mapping[str, str]) -> Resolved:
    """What the engine makes of `asked`. Raises ResolutionFailed where it refuses.

    Speculation with --speculative-num-steps alone fails from 0.5.12 on (measured with 0.5.23). Before, the stand-in
    completes it to top-k 1 and steps + 1 draft tokens, as a deployment of that age was seen to run.
    """
    resolved = Resolved(dict(asked))
    _defaults(resolved, model)
    if asked.get("speculative_algorithm"):
        _algorithm(resolved, version)
        _triple(resolved, version)
        _running_requests(resolved)
        _overlap(resolved, version, environment)
    if model.hybrid:
        _mamba(resolved, model, version)
    return resolved


def _defaults(resolved: Resolved, model: Model) -> None:
    arguments = resolved.arguments
    speculating = bool(arguments.get("speculative_algorithm"))
    for name, value in (
        ("tokenizer_path", arguments["model_path"]),
        ("served_model_name", arguments["model_path"]),
        ("mem_fraction_static", 0.829 if speculating else 0.849),
        ("chunked_prefill_size", 8192),
        ("page_size", 1),
        ("random_seed", 847173378),
        ("attention_backend", "triton" if model.hybrid else "fa3"),
        ("sampling_backend", "flashinfer"),
        ("grammar_backend", "xgrammar"),
        ("cuda_graph_max_bs", 32 if speculating else 160),
    ):
        if arguments.get(name) is None:
            arguments[name] = value
    context = resolved.integer("context_length")
    if context > model.context_length:
        raise ResolutionFailed(
            "ValueError",
            f"User-specified context_length ({context}) is greater than the derived context_length"
            f" ({model.context_length}). This may lead to incorrect model outputs or CUDA errors.",
        )


def _algorithm(resolved: Resolved, version: Version) -> None:
    asked = resolved.speculation
    name = "EAGLE" if asked.upper() == "NEXTN" else asked.upper()
    if name not in ALGORITHMS:
        raise ResolutionFailed("ValueError", f"Unknown speculative algorithm name: {asked}")
    resolved.arguments["speculative_algorithm"] = name
    if resolved.arguments.get("speculative_draft_model_path") and not resolved.arguments.get(
        "speculative_draft_model_revision"
    ):
        resolved.arguments["speculative_draft_model_revision"] = "main"


def _triple(resolved: Resolved, version: Version) -> None:
    arguments = resolved.arguments
    if resolved.speculation == "NGRAM":
        if arguments.get("speculative_num_draft_tokens") is None:
            arguments["speculative_num_draft_tokens"] = 12
            resolved.notes.append(
                "speculative_num_draft_tokens is set to 12 by default for ngram speculative decoding."
            )
        return
    steps, topk, drafts = (
        arguments.get(f"speculative_{name}") for name in ("num_steps", "eagle_topk", "num_draft_tokens")
    )
    if steps is None:
        if topk is not None or drafts is not None:
            raise ResolutionFailed("AssertionError", "")
        steps, topk, drafts = 3, 1, 4
    elif topk is None and version < (0, 5, 12):
        topk = 1
    if topk is None:
        raise ResolutionFailed("TypeError", "'>' not supported between instances of 'NoneType' and 'int'")
    if topk == 1 and drafts != int(str(steps)) + 1:
        drafts = int(str(steps)) + 1
        resolved.notes.append(_DRAFT_TOKENS)
    arguments.update(speculative_num_steps=steps, speculative_eagle_topk=topk, speculative_num_draft_tokens=drafts)


def _running_requests(resolved: Resolved) -> None:
    if resolved.arguments.get("max_running_requests") is None:
        resolved.arguments["max_running_requests"] = 48
        resolved.notes.append(_RESET_48)
    if resolved.arguments.get("enable_mixed_chunk"):
        resolved.arguments["enable_mixed_chunk"] = False
        resolved.notes.append("Mixed chunked prefill is disabled because of using speculative decoding.")


def _overlap(resolved: Resolved, version: Version, environment: Mapping[str, str]) -> None:
    """Whether speculation runs with the overlap schedule: a switch in the environment until 0.5.13."""
    asked = environment.get("SGLANG_ENABLE_SPEC_V2")
    disabled = bool(resolved.arguments["disable_overlap_schedule"])
    if not version.has_speculation_v2_switch:
        if asked is not None and version < (0, 5, 22):
            resolved.notes.append(_V2_GONE)
        if disabled and version >= (0, 5, 22):
            resolved.notes.append(_SYNCHRONOUS)
        return
    wanted = version.speculation_v2_by_default if asked is None else asked.lower() in ("1", "true", "yes", "on")
    on = wanted and not disabled
    if version.speculation_v2_by_default:
        reason = "overlap schedule is disabled" if disabled else "SGLANG_ENABLE_SPEC_V2 is off"
        off_note = f"Spec v1 is used for eagle/eagle3/standalone speculative decoding because {reason}."
        resolved.notes.append(_V2_DEFAULT if on else off_note)
    else:
        resolved.notes.append(_V2 if on else _V1)
    resolved.arguments["disable_overlap_schedule"] = not on


def _mamba(resolved: Resolved, model: Model, version: Version) -> None:
    """How the Mamba state of a hybrid model is kept beside the radix cache and the overlap schedule."""
    arguments, name = resolved.arguments, version.strategy_field
    speculating, asked = bool(resolved.speculation), str(arguments[name])
    radix, overlap = not arguments["disable_radix_cache"], not arguments["disable_overlap_schedule"]
    if asked == "extra_buffer" and not radix:
        raise ResolutionFailed("ValueError", "mamba extra_buffer is not compatible with --disable-radix-cache.")
    strategy = (
        ("extra_buffer" if overlap and radix and (speculating or version >= (0, 5, 14)) else "no_buffer")
        if asked == "auto"
        else asked
    )
    arguments[name] = strategy
    if strategy == "extra_buffer":
        return
    if resolved.integer("page_size") > 1:
        raise ResolutionFailed("AssertionError", "no_buffer only supports page_size=1.")
    if speculating and radix:
        _no_buffer_speculation(resolved, model, version)
    if radix and overlap and speculating and asked == "no_buffer" and version >= (0, 5, 14):
        raise ResolutionFailed(
            "AssertionError", "no_buffer do not support overlap schedule. Try to set disable_overlap_schedule=True."
        )
    if overlap and not arguments["disable_radix_cache"]:
        arguments["disable_overlap_schedule"] = True
        resolved.notes.append(
            "Disabling overlap schedule since mamba no_buffer is not compatible with overlap schedule."
        )


def _no_buffer_speculation(resolved: Resolved, model: Model, version: Version) -> None:
    """0.5.9 and before give up the radix cache; 0.5.10 to 0.5.13 refuse to start."""
    if version < (0, 5, 10):
        resolved.arguments["disable_radix_cache"] = True
        resolved.notes.append(
            f"Disabling radix cache since speculative decoding for {model.architecture}"
            " is not supported with radix cache yet."
        )
    elif version < (0, 5, 14):
        raise ResolutionFailed(
            "ValueError",
            f"Speculative decoding for {model.architecture} is not compatible with radix cache when using"
            " --mamba-scheduler-strategy no_buffer.To use radix cache with speculative decoding, please use"
            " --mamba-scheduler-strategy extra_buffer and set SGLANG_ENABLE_SPEC_V2=1.",
        )
