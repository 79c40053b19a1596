"""What every EvidenceStore promises, checked of each of them."""

import asyncio
from hashlib import sha256

import pytest

from state.errors import NotFound
from state.store.port import EvidenceRef, EvidenceStore

SECRET = b'argv: --api-key s3cret --port 30000\n{"api_key": "s3cret"}\n'


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"line\n" * 200_000, id="a-megabyte-that-repeats"),
        pytest.param(bytes(range(256)) * 3, id="every-byte"),
    ],
)
async def test_bytes_come_back_by_their_digest(evidence_store: EvidenceStore, data: bytes) -> None:
    ref = await evidence_store.put(data, "application/octet-stream")
    assert ref == EvidenceRef(sha256(data).hexdigest(), "application/octet-stream", len(data))
    assert await evidence_store.get(ref.digest) == data


@pytest.mark.parametrize(
    "media_type", ["text/plain", "text/plain; charset=utf-8", "TEXT/X-LOG", "application/json", "application/x-journal"]
)
async def test_secrets_leave_text_before_it_is_named_and_stored(evidence_store: EvidenceStore, media_type: str) -> None:
    ref = await evidence_store.put(SECRET, media_type)
    kept = await evidence_store.get(ref.digest)
    assert b"s3cret" not in kept
    assert (ref.digest, ref.size) == (sha256(kept).hexdigest(), len(kept))


async def test_bytes_that_are_no_text_are_kept_as_they_are(evidence_store: EvidenceStore) -> None:
    ref = await evidence_store.put(SECRET, "application/gzip")
    assert await evidence_store.get(ref.digest) == SECRET


async def test_text_that_is_no_utf8_is_redacted_and_otherwise_kept(evidence_store: EvidenceStore) -> None:
    ref = await evidence_store.put(b"\xff\xfe --api-key s3cret \x80", "text/plain")
    assert await evidence_store.get(ref.digest) == b"\xff\xfe --api-key <redacted> \x80"


async def test_the_same_bytes_may_be_put_any_number_of_times(evidence_store: EvidenceStore) -> None:
    refs = await asyncio.gather(*(evidence_store.put(b"the same", "text/plain") for _ in range(6)))
    assert len(set(refs)) == 1
    assert await evidence_store.get(refs[0].digest) == b"the same"


async def test_unknown_evidence_is_not_found(evidence_store: EvidenceStore) -> None:
    with pytest.raises(NotFound, match="no evidence `aaaa"):
        await evidence_store.get("a" * 64)
