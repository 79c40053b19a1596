"""Decoding `journalctl -o json` and `-o export`, and Docker's json-file logs, one record at a time."""

import json
from collections.abc import Mapping
from typing import Any

from state.inspection.transport import JournalRecord, read_prefix

_EXPORT_KEYS = ("__CURSOR", "__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP", "__SEQNUM")
_LONGEST_FIELD = 16 << 20
"""Bytes of one binary field that are kept; journald itself splits messages at 48 KiB."""


def looks_like_json(line: bytes) -> bool:
    """Whether the line is a record as JSON: an object with journald's own field names, or with Docker's."""
    return line[:1] == b"{" and (
        b'"MESSAGE"' in line
        or b'"__REALTIME_TIMESTAMP"' in line
        or b'"__CURSOR"' in line
        or (line.startswith(b'{"log":') and b'"stream":' in line)
    )


def read_json(line: bytes) -> JournalRecord | None:
    """The record of one line; None where the line is cut or is something else."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(fields, dict) and isinstance(fields.get("log"), str) and "stream" in fields:
        return _of_docker(fields)
    if not isinstance(fields, dict) or not fields.keys() & {"MESSAGE", "__CURSOR", "__REALTIME_TIMESTAMP"}:
        return None
    return record_of(fields)


def _of_docker(fields: Mapping[str, Any]) -> JournalRecord:
    """A record of Docker's json-file driver: `{"log": "text\\n", "stream": "stderr", "time": "2026-…Z"}`."""
    time = read_prefix(f"{fields.get('time', '')} ".encode("utf-8", "replace")).time
    words = fields["log"].removesuffix("\n").encode("utf-8", "surrogatepass")
    return JournalRecord(message=words, realtime_us=None if time is None else int(time * 1e6))


def record_of(fields: Mapping[str, Any]) -> JournalRecord:
    """A record from its fields. systemd's own records speak of `UNIT` and `INVOCATION_ID`, not of themselves."""
    about_unit = _text(fields, "UNIT") or _text(fields, "USER_UNIT")
    pid = _text(fields, "_PID") or _text(fields, "SYSLOG_PID")
    realtime = _text(fields, "__REALTIME_TIMESTAMP")
    kernel = _text(fields, "_TRANSPORT") == "kernel"
    invocation = _text(fields, "INVOCATION_ID") or _text(fields, "USER_INVOCATION_ID")
    return JournalRecord(
        message=_bytes(fields.get("MESSAGE")),
        pid=int(pid) if pid and pid.isdigit() and not kernel else None,
        invocation=invocation or (None if about_unit else _text(fields, "_SYSTEMD_INVOCATION_ID")),
        unit=about_unit or _text(fields, "_SYSTEMD_USER_UNIT") or _text(fields, "_SYSTEMD_UNIT"),
        realtime_us=int(realtime) if realtime and realtime.isdigit() else None,
        ident="kernel" if kernel else _text(fields, "SYSLOG_IDENTIFIER") or _text(fields, "_COMM") or "",
        cursor=_text(fields, "__CURSOR"),
    )


def _bytes(value: Any) -> bytes | None:
    """A field as bytes: text, an array of byte values, or the first of several values."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    if isinstance(value, list) and value:
        if all(isinstance(item, int) and 0 <= item < 256 for item in value):
            return bytes(value)
        return _bytes(value[0])
    return None


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = _bytes(fields.get(name))
    return value.decode("utf-8", "replace") if value else None


class ExportReader:
    """Takes raw lines of the export format and gives a record at each empty line.

    `KEY=value`, or `KEY`, a newline, a 64-bit little-endian length, that many bytes and a newline.
    """

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._name = ""
        self._binary = bytearray()
        self._wanted: int | None = None

    @staticmethod
    def recognises(line: bytes) -> bool:
        return line.split(b"=", 1)[0].decode("ascii", "replace") in _EXPORT_KEYS

    def feed(self, line: bytes) -> JournalRecord | None:
        """`line` is raw, with its newline if it had one."""
        if self._name:
            self._take_binary(line)
            return None
        body = line[:-1] if line.endswith(b"\n") else line
        if not body:
            return self.flush()
        name, equals, value = body.partition(b"=")
        if equals:
            self._fields.setdefault(name.decode("ascii", "replace"), value)
        else:
            self._name = name.decode("ascii", "replace")
        return None

    def flush(self) -> JournalRecord | None:
        """The record that has been collected so far, if any."""
        fields, self._fields = self._fields, {}
        self._name, self._wanted = "", None
        self._binary.clear()
        return record_of(fields) if fields else None

    def _take_binary(self, line: bytes) -> None:
        self._binary += line
        if self._wanted is None and len(self._binary) >= 8:
            self._wanted = min(int.from_bytes(self._binary[:8], "little"), _LONGEST_FIELD)
        if self._wanted is not None and len(self._binary) > self._wanted + 8:
            self._fields.setdefault(self._name, bytes(self._binary[8 : 8 + self._wanted]))
            self._name, self._wanted = "", None
            self._binary.clear()
