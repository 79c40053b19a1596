# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""For every engine: noise, cuts, transports and other boots between never make a fact that was not there."""

import json
from collections.abc import Callable
from dataclasses import fields

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from state.inspection.log import LogReader, read_log
from state.inspection.report import Boot, LogReport, to_json
from tests.inspection.test_properties import ACTIVE, LOADING, OFF, noise, transports

VLLM = [
    "INFO 10-03 11:20:00 [api_server.py:1839] vLLM API server version 0.11.0",
    "INFO 10-03 11:20:00 [utils.py:233] non-default args: {{'model': '/m', 'tensor_parallel_size': 2{config}}}",
    "INFO 10-03 11:20:05 [model.py:547] Resolved architecture: LlamaForCausalLM",
    "INFO 10-03 11:20:20 [gpu_model_runner.py:2602] Starting to load model /m...",
    "INFO 10-03 11:20:45 [gpu_model_runner.py:2653] Model loading took 8.12 GiB and 20.0 seconds",
    "INFO:     Application startup complete.",
]
VLLM_RECORD = "INFO 10-03 11:22:{second} [metrics.py:96] SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 15.00 tokens/s, Drafted throughput: 30.00 tokens/s, Accepted: 150 tokens, Drafted: 300 tokens, Per-position acceptance rate: 0.800, 0.500, 0.200, Avg Draft acceptance rate: 50.0%"
VLLM_LOAD = "INFO 10-03 11:22:{second} [loggers.py:127] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 1{second}.0 tokens/s, Running: 4 reqs, Waiting: 2 reqs, GPU KV cache usage: 9.9%, Prefix cache hit rate: 0.0%"


def vllm(config: str, *records: str) -> list[str]:
    start = [line.format(config=config) if "{config}" in line else line for line in VLLM]
    return [*start, *(record.format(second=second) for second in ("10", "20", "30") for record in records)]


VLLM_ACTIVE = vllm(", 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 3}", VLLM_LOAD, VLLM_RECORD)
VLLM_OFF = vllm("", VLLM_LOAD)
LLAMACPP = [
    "main: server is listening on http://127.0.0.1:8080 - starting the main loop",
    "srv  update_slots: all slots are idle",
    "slot print_timing: id  0 | task 1 | draft acceptance rate = 0.60000 (   60 accepted /   100 generated)",
    "slot print_timing: id  0 | task 2 | draft acceptance rate = 0.50000 (   50 accepted /   100 generated)",
]
BOOTS: dict[str, list[str]] = {
    "active": ACTIVE, "off": OFF, "loading": LOADING, "vllm-active": VLLM_ACTIVE, "vllm-off": VLLM_OFF, "llamacpp": LLAMACPP,
}  # fmt: skip
ENGINE = {"active": "sglang", "off": "sglang", "loading": "sglang", "vllm-active": "vllm", "vllm-off": "vllm", "llamacpp": "llamacpp"}  # fmt: skip


def read(lines: list[str], engine: str = "auto") -> LogReport:
    return read_log([line.encode() + b"\n" for line in lines], engine)


def told(boot: Boot) -> str:
    shown = to_json(LogReport(None, (boot,)))["boots"][0]
    for lined in ("failures", "notices"):
        shown[lined] = [entry["code"] for entry in shown[lined]]
    return json.dumps({**shown, "pids": []}, sort_keys=True)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(BOOTS)),
    st.sampled_from(transports),
    st.lists(st.tuples(st.integers(0, 40), noise), max_size=6),
)
def test_noise_and_transport_change_nothing(
    name: str, transport: Callable[[str], str], extra: list[tuple[int, str]]
) -> None:
    lines = [transport(line) for line in BOOTS[name]]
    for place, text in extra:
        lines.insert(place % (len(lines) + 1), text)
    report = read(lines, ENGINE[name])
    assert [told(boot) for boot in report.boots] == [told(boot) for boot in read(BOOTS[name], ENGINE[name]).boots]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(BOOTS)), st.floats(0, 1), st.floats(0, 1))
@example(name="vllm-off", begin=0.0, end=0.0625)  # within the version
def test_a_cut_anywhere_only_takes_away(name: str, begin: float, end: float) -> None:
    data = "\n".join(BOOTS[name]).encode() + b"\n"
    first, last = sorted((int(begin * len(data)), int(end * len(data))))
    reader = LogReader(ENGINE[name])
    reader.feed_block(data[first:last])
    reader.finish()
    whole = read(BOOTS[name], ENGINE[name]).boots[0]
    for boot in reader.report().boots:
        _only_less(boot, whole)


def _only_less(boot: Boot, whole: Boot) -> None:
    assert boot.speculation.state in (None, "configured", whole.speculation.state)
    assert boot.speculation.state != "configured" or whole.speculation.state != "off"
    assert boot.outcome in (None, "starting", whole.outcome)
    assert not boot.failures
    assert set(boot.weights) <= set(whole.weights)
    for kept in ("version", "role"):
        assert getattr(boot, kept) in (None, getattr(whole, kept))
    for kept in ("algorithm", "num_steps", "topk", "num_draft_tokens"):
        assert getattr(boot.speculation, kept) in (None, getattr(whole.speculation, kept))
    for counted in ("samples", "accepted_tokens", "drafted_tokens"):
        shown, full = getattr(boot.speculation, counted), getattr(whole.speculation, counted)
        assert shown is None or (full is not None and shown <= full)
    length, full_length = boot.speculation.accept_length, whole.speculation.accept_length
    for figure in fields(length) if length is not None else ():
        value = getattr(length, figure.name)
        assert full_length is not None
        assert value is None or full_length.min is None or full_length.max is None or full_length.min - 1e-6 <= value <= full_length.max + 1e-6  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([("active", "off"), ("vllm-active", "vllm-off"), ("active", "vllm-off"), ("vllm-active", "off")]),
    st.lists(st.booleans(), min_size=14, max_size=14),
    st.sampled_from(("short", "json", "compose", "kubectl")),
)
def test_interleaved_servers_stay_apart(names: tuple[str, str], order: list[bool], form: str) -> None:
    engines = {ENGINE[name] for name in names}
    if len(engines) > 1:
        names = (names[0], {"sglang": "off", "vllm": "vllm-off"}[ENGINE[names[0]]])
    queues = {True: list(BOOTS[names[0]]), False: list(BOOTS[names[1]])}
    turns = [*order, *([True, False] * 20)]
    lines = [framed(queues[first].pop(0), first, form) for first in turns if queues[first]]
    report = read(lines)
    quiet = [told(boot).replace('"notices": ["overlapping-boots"]', '"notices": []') for boot in report.boots]
    assert sorted(quiet) == sorted(told(read(BOOTS[name]).boots[0]) for name in names)


def framed(line: str, first: bool, form: str) -> str:
    pid = 101 if first else 202
    if form == "short":
        return f"Oct 07 10:00:00 gpu-a python3[{pid}]: {line}"
    if form == "compose":
        return f"engine-{1 if first else 2}  | {line}"
    if form == "kubectl":
        return f"[pod/llm-{1 if first else 2}/engine] {line}"
    return json.dumps(
        {"__CURSOR": "s=1", "_PID": str(pid), "SYSLOG_IDENTIFIER": "python3", "_SYSTEMD_INVOCATION_ID": ("a" if first else "b") * 32, "MESSAGE": line}
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(BOOTS))
def test_each_boot_is_read_at_all(name: str) -> None:
    (boot,) = read(BOOTS[name]).boots
    assert read(BOOTS[name]).engine == ENGINE[name]
    wanted = {"off": "off", "vllm-off": "off", "loading": "configured"}.get(name, "active")
    assert boot.speculation.state == wanted
