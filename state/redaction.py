"""Secrets leave every artefact here, before it is stored and before it is printed."""

import re

REDACTED = "<redacted>"

_KEY = r"(?:[\w-]*(?:api[_-]?key|token(?!s\b|iz|_)|secret|passw(?:or)?d|credential)[\w-]*)"
_RULES = (
    # --api-key VALUE, --api-key=VALUE, also with NUL between the words (/proc/PID/cmdline)
    re.compile(rf"(?P<keep>--(?:admin-)?api-key(?:=|[ \t\x00]+|['\"],\s*['\"]))(?P<secret>[^\s\x00'\",]+)"),
    # api_key='VALUE' in a repr, 'api_key': 'VALUE' in a dict, "api_key": "VALUE" in JSON
    re.compile(r"(?P<keep>(?:admin_)?api_key['\"]?\s*[=:]\s*['\"])(?P<secret>[^'\"]+)"),
    re.compile(r"(?P<keep>Authorization['\"]?\s*[:=]\s*['\"]?\s*(?:Bearer|Basic)\s+)(?P<secret>[^\s'\",]+)", re.I),
    re.compile(rf"(?P<keep>\b{_KEY}=)(?P<secret>[^\s\x00'\"]+)", re.I),
    re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]*://[^\s/:@]+:)(?P<secret>[^\s/@]+)(?=@)", re.I),
)


def redact(text: str) -> str:
    """`text` with the value of every known kind of secret replaced by `<redacted>`."""
    for rule in _RULES:
        text = rule.sub(lambda m: m["keep"] + REDACTED if m["secret"] not in ("None", REDACTED) else m[0], text)
    return text


def redact_bytes(data: bytes) -> bytes:
    """The same for bytes; what is no UTF-8 is kept as it is."""
    return redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
