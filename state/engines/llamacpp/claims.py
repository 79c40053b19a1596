"""The claims that follow from what is asked of llama-server (builds 5000 to 11000)."""

from collections.abc import Iterator
from functools import partial

from state import service_claims
from state.claims import Claim, Undecidable
from state.engines import engine_claims
from state.engines.llamacpp.asked import DETAILED, level, silent, speculating
from state.engines.llamacpp.causes import LLAMA_CAUSES
from state.engines.llamacpp.speculation_claims import accepted, plain
from state.service_causes import SERVICE_CAUSES, attached
from state.target import Target

PROPS, LOG = "/props", "the engine's log"
SHOWN = frozenset({"ctx_size", "parallel", "flash_attn", "cache_type_k", "cache_type_v", "n_gpu_layers", "model"})
"""Arguments that the engine shows as they are in effect."""
ELSEWHERE = frozenset(
    {"host", "port", "alias", "metrics", "props", "slots", "log_verbosity", "verbose", "log_disable", "log_file"}
    | {"log_jsonl"}
    | {"model_draft", "hf_repo_draft", "draft_max", "spec_draft_n_max", "spec_type", "spec_default", "hf_repo"}
    | {"log_prefix", "log_timestamps", "log_colors", "api_key", "api_key_file", "kv_unified"}
)
"""Arguments that other claims judge, or that show by themselves whether they are in effect."""
MORE = "set engine.arguments.log_verbosity: 4"


def derive(target: Target) -> tuple[Claim, ...]:
    """Claims by plane, in the order in which they are judged."""
    asked = speculating(target)
    claims = (
        *service_claims.identity(target),
        *_identity(target),
        *_control(target),
        *_data(target),
        *_resource(target),
        *service_claims.function(target),
        *((accepted(asked) if asked else plain()) if not silent(target) else ()),
    )
    return attached(claims, LLAMA_CAUSES, SERVICE_CAUSES)


def undecidable(target: Target) -> tuple[Undecidable, ...]:
    """What a llama-server of this configuration gives no evidence of."""
    return (*_silent_arguments(target), *_silent_speculation(target))


def _silent_arguments(target: Target) -> Iterator[Undecidable]:
    for name in sorted(target.arguments.keys() - SHOWN - ELSEWHERE):
        yield Undecidable(
            claim=name.replace("_", "-"),
            plane="control",
            why="llama-server shows this argument neither in its log nor in /props; the argv has it",
        )
    if target.engine_version is None:
        yield Undecidable(
            claim="build",
            plane="identity",
            why="the installed build could not be read, so it cannot be told whether it is the one that runs",
            instead="name llama-server itself as engine.command, so that its --version can be asked",
        )


def _silent_speculation(target: Target) -> Iterator[Undecidable]:
    asked = speculating(target)
    if silent(target):
        yield Undecidable(
            claim="speculation-active" if asked else "speculation-off",
            plane="speculation",
            why="the log is off, of JSON, or below the level at which it tells of requests and drafts",
            instead="leave log_disable and log_jsonl out, and log_verbosity at 3 or more",
        )
    if asked and not asked.drafts:
        yield Undecidable(
            claim="draft-weights",
            plane="data",
            why=f"{', '.join(asked.types)} drafts from what the text repeats, so no draft is loaded",
        )


def _identity(target: Target) -> Iterator[Claim]:
    claim = partial(Claim, plane="identity", relation="equals", source=PROPS)
    if target.arguments.get("model"):
        yield claim(
            name="model-path",
            statement=f"it serves {target.arguments['model']}",
            metric="model.path",
            expected=target.arguments["model"],
            remedy="another file is served: see `systemctl cat` and LLAMA_ARG_MODEL in the environment",
        )
    if target.engine_version:
        yield claim(
            name="build",
            statement=f"the running build is the installed one, {target.engine_version}",
            metric="engine.build",
            expected=target.engine_version,
            remedy="the file was replaced after the start, or another one is started: compare /proc/PID/exe",
            doubt="accept",
        )


def _control(target: Target) -> Iterator[Claim]:
    asked, claim = target.arguments, partial(Claim, plane="control", remedy=_remedy("the argument"))
    slots, context = asked.get("parallel"), asked.get("ctx_size")
    if type(slots) is int and slots > 0:
        yield claim(
            name="parallel",
            statement=f"it has {slots} slots",
            metric="argument.parallel",
            relation="equals",
            expected=slots,
            source=f"{PROPS} and the log",
        )
    if type(context) is int and context > 0:
        yield claim(
            name="ctx-size",
            statement=f"all slots together have at least {context} tokens of context",
            metric="argument.ctx_size",
            relation="at-least",
            expected=context,
            source=f"{PROPS} and the log",
        )
    yield from _details(target)
    if not silent(target):
        yield _configured(target)
    yield from service_claims.environment(target)
    yield engine_claims.adjustments(
        LOG,
        statement="the engine disabled or capped nothing by itself",
        remedy="ask for what the model supports: the line in the log says what was changed",
        doubt="accept" if silent(target) else None,
    )


def _details(target: Target) -> Iterator[Claim]:
    """What newer builds print only at a higher level: open there otherwise, which nobody is rolled back for."""
    for name in ("flash_attn", "cache_type_k", "cache_type_v"):
        if (value := target.arguments.get(name)) is not None and value != "auto":
            yield Claim(
                name=name.replace("_", "-"),
                plane="control",
                statement=f"{name} is {value}",
                metric=f"argument.{name}",
                relation="equals",
                expected=value,
                source=LOG,
                remedy=_remedy(name),
                doubt=None if level(target) >= DETAILED else "accept",
            )
    asked = speculating(target)
    if asked and asked.drafts and asked.depth is not None:
        yield Claim(
            name="draft-max",
            plane="control",
            statement=f"at most {asked.depth} tokens are set to be drafted at once",
            metric="argument.draft_max",
            relation="equals",
            expected=asked.depth,
            source=LOG,
            remedy="builds differ in the flag's name and default: see its --help, and `n_max` in the log",
            doubt="accept",
        )


def _remedy(name: str) -> str:
    return f"the engine runs with another value of {name}; see its first lines in `interlock show`"


def _configured(target: Target) -> Claim:
    asked = speculating(target)
    how = f"by {asked.draft or ', '.join(asked.types)}" if asked else ""
    return Claim(
        name="speculative-decoding",
        plane="control",
        statement=f"speculative decoding is set up, {how}" if asked else "no speculative decoding is set up",
        metric="speculation.configured",
        relation="equals",
        expected=asked is not None,
        source=LOG,
        remedy="llama-server goes on without speculation where it cannot have it: look for a warning about the draft, "
        "the context or MTP layers, and for a drop-in or wrapper that drops the flag"
        if asked
        else "speculation is set up although it is not asked for: see `systemctl cat` and LLAMA_ARG_SPEC_* variables",
    )


def _data(target: Target) -> Iterator[Claim]:
    asked = speculating(target)
    if asked is None:
        return
    if asked.drafts and not silent(target):
        yield engine_claims.draft_loaded(
            "the model's MTP layers are set up" if asked.head else "the draft is loaded beside the model",
            LOG,
            "no draft was loaded: check model_draft, or that the GGUF file holds MTP layers",
        )
    yield engine_claims.not_simulated(
        "acceptance.simulated",
        "/proc/PID/cmdline and environ",
        "take --spec-synth-len and --spec-synth-rates, or their LLAMA_ARG_ variables, away",
    )


def _resource(target: Target) -> Iterator[Claim]:
    asked = target.arguments.get("n_gpu_layers")
    if asked == "all" or (type(asked) is int and asked > 0):
        yield Claim(
            name="gpu-layers",
            plane="resource",
            statement="every layer is on GPUs" if asked == "all" else f"{asked} layers are on GPUs, or all there are",
            metric="gpu.layers",
            relation="at-least",
            expected=1.0,
            source=LOG,
            remedy="layers are left to the CPU: free memory on the GPUs, ask for a smaller context, or use a build "
            "for these GPUs",
            doubt=None if level(target) >= DETAILED else "accept",
        )
    yield from service_claims.devices(target)
