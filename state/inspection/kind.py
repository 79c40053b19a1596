"""Telling what kind of artefact the first bytes of a file are."""

import json
import re
from collections.abc import Mapping
from typing import Any

from state.inspection.answer import is_answer
from state.inspection.engines import readings
from state.inspection.journal import ExportReader, looks_like_json
from state.inspection.kernel import looks_like_kernel
from state.inspection.openai_answer import from_stream
from state.inspection.reading import NO_EVIDENCE

KINDS = ("log", "kernel", "unit", "metrics", "server-info", "answer")
SAMPLE_BYTES = 262_144
"""How much of a file decides its kind."""

_SECTION = re.compile(rb"^\s*\[(?:Unit|Service|Install)\]\s*$", re.MULTILINE)
_DIRECTIVE = re.compile(rb"^\s*[A-Z][A-Za-z]+=", re.MULTILINE)
_EVENT = re.compile(rb"(?:data|event|id|retry)?:")
_HTTP = re.compile(rb"(?:HTTP/\d(?:\.\d)? \d{3}[^\r\n]{0,200}\r?\n(?:[\w-]{1,100}:[^\r\n]{0,8000}\r?\n){0,100}\r?\n)+")
_METRIC = re.compile(
    rb"^(?:# (?:HELP|TYPE) [a-zA-Z_:]\w*|[a-zA-Z_]\w*:[\w:]+(?:\{[^\n]*\})? [0-9.eE+NaInf-]+\s*$)", re.MULTILINE
)


def kind_of(sample: bytes) -> str:
    """The kind of an artefact by its first bytes; `log` where nothing else fits."""
    sample = body_of(sample)
    head = sample.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] in (b"{", b"[") and not looks_like_json(head.split(b"\n", 1)[0]):
        kind = _of_json(head)
        if kind is not None:
            return kind
    if _EVENT.match(head) and from_stream(sample.decode("utf-8", "replace")) is not None:
        return "answer"
    if _SECTION.search(sample) and _DIRECTIVE.search(sample):
        return "unit"
    lines = sample.splitlines()[:2000]
    if _METRIC.search(sample) and sum(_METRIC.match(line) is not None for line in lines) * 2 > len(
        [x for x in lines if x]
    ):
        return "metrics"
    return _log_or_kernel(lines)


def body_of(data: bytes) -> bytes:
    """What follows the status line and headers of an HTTP answer, as `curl -i` shows them; else all of it."""
    headers = _HTTP.match(data)
    return data[headers.end() :] if headers else data


def _of_json(head: bytes) -> str | None:
    data = parse_json(head)
    if isinstance(data, Mapping):
        return "answer" if is_answer(data) else "server-info"
    if any(mark in head for mark in (b'"meta_info"', b'"choices"')):
        return "answer"
    return (
        "server-info" if any(mark in head for mark in (b'"internal_states"', b'"tp_size"', b'"vllm_config"')) else None
    )


def parse_json(text: bytes) -> Mapping[str, Any] | None:
    """A JSON object; a list of answers becomes `{"answers": [...]}`; None for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(data, list) and data and all(isinstance(item, Mapping) for item in data):
        return {"answers": data, "meta_info": data[0].get("meta_info")}
    return data if isinstance(data, Mapping) else None


def _log_or_kernel(lines: list[bytes]) -> str:
    if any(_of_engine(line) for line in lines) or (lines and ExportReader.recognises(lines[0])):
        return "log" if not lines or b"_TRANSPORT=kernel" not in b"\n".join(lines[:60]) else "kernel"
    if lines and looks_like_json(lines[0]):
        return "kernel" if all(b'"kernel"' in line for line in lines if line.strip()) else "log"
    return (
        "kernel" if any(looks_like_kernel(line) for line in lines) and not any(_of_systemd(x) for x in lines) else "log"
    )


def _of_engine(line: bytes) -> bool:
    return any(reading.evidence(line) > NO_EVIDENCE for reading in readings()) and not looks_like_kernel(line)


def _of_systemd(line: bytes) -> bool:
    return b".service: " in line
