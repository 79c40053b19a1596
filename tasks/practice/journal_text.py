"""Journal records as journalctl prints them (systemd 252)."""

import json
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime

from tasks.practice.journal import Record

_THRESHOLD = 4096
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
Form = Callable[[Record, bool], bytes]
"""Takes a record and whether `--all` was given; ends with a newline."""


def as_json(record: Record, everything: bool) -> bytes:
    """Without `--all` a field of 4096 bytes or more is null; what is not printable text is a list of bytes."""
    shown: dict[str, object] = _addresses(record)
    for name, value in record.fields.items():
        if not everything and len(name) + 1 + len(value) >= _THRESHOLD:
            shown[name] = None
        else:
            shown[name] = value.decode() if is_printable(value) else list(value)
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def as_export(record: Record, everything: bool) -> bytes:
    out = b"".join(f"{name}={value}\n".encode() for name, value in _addresses(record).items())
    for name, value in record.fields.items():
        if is_printable(value) and b"\n" not in value:
            out += name.encode() + b"=" + value + b"\n"
        else:
            out += name.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n"
    return out + b"\n"


def as_cat(record: Record, everything: bool) -> bytes:
    return record.fields.get("MESSAGE", b"") + b"\n"


def as_short_iso(record: Record, everything: bool) -> bytes:
    return _line(record, _utc(record).strftime("%Y-%m-%dT%H:%M:%S%z"), everything)


def as_short(record: Record, everything: bool) -> bytes:
    return _line(record, _utc(record).strftime("%b %d %H:%M:%S"), everything)


FORMS: dict[str, Form] = {
    "json": as_json,
    "export": as_export,
    "cat": as_cat,
    "short-iso": as_short_iso,
    "short": as_short,
}


def is_printable(value: bytes) -> bool:
    """systemd's `utf8_is_printable`: UTF-8 without control characters, new lines and tabs apart."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(text) is None


def _addresses(record: Record) -> dict[str, object]:
    return {
        "__CURSOR": record.cursor,
        "__REALTIME_TIMESTAMP": str(record.realtime_us),
        "__MONOTONIC_TIMESTAMP": str(record.monotonic_us),
        "_BOOT_ID": record.boot_id,
    }


def _utc(record: Record) -> datetime:
    return datetime.fromtimestamp(record.realtime_us // 1_000_000, UTC)


def _line(record: Record, when: str, everything: bool) -> bytes:
    message = record.fields.get("MESSAGE", b"")
    pid = record.text("_PID")
    who = record.text("SYSLOG_IDENTIFIER") + (f"[{pid}]" if pid else "")
    head = f"{when} {record.text('_HOSTNAME')} {who}: ".encode()
    if not everything and not is_printable(message):
        return head + f"[{_size(len(message))} blob data]\n".encode()
    indent = b"\n" + b" " * len(head)
    return head + message.replace(b"\n", indent) + b"\n"


def _size(count: int) -> str:
    return f"{count}B" if count < 1024 else f"{count / 1024:.1f}K"
