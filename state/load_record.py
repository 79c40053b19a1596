"""What one streamed request under load brought, from the lines of its answer and when each of them came."""

from collections.abc import Iterator, Sequence
from typing import Any

from state.engines.openai_chat import Chunk, chunk

TimedLine = tuple[float, str]
"""Seconds since the request was sent, and one line of the answer's body."""


def request_record(status: int, error: str, seconds: float, lines: Sequence[TimedLine], asked: int) -> dict[str, Any]:
    """Status, seconds to the end, tokens, seconds to the first token and from one token to the next.

    `error` says why the request failed, and is empty where it brought exactly the `asked` tokens: a stream that broke
    off, or told no usage, measures nothing. `inter_token_s` is (last - first) / (tokens - 1): engines send several
    tokens in one event, under speculation most of all.
    """
    chunks = list(_chunks(lines))
    spoken = [at for at, one in chunks if one.says_something]
    tokens = next((one.tokens for _, one in reversed(chunks) if one.tokens is not None), None)
    error = error or _failure(status, chunks, spoken, tokens, asked)
    between = (spoken[-1] - spoken[0]) / (tokens - 1) if spoken and tokens and tokens > 1 else None
    return {
        "status": status,
        "error": error,
        "seconds": round(seconds, 6),
        "tokens": tokens,
        "first_token_s": round(spoken[0], 6) if spoken else None,
        "inter_token_s": round(between, 7) if between is not None else None,
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


def _chunks(lines: Sequence[TimedLine]) -> Iterator[tuple[float, Chunk]]:
    return ((at, found) for at, line in lines if (found := chunk(line)) is not None)
