"""Why claims about vLLM may be refuted (0.9 to 0.30), most likely first, with what tells the causes apart."""

from state.service_causes import Causes, causes

_IGNORED = causes(
    ("a drop-in or a wrapper takes the flag away", "/proc/PID/cmdline does not have it"),
    ("the release renamed or dropped the argument", "its --help=all, and a deprecation line at the start"),
    ("the model's architecture or platform overrules it", "a warning between the arguments and the model's loading"),
)

_NOT_CONFIGURED = causes(
    ("the JSON lost its quotes on the way through a shell or a unit file", "/proc/PID/cmdline has it in pieces"),
    ("a drop-in or a wrapper takes the flag away", "/proc/PID/cmdline does not have it"),
    ("the release does not know the method for this model", "an error or a warning that names the method"),
)

_USELESS = causes(
    ("the checkpoint has no MTP tensors", "no `mtp.` key in model.safetensors.index.json"),
    ("the draft belongs to another model or revision", "hidden sizes and vocabularies of the two config.json"),
    ("the draft's weights are read in the wrong quantisation", "the target is quantised, and the draft's part is not"),
    ("sampling is far from greedy in the traffic", "our own requests at temperature 0 accept, others do not"),
)

VLLM_CAUSES: Causes = {
    "argument.": _IGNORED,
    "speculative-method": _NOT_CONFIGURED,
    "num-speculative-tokens": _NOT_CONFIGURED,
    "speculative-model": _NOT_CONFIGURED,
    "engine-v1": causes(
        ("an argument or model that V1 does not support yet", "a warning `falling back to V0` names it"),
        ("VLLM_USE_V1=0 is set elsewhere", "the process's environment"),
    ),
    "speculation-active": (*_NOT_CONFIGURED, *_USELESS[:1]),
    "accepted-in-our-traffic": _USELESS,
    "accepted-per-request": _USELESS,
    "accept-length": causes(
        ("one MTP layer is run for several tokens", "per-position acceptance falls off after the first position"),
        ("the text is hard to predict", "acceptance differs much between prompts"),
        ("many sequences share the batch", "acceptance falls as `Running:` rises"),
        ("a release changed the draft's path", "the same manifest with the version before"),
    ),
    "figures-agree": causes(
        ("other traffic than ours is in the log", "requests by others in the access log meanwhile"),
        ("/metrics is of one of several API servers", "`api_server_count` above 1, and counters that jump"),
        ("acceptance is simulated", "`rejection_sample_method: synthetic` among the log's arguments"),
    ),
    "draft-depth": causes(
        ("the number is taken from the draft model's own configuration", "the configuration line's num_spec_tokens"),
        (
            "requests end or are constrained before all drafts are made",
            "answers with a grammar, or near the context's end",
        ),
    ),
    "draft-weights": causes(
        ("speculation is not configured at all", "the log's arguments have no speculative_config"),
        ("the draft's folder is wrong or empty", "an error after the model's own weights"),
        ("the log is at level warning", "no line at level INFO"),
    ),
    "not-simulated": causes(
        ("an option left from a benchmark", "the unit's speculative configuration"),
    ),
    "adjustments": causes(
        ("two arguments exclude each other in this release", "the adjustment line names both"),
        ("the model does not support one of them", "the line names the architecture"),
    ),
    "gpu-memory-utilization": causes(
        ("a drop-in or a wrapper changes it", "/proc/PID/cmdline"),
        ("the engine caps it beside another process on the GPU", "an adjustment line"),
    ),
    "speculation-off": causes(
        ("an argument is set elsewhere", "/proc/PID/cmdline has a speculative flag"),
        ("the lines are the old process's", "their PID is not of this start"),
    ),
}
"""By a claim's name, or by the kind of its metric."""
