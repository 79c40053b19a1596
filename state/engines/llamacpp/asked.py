"""What a target asks of llama-server beyond single arguments: speculation, and a log that tells enough."""

from dataclasses import dataclass

from state.target import Target

TOLD, DETAILED = 3, 4
"""Levels of `--verbosity` in builds with elapsed time stamps: 3, the default, tells of drafts and requests; layers,
caches and each speculative implementation take 4. Older builds print all of it unless the log is disabled."""


@dataclass(frozen=True, slots=True)
class Speculating:
    """`types` of `--spec-type`, the `draft` model that is named, and the most tokens to draft at once."""

    types: tuple[str, ...]
    draft: str
    depth: int | None

    @property
    def drafts(self) -> bool:
        """By a model or a head of its own, not by what the text repeats."""
        return bool(self.draft) or any(one.startswith("draft") for one in self.types)

    @property
    def head(self) -> bool:
        """By the target's own MTP layers."""
        return "draft-mtp" in self.types and not self.draft


def speculating(target: Target) -> Speculating | None:
    """None where no speculation is asked for."""
    asked = target.arguments
    given = [one.strip() for one in str(asked.get("spec_type") or "").split(",")]
    types = tuple(one for one in given if one and one != "none")
    if asked.get("spec_default") is True:
        types = (*types, "default")
    draft = str(asked.get("model_draft") or asked.get("hf_repo_draft") or "")
    depth = asked.get("spec_draft_n_max", asked.get("draft_max"))
    return Speculating(types, draft, depth if type(depth) is int else None) if types or draft else None


def level(target: Target) -> int:
    """The verbosity that is asked for, by argument or by variable; -1 where the log is off, or of JSON."""
    if target.arguments.get("log_disable") is True or target.arguments.get("log_jsonl") is True:
        return -1
    if target.arguments.get("verbose") is True:
        return 5
    asked = target.arguments.get("log_verbosity", target.environment.get("LLAMA_ARG_LOG_VERBOSITY", TOLD))
    return int(asked) if str(asked).lstrip("-").isdigit() else TOLD


def silent(target: Target) -> bool:
    """Whether the log leaves out even what a claim about speculation must read."""
    return level(target) < TOLD


def unified(target: Target) -> bool:
    """Whether all slots share one context, as is asked for or the default when the number of slots is left open."""
    asked = target.arguments.get("kv_unified")
    slots = target.arguments.get("parallel", -1)
    return asked is True or (asked is None and type(slots) is int and slots < 0)
