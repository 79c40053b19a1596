"""What one streamed request under load brought, from the lines of its answer and when each of them came."""

from collections.abc import Iterator, Sequence
from typing import Any

from state.engines.openai_chat import Chunk, chunk
from state.smoke import degenerate

TimedLine = tuple[float, str]
"""Seconds since the request was sent, and one line of the answer's body."""

JUDGED_CHARS = 600
"""Characters of an answer that are judged: the request ignores the end of the text (`ignore_eos`), and past it a sound
model may repeat itself too. A model that is asked to explain something writes so much before it ends."""

LEAST_BYTES = 0.5
"""Bytes of UTF-8 for each token told. A token is a byte at least, and about four in English; special tokens are printed
as no text, and under `ignore_eos` there may be many."""

LEAST_BETWEEN_S = 20e-6
"""Seconds from one token of a request to the next: the fastest accelerators take more than ten times as long. What is
quicker was sent at once, by the engine or by a proxy that keeps the stream back, and tells no pace."""

AT_ONCE = 16
"""Tokens that may well come in one event, under speculation or with an interval between events."""


def request_record(
    status: int, error: str, seconds: float, lines: Sequence[TimedLine], asked: int, prompt: str = ""
) -> dict[str, Any]:
    """Status, seconds to the end, tokens, seconds to the first token and from one token to the next, and whether the
    text is degenerate (None: too little to tell); a degenerate one is shown.

    `error` says why the request failed, and is empty where it brought exactly the `asked` tokens: a stream that broke
    off, told no usage, or told tokens that it cannot have sent, measures nothing. `inter_token_s` is (last - first) /
    (tokens - 1): engines send several tokens in one event, under speculation most of all.
    """
    chunks = list(_chunks(lines))
    spoken = [at for at, one in chunks if one.says_something]
    tokens = next((one.tokens for _, one in reversed(chunks) if one.tokens is not None), None)
    between = (spoken[-1] - spoken[0]) / (tokens - 1) if spoken and tokens and tokens > 1 else None
    error = error or _failure(status, chunks, spoken, tokens, asked) or _implausible(chunks, tokens or 0, between)
    text = "".join(one.text for _, one in chunks)[:JUDGED_CHARS]
    bad = degenerate(text, prompt) if status == 200 else None
    return {
        "status": status,
        "error": error,
        "seconds": round(seconds, 6),
        "tokens": tokens,
        "first_token_s": round(spoken[0], 6) if spoken else None,
        "inter_token_s": round(between, 7) if between is not None else None,
        "degenerate": bad,
        **({"shown": text.strip()[:200]} if bad else {}),
    }


def _failure(
    status: int, chunks: Sequence[tuple[float, Chunk]], spoken: Sequence[float], tokens: int | None, asked: int
) -> str:
    if status != 200:
        return f"HTTP {status}"
    if not any(one.done for _, one in chunks):
        return "the stream broke off"
    if tokens is None:
        return "the stream told no usage"
    if not spoken:
        return "the stream brought no text"
    return "" if tokens == asked else f"{tokens} tokens, {asked} were asked for"


def _implausible(chunks: Sequence[tuple[float, Chunk]], tokens: int, between: float | None) -> str:
    """Why the tokens told cannot be those that were sent; empty if they can. The usage is the engine's word only."""
    sent = sum(_bytes(one) for _, one in chunks)
    if sent < LEAST_BYTES * tokens:
        return f"it told {tokens} tokens and sent {sent} bytes of text"
    if tokens > AT_ONCE and between is not None and between < LEAST_BETWEEN_S:
        return f"it told {tokens} tokens and sent them all at once"
    return ""


def _bytes(one: Chunk) -> int:
    said = one.text + "".join(name + arguments for _, name, arguments in one.calls)
    return len(said.encode("utf-8", "replace"))


def _chunks(lines: Sequence[TimedLine]) -> Iterator[tuple[float, Chunk]]:
    return ((at, found) for at, line in lines if (found := chunk(line)) is not None)
