"""Text that reads like an answer, without end and without repeating itself soon; and text that does repeat itself."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

_SUBJECTS = (
    "The scheduler", "A careful operator", "This approach", "The older design", "A small change", "The network",
    "Each request", "The second experiment", "Our measurement", "A longer prompt", "The cache",
    "One of the authors", "The morning report", "A cold start", "The river", "Every good bridge", "The library",
    "An honest benchmark", "The garden", "The first draft",
)  # fmt: skip
_VERBS = (
    "explains", "depends on", "improves", "slows down", "reminds us of", "leads to", "was built around",
    "avoids", "reveals", "is limited by", "makes room for", "follows", "compares well with", "hides",
    "replaces", "supports", "rarely needs",
)  # fmt: skip
_OBJECTS = (
    "the amount of free memory", "a simple rule", "the way people read", "several smaller steps",
    "the cost of waiting", "an older idea", "the shape of the data", "a quiet afternoon", "the next release",
    "a shared queue", "good weather", "the length of the answer", "a better question", "the slowest part",
    "two different views", "the work of many hands", "a well kept record", "the edge of the map",
    "a steady supply of power", "the habits of its users",
)  # fmt: skip
_TAILS = (
    "", "", ", although few notice it", " in most cases", ", and that is worth knowing",
    " when the load is high", " after a while", ", as the table shows", " without further help",
    ", at least in theory", " during the night", ", which surprised everyone", " for a good reason",
    " once the doors are closed",
)  # fmt: skip
_LINKS = ("", "", "", "However, ", "In addition, ", "For example, ", "By contrast, ", "Later on, ", "As a result, ")
_PIECES = re.compile(r"\s?\w+|\s?[^\w\s]+|\s+")


def pieces_of(text: str) -> list[str]:
    """`text` cut into what stands for tokens: words with their leading space, and punctuation."""
    return _PIECES.findall(text)


def prose(seed: int) -> Iterator[str]:
    """Pieces of plausible English for ever; the same seed gives the same text."""
    chance = random.Random(seed)
    while True:
        link, subject = chance.choice(_LINKS), chance.choice(_SUBJECTS)
        start = link + (subject[0].lower() + subject[1:] if link else subject)
        sentence = f" {start} {chance.choice(_VERBS)} {chance.choice(_OBJECTS)}{chance.choice(_TAILS)}."
        yield from pieces_of(sentence)


def degenerate(seed: int) -> Iterator[str]:
    """Pieces of a text that a broken draft or cache makes: a few of them over and over."""
    chance = random.Random(seed)
    loop = [" the", *chance.sample([" is", "!", " of", "0", " and", " a"], 2)]
    while True:
        yield from loop
