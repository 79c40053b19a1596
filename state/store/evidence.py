"""What happens to raw evidence on its way in and out: redaction, its digest, compression."""

from dataclasses import dataclass

import zstandard

from state.canonical import sha256_hex
from state.errors import EvidenceCorrupt
from state.redaction import redact_bytes
from state.store.port import EvidenceRef

_TEXT = frozenset({"application/json", "application/x-journal"})
_LEVEL = 3


@dataclass(frozen=True, slots=True)
class Packed:
    """Evidence ready to be stored: `zstd` holds the compressed bytes that `ref` names."""

    ref: EvidenceRef
    zstd: bytes


def redacted(data: bytes, media_type: str) -> bytes:
    """`data` without secrets where `media_type` is a kind of text (its parameters are ignored), else as it is."""
    kind = media_type.partition(";")[0].strip().lower()
    return redact_bytes(data) if kind.startswith("text/") or kind in _TEXT else data


def pack(data: bytes, media_type: str) -> Packed:
    """Redact, name by SHA-256, compress."""
    kept = redacted(data, media_type)
    ref = EvidenceRef(sha256_hex(kept), media_type, len(kept))
    return Packed(ref, zstandard.ZstdCompressor(level=_LEVEL).compress(kept))


def unpack(digest: str, zstd: bytes, size: int) -> bytes:
    """The bytes that `digest` names; raises EvidenceCorrupt if what is stored is not them."""
    try:
        stated = zstandard.frame_content_size(zstd)
        if stated != size:  # read before any memory is given to it
            raise EvidenceCorrupt(digest, f"it holds {stated} bytes, not {size}")
        kept = zstandard.ZstdDecompressor().decompress(zstd) if size else b""
    except zstandard.ZstdError as error:
        raise EvidenceCorrupt(digest, f"it cannot be decompressed: {error}") from error
    if (actual := sha256_hex(kept)) != digest:
        raise EvidenceCorrupt(digest, f"its content gives {actual[:12]}")
    return kept
