"""What the evidence says about llama-server: /props, its log, its command line and variables."""

from collections.abc import Iterator, Mapping
from typing import Any

from state.claims import Fact
from state.engines.effective import effective
from state.engines.llamacpp.asked import speculating, unified
from state.engines.llamacpp.speculation_facts import speculation_facts
from state.engines.llamacpp.startup import Startup, read_startup
from state.evidence import CMDLINE, ENVIRON, JOURNAL, Evidence
from state.request_facts import MODELS, request_facts
from state.target import Target

PROPS = "props"
DEFAULTED = {"ctx_shift": "context_shift", "cache_reuse": "cache_reuse", "swa_full": "swa_full"}
"""By the word that begins an adjustment's line: the argument that it takes back."""
SIMULATING = ("--spec-synth-len", "--spec-synth-rates", "LLAMA_ARG_SPEC_SYNTH_LEN", "LLAMA_ARG_SPEC_SYNTH_RATES")


def read_facts(target: Target, evidence: Evidence) -> tuple[Fact, ...]:
    startup, props = read_startup(evidence.messages), _props(evidence)
    return (
        *_identity(evidence, props),
        *_slots(target, evidence, startup, props),
        *_details(evidence, startup),
        *_speculative(target, evidence, startup),
        *_layers(target, evidence, startup),
        _adjustments(target, evidence, startup),
        *request_facts(evidence, listed_name(target, evidence)),
        *speculation_facts(evidence, startup),
    )


def served_name(target: Target) -> str:
    """The first alias; without one, builds list the model's path or, newer ones, the file's name."""
    alias = str(target.arguments.get("alias") or "").partition(",")[0].strip()
    return alias or str(target.arguments.get("model") or target.arguments.get("hf_repo") or "default")


def listed_name(target: Target, evidence: Evidence) -> str:
    """The name that should be listed, in the form in which this build lists it."""
    name = served_name(target)
    if target.arguments.get("alias"):
        return name
    models = evidence.json(MODELS)
    listed = models.get("data") if isinstance(models, dict) else None
    ids = [str(one.get("id")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    file = name.rpartition("/")[2]
    return next((form for form in (name, file, file.removesuffix(".gguf")) if form in ids), name)


def _props(evidence: Evidence) -> Mapping[str, Any]:
    found = evidence.json(PROPS)
    return found if isinstance(found, dict) else {}


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 1 << 40 else None


def _identity(evidence: Evidence, props: Mapping[str, Any]) -> Iterator[Fact]:
    cite = evidence.cite(PROPS)
    path, build = props.get("model_path"), props.get("build_info")
    if isinstance(path, str) and path:
        yield Fact(metric="model.path", value=path, text=f"{path} ({PROPS})", evidence=cite)
    if isinstance(build, str) and build:
        yield Fact(metric="engine.build", value=build.partition("-")[0], text=build, evidence=cite)


def _slots(target: Target, evidence: Evidence, startup: Startup, props: Mapping[str, Any]) -> Iterator[Fact]:
    cite = evidence.cite(PROPS, JOURNAL)
    settings = props.get("default_generation_settings")
    told = {
        "parallel": _count(props.get("total_slots")),
        "slot_context": _count(settings.get("n_ctx")) if isinstance(settings, dict) else None,
    }
    logged = {"parallel": startup.slots, "slot_context": startup.slot_context}
    sources = {
        place: {name: value for name, value in values.items() if value is not None}
        for place, values in (("/props", told), ("log", logged))
    }
    slots = effective("argument.parallel", "parallel", sources, cite)
    context = effective("argument.ctx_size", "slot_context", sources, cite)
    yield slots
    if context.value is None or slots.value is None:
        yield context if context.value is None else slots.model_copy(update={"metric": "argument.ctx_size"})
        return
    shared = startup.unified if startup.unified is not None else unified(target)
    whole = context.value if shared else context.value * slots.value
    text = f"{context.value} tokens, shared by {slots.value} slots" if shared else (
        f"{context.value} tokens in each of {slots.value} slots"
    )  # fmt: skip
    yield context.model_copy(update={"value": whole, "text": f"{text} ({'log' if startup.slots else '/props'})"})


def _details(evidence: Evidence, startup: Startup) -> Iterator[Fact]:
    cite = evidence.cite(JOURNAL)
    for name in ("flash_attn", "cache_type_k", "cache_type_v", "draft_max"):
        yield effective(f"argument.{name}", name, {"log": startup.arguments}, cite)


def _speculative(target: Target, evidence: Evidence, startup: Startup) -> Iterator[Fact]:
    """A draft that was loaded is no speculation yet where the server then says that it goes on without."""
    cite = evidence.cite(JOURNAL)
    shown = startup.built or bool(startup.draft or startup.types or startup.requests)
    known = startup.model is not None and startup.listening
    configured = False if startup.off else True if shown else False if known else None
    text = startup.off or startup.draft or (", ".join(startup.types)) or "no word about speculation in the log"
    if configured is None:
        text = "the log of this start shows neither the model's loading nor its end"
    yield Fact(metric="speculation.configured", value=configured, text=text, evidence=cite)
    asked = speculating(target)
    if asked is None:
        return
    loaded = bool(startup.draft) if known or startup.draft else None
    if asked.head and startup.off:
        loaded = False
    yield Fact(metric="draft.loaded", value=loaded, text=startup.off or startup.draft or text, evidence=cite)
    yield _simulated(evidence)


def _simulated(evidence: Evidence) -> Fact:
    given, variables = evidence.text(CMDLINE).split("\0"), evidence.json(ENVIRON)
    cite = evidence.cite(CMDLINE, ENVIRON)
    if not isinstance(variables, dict) or not variables or len(given) < 2:
        text = "the process's command line or environment could not be read"
        return Fact(metric="acceptance.simulated", text=text, sample=0, evidence=cite)
    found = [name for name in SIMULATING if name in variables or name in (word.replace("_", "-") for word in given)]
    text = f"{', '.join(found)} is set" if found else "neither an argument nor a variable simulates it"
    return Fact(metric="acceptance.simulated", value=bool(found), text=text, evidence=cite)


def _layers(target: Target, evidence: Evidence, startup: Startup) -> Iterator[Fact]:
    """The share of what was asked for, no more than there is."""
    asked = target.arguments.get("n_gpu_layers")
    if startup.layers is None or not (asked == "all" or type(asked) is int):
        return
    layers, everything = startup.layers
    wanted = everything if asked == "all" else min(int(asked), everything)
    text = f"{layers} of {everything} layers on GPUs"
    value = min(1.0, layers / wanted) if wanted > 0 else 1.0
    yield Fact(metric="gpu.layers", value=value, text=text, evidence=evidence.cite(JOURNAL))


def _adjustments(target: Target, evidence: Evidence, startup: Startup) -> Fact:
    """What was asked for and is not had; a default that a model does not support is nobody's wish."""
    if startup.model is None:
        text = "the log does not show this start"
        return Fact(metric="adjustments.unexpected", text=text, sample=0)
    about = [(text, DEFAULTED.get(text.partition(" ")[0])) for text in startup.changed]
    odd = [text for text, name in about if name is None or target.arguments.get(name)]
    sample, cite = max(1, len(startup.changed)), evidence.cite(JOURNAL)
    return Fact(metric="adjustments.unexpected", value=odd, sample=sample, text="; ".join(odd) or "none", evidence=cite)
