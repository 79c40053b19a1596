"""Why claims about llama-server may be refuted (builds 5000 to 11000), most likely first, with what tells which."""

from state.service_causes import Causes, causes

_IGNORED = causes(
    ("a drop-in or a wrapper takes the flag away", "/proc/PID/cmdline does not have it"),
    ("--fit makes unset arguments smaller, so that the model fits", "lines `fitting params to device memory`"),
    ("the model's training context caps it", "`exceeds the training context of the model`"),
)

_NOT_CONFIGURED = causes(
    ("a drop-in or a wrapper takes the flag away", "/proc/PID/cmdline does not have it"),
    ("the model's context cannot take drafts back", "`speculative decoding not supported by this context`"),
    ("the GGUF file was converted without its MTP layers", "`context type MTP requested but model doesn't contain`"),
    ("--spec-type is none, and this build takes a draft model alone for nothing", "no `speculative implementation`"),
)

_USELESS = causes(
    ("the draft belongs to another model or revision", "`general.name` and the vocabulary of the two GGUF files"),
    ("the draft's vocabulary differs, and tokens are translated", "`is not compatible with the target model`"),
    ("the draft is quantised too far, or its cache is", "the same draft at 8 bits, with cache_type_k_draft f16"),
    ("sampling is far from greedy in the traffic", "our own requests at temperature 0 accept, others do not"),
)

LLAMA_CAUSES: Causes = {
    "argument.": _IGNORED,
    "model-path": causes(
        ("LLAMA_ARG_MODEL or a preset names another file", "the process's environment; /props model_path"),
        ("another server answers on the port", "the PID that listens there"),
    ),
    "build": causes(
        ("the program was replaced after the start", "/proc/PID/exe ends in `(deleted)`"),
        ("engine.command is a wrapper that starts another build", "/proc/PID/exe"),
    ),
    "speculative-decoding": _NOT_CONFIGURED,
    "draft-weights": _NOT_CONFIGURED,
    "speculation-active": (*_NOT_CONFIGURED[:3], *_USELESS[:2]),
    "accepted-per-request": _USELESS,
    "accept-length": causes(
        ("draft_p_min ends drafts early", "far fewer tokens than the most in each draft of the statistics line"),
        ("the text is hard to predict", "acceptance differs much between prompts"),
        ("one MTP layer is run for several tokens", "`#acc rate/pos` falls off after the first position"),
    ),
    "figures-agree": causes(
        ("other traffic than ours is in the log", "requests by others in the log meanwhile"),
        ("acceptance is simulated", "--spec-synth-len or --spec-synth-rates in the argv"),
    ),
    "draft-depth": causes(
        ("the build knows the flag under another name, and takes its default", "`- n_max=` in the log; its --help"),
        ("LLAMA_ARG_SPEC_DRAFT_N_MAX is set elsewhere", "the process's environment"),
    ),
    "not-simulated": causes(
        ("an option left from a benchmark", "the unit's arguments and environment"),
    ),
    "adjustments": causes(
        ("the model or its context does not support what was asked for", "the line names both"),
    ),
    "gpu-layers": causes(
        ("too little memory is free on the GPUs, and --fit left layers out", "`cannot meet free memory target`"),
        ("the build has no backend for these GPUs", "`--list-devices` shows none"),
    ),
    "speculation-off": causes(
        ("LLAMA_ARG_SPEC_TYPE or a preset turns it on", "the process's environment"),
        ("the lines are the old process's", "their PID is not of this start"),
    ),
}
"""By a claim's name, or by the kind of its metric."""
