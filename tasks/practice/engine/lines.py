"""The engine's log lines, as text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from .versions import Version


def stamped(text: str, now: float, rank: str = "") -> str:
    """`text` behind the engine's prefix: local time without a zone, then any rank. `now` is in epoch seconds."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return f"[{moment}{' ' + rank if rank else ''}] {text}"


def server_args(arguments: Mapping[str, object], version: Version) -> str:
    if version.arguments_are_a_dict:
        return f"server_args={dict(arguments)!r}"
    return "server_args=ServerArgs(" + ", ".join(f"{name}={value!r}" for name, value in arguments.items()) + ")"


def usage_fields(
    *, decode: bool, hybrid: bool, tokens: int, token_usage: float, mamba: int, mamba_usage: float
) -> list[str]:
    """The usage part of a batch line, which depends on the family of the model's cache."""
    if not hybrid:
        return [f"#token: {tokens}"] * decode + [f"token usage: {token_usage:.2f}"]
    fields = [f"#full token: {tokens}"] * decode + [f"full token usage: {token_usage:.2f}"]
    return fields + [f"mamba num: {mamba}"] * decode + [f"mamba usage: {mamba_usage:.2f}"]


def prefill_batch(
    version: Version,
    usage: Sequence[str],
    *,
    sequences: int,
    new: int,
    cached: int,
    running: int,
    queued: int,
    throughput: float,
) -> str:
    fields = [f"#new-seq: {sequences}", f"#new-token: {new}", f"#cached-token: {cached}", *usage]
    fields += [f"#running-req: {running}", f"#queue-req: {queued}"]
    if version >= (0, 5, 11):
        fields.append("#pending-token: 0")
    tail = ["cuda graph: False", f"input throughput (token/s): {throughput:.2f}"]
    if version >= (0, 5, 9):
        fields += tail if version >= (0, 5, 10) else tail[::-1]
    return _batch("Prefill", version, fields)


def decode_batch(
    version: Version,
    usage: Sequence[str],
    *,
    running: int,
    acceptance: tuple[float, float] | None,
    graph: bool,
    throughput: float,
    queued: int,
) -> str:
    """`acceptance` is (accept len, accept rate), None where speculation is off."""
    fields = [f"#running-req: {running}", *usage]
    if acceptance is not None:
        fields += [f"accept len: {acceptance[0]:.2f}", f"accept rate: {acceptance[1]:.2f}"]
    fields += [f"cuda graph: {graph}", f"gen throughput (token/s): {throughput:.2f}", f"#queue-req: {queued}"]
    return _batch("Decode", version, fields)


def unknown_shape(*, running: int, acceptance: tuple[float, float] | None) -> str:
    """A decode record as no release writes it."""
    told = f" mtp={acceptance[0]:.2f}/{acceptance[1]:.2f}" if acceptance is not None else ""
    return f"step done n={running}{told}"


def _batch(kind: str, version: Version, fields: Sequence[str]) -> str:
    separator = ", " if version >= (0, 5, 4) else ". "
    end = "" if version >= (0, 5, 9) else ", "
    return f"{kind} batch{separator}{', '.join(fields)}{end}"


def weights_end(version: Version, *, kind: str, elapsed: float, available: float, used: float) -> str:
    dtype = "dtype=torch.bfloat16, " if version < (0, 5, 10) else ""
    memory = f"avail mem={available:.2f} GB, mem usage={used:.2f} GB."
    return f"Load weight end. elapsed={elapsed:.2f} s, type={kind}, {dtype}{memory}"


def _old_graph_name(name: str) -> str:
    """Before 0.5.14 the target's graphs had no name, and "draft decode" was "draft"."""
    return "cuda graph" if name.startswith("target") else f"{name.replace(' decode', '')} cuda graph"


def graph_begin(version: Version, name: str, *, tokens: int, sizes: Sequence[int], available: float) -> str:
    memory = f"avail mem={available:.2f} GB"
    if not version.new_graph_lines:
        return f"Capture {_old_graph_name(name)} begin. This can take up to several minutes. {memory}"
    at_begin = f"bs={list(sizes)}, " if version < (0, 5, 18) else ""
    return f"Capture {name} CUDA graph begin. backend=full, num_tokens_per_req={tokens}, {at_begin}{memory}"


def graph_end(
    version: Version, name: str, *, elapsed: float, used: float, available: float, sizes: Sequence[int]
) -> str:
    if not version.new_graph_lines:
        times = f"Time elapsed: {elapsed:.2f} s. mem usage={used:.2f} GB. avail mem={available:.2f} GB."
        return f"Capture {_old_graph_name(name)} end. {times}"
    at_end = "" if version < (0, 5, 18) else f"bs={list(sizes)}, "
    memory = f"mem usage={used:.2f} GB, avail mem={available:.2f} GB."
    return f"Capture {name} CUDA graph end. {at_end}elapsed={elapsed:.2f} s, {memory}"
