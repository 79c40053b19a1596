"""One byte representation for every value that is named by its digest."""

import hashlib
import json
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> bytes:
    """UTF-8 JSON with sorted keys and no spaces. Raises ValueError for NaN and infinity, TypeError for other types."""
    return _ENCODER.encode(value).encode()


def sha256_hex(data: bytes) -> str:
    """64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """SHA-256 of the canonical JSON of `value`."""
    return sha256_hex(canonical_json(value))
