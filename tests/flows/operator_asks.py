"""What operators ask of a verifier, as one table: each complaint (A1 to B25 of the reference on operators), how it is
built here, who of interlock says so, and in which whole rollout the same is held.

`test_operator_asks.py` runs every row, `tests/lab/test_lab_asks.py` those marked `lab` on real systemd, and
`docs/reference/operator-asks.md` is compared with it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.practice.scene import UNIT_FILE
from tests.flows.host_faults import (
    driver_updated,
    killed_for_memory,
    stranger_beside,
    stranger_on_the_port,
    stuck_in_the_kernel,
    wrapper_says_ready,
)
from tests.flows.rehearsal import Rehearsal

NEW = {"speculative_algorithm": "NEXTN"}
MTP = {"speculative_config": {"method": "mtp", "num_speculative_tokens": 3}}
METRICS = {"enable_metrics": True}
OFFERS = {"engine": {"offers": ["json-schema", "tool-calls"]}}
GAIN = {"claims": [{"claim": "throughput", "at_least": "+12%"}], "traffic": {"tokens": 96}}
LENGTH = {"claims": [{"claim": "accept-length", "at_least": "-20%"}], "traffic": {"tokens": 96}}
STAND_IN = "/opt/sglang/stand-in.json"


def fault(name: str, *, when: Mapping[str, Any] = NEW, **options: Any) -> dict[str, Any]:
    """A fault of the new configuration alone."""
    return {"fault": name, "when": when, **options}


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """How one rollout goes: the scene's keywords, what of the manifest is changed, and what happens to the host.

    `files` are written before, `earlier` says that the seed was rolled out first, `meanwhile` runs beside.
    """

    scene: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    earlier: bool = False
    meanwhile: Callable[[Rehearsal], Awaitable[None]] | None = None


WHOLE: Mapping[str, Conduct] = {
    "everything asked for": Conduct(arguments=METRICS, changes=OFFERS | GAIN),
    "the same once more": Conduct(arguments={"mem_fraction_static": 0.7}, changes=LENGTH, earlier=True),
    "slow to load": Conduct(
        scene={"faults": [fault("slow-load", seconds=300)]}, changes={"readiness": {"timeout": "10m"}}
    ),
    "busy with long prompts": Conduct(scene={"settings": {"prefill_seconds": 6.0}}),
    "noisy about memory": Conduct(scene={"faults": [fault("autotune-noise")]}),
    "adaptive, nothing accepted": Conduct(
        scene={"faults": [fault("accept-nothing")]}, arguments={"speculative_adaptive": True}, changes={"claims": []}
    ),
    "vLLM with MTP": Conduct(scene={"engine": "vllm"}),
}
"""Rollouts in which nothing is wrong. All of their claims are held."""

By = Literal["claim", "action", "warning"]
Result = Literal["refuted", "inconclusive", "rolled-back", "refused", "aborted", "stranded", "warned"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """`by` and `name` say who decides: a claim, an action of the rollout (by a part of its key), or a warning of the
    preflight. `says` is a pattern for its reason, or for message and hint."""

    ask: str
    case: str
    broken: str
    by: By = "claim"
    name: str
    result: Result = "refuted"
    says: str
    conduct: Conduct = field(default_factory=Conduct)
    whole: str = "everything asked for"
    lab: bool = False

    @property
    def id(self) -> str:
        return f"{self.ask}-{self.case}"


def scripted(name: str, *, changes: Mapping[str, Any] | None = None, arguments: Any = None, **options: Any) -> Conduct:
    """A fault of the stand-in in the new configuration."""
    return Conduct(scene={"faults": [fault(name, **options)]}, changes=changes or {}, arguments=arguments or {})


READY, TRAFFIC, STOP = "await-readiness:new", "verify:new:1", "stop-service"
LEFTOVER = {"fault": "slow-stop-leftover", "seconds": 1, "leftover_seconds": 600}
FEWER_ACCEPTED = {STAND_IN: '{"mean_accept_length": 2.0}'}
FEW_ACCEPTED = Conduct(arguments={"mem_fraction_static": 0.7}, changes=LENGTH, earlier=True, files=FEWER_ACCEPTED)
INCOMPLETE = Conduct(arguments={"speculative_eagle_topk": None, "speculative_num_draft_tokens": None})
ELSEWHERE = Conduct(arguments={"port": 40000}, changes={"engine": {"endpoint": "http://127.0.0.1:40000"}})

ROWS: Sequence[Row] = (
    Row(ask="A1", case="hangs-at-once", broken="`/health` is 200, and no generation ever comes back", by="action",
        name=TRAFFIC, result="rolled-back", says=r"no generation came back within 10 s.*scheduler hangs",
        conduct=scripted("hang-after-ready")),
    Row(ask="A1", case="hangs-later", broken="it hangs after eight requests", name="requests-answered",
        says=r"\d of \d+ requests answered; no answer within", conduct=scripted("hang-after-ready", requests=8)),
    Row(ask="A2", case="garbage-in-company", broken="word salad, only once a second request is in the batch",
        name="not-degenerate", says=r"\d of \d+ degenerate: ", conduct=scripted("garbage-in-company"), lab=True),
    Row(ask="A2", case="broken-tool-calls", broken="tool calls leak into the text", name="tool-calls",
        says="the call stands in the text", conduct=scripted("tool-parser-missing", changes=OFFERS)),
    Row(ask="A2", case="schema-ignored", broken="structured output is asked for, and prose comes", name="json-schema",
        says=r"\d of \d+ kept; .*the answer: no JSON, but ", conduct=scripted("schema-ignored", changes=OFFERS)),
    Row(ask="A3", case="flag-ignored", broken="the engine drops the flags of speculation without a word",
        name="speculative-algorithm", says="wanted EAGLE", conduct=scripted("flag-ignored"), lab=True),
    Row(ask="A3", case="nothing-accepted", broken="the draft is loaded, and none of its tokens is accepted",
        name="speculation-active", says="useless: accept length 1.00", conduct=scripted("accept-nothing")),
    Row(ask="A4", case="acceptance-falls", broken="the same configuration accepts 2.0 a step after an upgrade, "
        "and 3.4 before", name="accept-length-change", says=r"change -\d+\.\d%.*wanted at least -20.0%",
        conduct=FEW_ACCEPTED, whole="the same once more"),
    Row(ask="A5", case="slower-than-none", broken="drafting costs more than it saves", name="throughput-change-1",
        says=r"change -\d+\.\d%.*wanted at least \+12.0%", conduct=scripted("slower", factor=2, changes=GAIN)),
    Row(ask="A6", case="metrics-contradict", broken="`/metrics` shows half of the acceptance that the log shows",
        name="metrics-agree", says=r"log 3\.\d+, metrics 1\.\d+", conduct=scripted("metrics-apart", arguments=METRICS),
        lab=True),
    Row(ask="A7", case="overlap-off", broken="SGLang 0.5.9 turns overlap scheduling off by itself", name="adjustments",
        says="Overlap scheduler is disabled", conduct=Conduct(scene={"version": "0.5.9"})),
    Row(ask="A7", case="another-fraction", broken="another memory fraction is in effect than was asked for",
        name="mem-fraction-static", says=r"0\.88 .*wanted 0\.75", conduct=scripted("wrong-mem-fraction"), lab=True),
    Row(ask="A8", case="dead-not-busy", broken="nothing moves any more; a service that is busy with prefill is whole",
        by="action", name=TRAFFIC, result="rolled-back", says="no generation came back within 10 s",
        conduct=scripted("hang-after-ready", health="503"), whole="busy with long prompts"),
    Row(ask="B9", case="orphan", broken="a worker outlives the stop and keeps the port", by="action", name=STOP,
        result="rolled-back", says=r"left PID \d+ .*which holds port",
        conduct=Conduct(scene={"faults": [LEFTOVER], "kill_mode": "process"})),
    Row(ask="B10", case="unkillable", broken="the old processes are stuck in the kernel (state D)", by="action",
        name=STOP, result="stranded", says="is in state D.*only a reboot of serving ends it",
        conduct=Conduct(meanwhile=stuck_in_the_kernel)),
    Row(ask="B11", case="loop-while-loading", broken="`Restart=always` starts a crashing start again and again",
        by="action", name=READY, result="rolled-back", says=r"\(weights-mismatch\)",
        conduct=scripted("crash-loading-draft", changes={"unit": {"restart": "always"}}), lab=True),
    Row(ask="B11", case="loop-while-serving", broken="it comes up, dies under requests, and is started again",
        name="no-restart", says=r"\d+ restarts since the start",
        conduct=scripted("exit-after-ready", changes={"unit": {"restart": "always"}})),
    Row(ask="B12", case="drop-in-that-cannot-run", broken="a drop-in runs a program that is not there", by="action",
        name="stage-files", result="aborted", says="systemd on serving refuses .*/no/such/program",
        conduct=Conduct(files={f"{UNIT_FILE}.d/before.conf": "[Service]\nExecStartPre=/no/such/program\n"}), lab=True),
    Row(ask="B12", case="drop-in-that-overrides", broken="a drop-in replaces ExecStart", by="action", name="preflight",
        result="refused", says="override.conf overrides ExecStart",
        conduct=Conduct(files={f"{UNIT_FILE}.d/override.conf": "[Service]\nExecStart=\nExecStart=/bin/true\n"})),
    Row(ask="B13", case="too-slow", broken="weights take longer than `readiness.timeout`; a longer one makes it whole",
        by="action", name=READY, result="rolled-back", says=r"last stage: weights.*raise `readiness.timeout`",
        conduct=scripted("slow-load", seconds=300, changes={"readiness": {"timeout": "6s"}}), whole="slow to load",
        lab=True),
    Row(ask="B15", case="port-held", broken="a stranger holds the service's port", by="action", name="preflight",
        result="refused", says=r"port 30000 on serving is held by .*PID \d+.*, which is not of sglang-qwen",
        conduct=Conduct(meanwhile=stranger_on_the_port)),
    Row(ask="B15", case="port-given-away", broken="the port lies in the kernel's range for outgoing connections",
        by="warning", name="preflight", result="warned", says=r"40000 lies in the range .*\(32768 to 60999\)",
        conduct=ELSEWHERE),
    Row(ask="B16", case="somebody-else-answers", broken="another process listens on the port as well",
        name="port-ours", says=r"the port is held by PID \d+", conduct=Conduct(meanwhile=stranger_beside)),
    Row(ask="B17", case="ends-with-0", broken="the server ends with status 0 while it should serve", name="active",
        says="systemd says inactive", conduct=Conduct(
            scene={"engine": "vllm", "faults": [fault("exit-after-ready", when=MTP)]}), whole="vLLM with MTP"),
    Row(ask="B18", case="oom-killer", broken="the kernel takes a child process, and no log says so",
        name="kernel-quiet", says="the OOM killer took 1 of the unit's processes",
        conduct=Conduct(meanwhile=killed_for_memory)),
    Row(ask="B19", case="wrapper-says-ready", broken="a wrapper prints `ready` while the engine still loads",
        by="action", name=READY, result="rolled-back", says="last stage: weights", conduct=Conduct(
            scene={"faults": [fault("slow-load", seconds=300)]}, meanwhile=wrapper_says_ready),
        whole="slow to load"),
    Row(ask="B20", case="out-of-memory", broken="a real OutOfMemoryError; those of an autotuner are whole", by="action",
        name=READY, result="rolled-back", says=r"\(cuda-oom\)", conduct=scripted("cuda-oom"),
        whole="noisy about memory"),
    Row(ask="B21", case="incomplete-flags", broken="steps are given without top-k and draft tokens", by="action",
        name="preflight", result="refused", says="is given without `speculative_eagle_topk`", conduct=INCOMPLETE,
        lab=True),
    Row(ask="B22", case="driver-too-old", broken="torch finds the driver too old", by="action", name=READY,
        result="rolled-back", says=r"\(driver-mismatch\).*matches the user-space libraries",
        conduct=scripted("driver-mismatch"), lab=True),
    Row(ask="B22", case="driver-updated", broken="a package brought another driver than the kernel has loaded",
        by="action", name="preflight", result="refused", says=r"kernel of serving is 580\.95\.05, its libcuda is 590",
        conduct=Conduct(meanwhile=driver_updated)),
    Row(ask="B23", case="unknown-log-shape", broken="decode records have a shape that no known release writes",
        name="speculation-active", result="inconclusive", says="no decode record",
        conduct=scripted("unknown-log-shape")),
    Row(ask="B24", case="nothing-accepted", broken="accept length 1.00; with `speculative_adaptive` it is intended",
        name="speculation-active", says="useless", conduct=scripted("accept-nothing", changes={"claims": []}),
        whole="adaptive, nothing accepted", lab=True),
)  # fmt: skip

RECORDED = Row(
    ask="B25", case="bundle", broken="any piece of the kept evidence is lost: argv, journal, answers, load",
    name="every claim that rests on it", result="inconclusive", says="no evidence",
)  # fmt: skip
"""Judged again from what was kept, with each piece left out in its turn."""

UNDECIDED: Mapping[str, str] = {
    "B14": "interlock does not hold the load balancer, so it can neither take a service out of rotation nor see what "
    "is lost there. It gives running requests the time of `unit.stop.drain` before the stop, says before a rollout how "
    "long the service was dark the last time, and afterwards how long it was.",
}
"""Asks that no claim decides, and why."""

ASKS = tuple(f"A{n}" for n in range(1, 9)) + tuple(f"B{n}" for n in range(9, 26))
