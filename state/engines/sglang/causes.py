"""Why claims about SGLang may be refuted (0.4.6 to 0.5.23), most likely first, with what tells the causes apart."""

from state.service_causes import Causes, causes

_IGNORED = causes(
    ("a drop-in or a wrapper takes the flag away", "/proc/PID/cmdline does not have it"),
    ("the release renamed or dropped the argument", "its --help, and a deprecation line at the start"),
    ("the model's architecture overrules it", "an adjustment line in the start-up log names the argument"),
)

_USELESS = causes(
    ("the checkpoint has no MTP tensors", "no `mtp.` key in model.safetensors.index.json"),
    ("the draft is quantised like the target, which its weights are not", "draft weights much smaller than expected"),
    ("the draft belongs to another model or revision", "hidden sizes and vocabularies of the two config.json"),
    ("sampling is far from greedy in the traffic", "our own requests at temperature 0 accept, others do not"),
)

SGLANG_CAUSES: Causes = {
    "argument.": _IGNORED,
    "speculation-active": (*_IGNORED, *_USELESS[:1]),
    "accepted-per-request": _USELESS,
    "accept-length": causes(
        ("too many steps for this draft", "the acceptance histogram falls off before the last step"),
        ("the text is hard to predict", "acceptance differs much between prompts"),
        ("many sequences share the batch", "acceptance falls as #running-req rises"),
        ("a release changed the draft's path", "the same manifest with the version before"),
    ),
    "figures-agree": causes(
        ("other traffic than ours is in the log", "requests by others in the access log meanwhile"),
        ("the log's figure counts otherwise in this release", "strict since 0.5.11, with the bonus token before"),
        ("acceptance is simulated", "SGLANG_SIMULATE_ACC_LEN in the environment"),
    ),
    "metrics-agree": causes(
        ("the gauge is of the newest interval, the log's mean of all", "the gauge agrees with the newest record"),
        ("/metrics is another process's", "the models endpoint and the process that holds the port"),
    ),
    "draft-weights": causes(
        ("the draft path is wrong or empty", "an error or nothing between the target's load and the KV cache"),
        ("a rank loads from a folder of its own", "one rank's line is missing"),
    ),
    "draft-even": causes(
        ("a rank's shard is cut", "sizes and digests of the checkpoint's files on that host"),
    ),
    "not-simulated": causes(
        ("a variable left from a benchmark", "`systemctl cat` and the environment files"),
    ),
    "adjustments": causes(
        ("two arguments exclude each other in this release", "the adjustment line names both"),
        ("the GPU has less memory free than expected", "another process on the GPU at the start"),
    ),
    "mem-fraction-static": (*_IGNORED[:1], *causes(("the engine chose another fraction", "an adjustment line"))),
    "disable-overlap-schedule": causes(
        ("the algorithm or the model does not support overlap in this release", "an adjustment line (overlap-off)"),
        ("SGLANG_ENABLE_SPEC_V2 is not set before 0.5.11", "the process's environment"),
    ),
    "speculation-off": causes(
        ("an argument is set elsewhere", "/proc/PID/cmdline has a speculative flag"),
        ("the lines are the old process's", "their PID is not of this start"),
    ),
}
