"""What the simulated model would say: the pieces of an answer and why it ends."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from .answers import answer
from .drafts import acceptance_of
from .launch import Launch
from .prose import degenerate, pieces_of, prose

END_OF_TEXT = ""
"""The piece that stands for the end-of-sequence token: it counts, and says nothing."""


@dataclass(frozen=True)
class Wish:
    """What a request asks of the model. `raw` is a plain continuation; otherwise `prompt` is the last user message."""

    prompt: str
    most: int
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    json_wanted: bool = False
    schema: Mapping[str, object] | None = None
    raw: bool = False
    variety: int = field(default=0)
    company: int = 0  # requests that are served already when this one comes


def compose(launch: Launch, wish: Wish) -> tuple[list[str], str]:
    """At most `wish.most` pieces, at least one, and "stop" or "length"."""
    most = max(1, wish.most)
    seed = zlib.crc32(f"{launch.settings.seed} {wish.variety} {wish.prompt}".encode())
    if acceptance_of(launch).garbage or _disturbed(launch, wish):
        return list(islice(degenerate(seed), most)), "length"
    filler = prose(seed)
    pieces = list(islice(_own_words(launch, wish, seed, filler), most))
    if wish.ignore_eos:
        return pieces + list(islice(filler, most - len(pieces))), "length"
    pieces, stopped = _until_stop(pieces, wish.stop)
    if not stopped and len(pieces) >= most:
        return pieces, "length"
    return [*pieces, END_OF_TEXT][:most] if pieces else [END_OF_TEXT], "stop"


def _disturbed(launch: Launch, wish: Wish) -> bool:
    """Whether a fault spoils what is decoded together with other requests."""
    fault = launch.faults.get("garbage-in-company")
    return fault is not None and wish.company >= fault.number("above", 1)


def _own_words(launch: Launch, wish: Wish, seed: int, filler: Iterator[str]) -> Iterator[str]:
    known = (
        None if launch.faults.has("wrong-answers") else answer(wish.prompt, wish.schema, json_wanted=wish.json_wanted)
    )
    if known is not None:
        yield from pieces_of(f" {known}" if wish.raw else known)
        return
    wanted = 60 + seed % 160
    for count, piece in enumerate(filler, start=1):
        yield piece if count > 1 or wish.raw else piece.lstrip()
        if count >= wanted and piece.endswith("."):
            return


def _until_stop(pieces: list[str], stops: tuple[str, ...]) -> tuple[list[str], bool]:
    """The pieces before the first stop string, and whether there was one."""
    text = "".join(pieces)
    places = [text.index(stop) for stop in stops if stop and stop in text]
    if not places:
        return pieces, False
    kept, left = [], min(places)
    for piece in pieces:
        if left <= 0:
            break
        kept.append(piece[:left])
        left -= len(piece)
    return kept, True
