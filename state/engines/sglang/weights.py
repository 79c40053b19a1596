"""SGLang's lines about weights: a rank's second load is the draft, or one whose class says so (0.4.6 to 0.5.23)."""

import re
from collections.abc import Iterator

from state.inspection.events import Event, WeightsBegun, WeightsLoaded

_CLASS = re.compile(r"\btype=(\w+)")
_SIZE = re.compile(r"mem usage=(-?\d+(?:\.\d+)?) ?GB")
_DRAFT = re.compile(r"(?:MTP|NextN|Eagle3?|DFlash\w*|DSpark\w*)$|DraftModel$|MTP")


def read_weights(text: str, ranks: str) -> Iterator[Event]:
    """`Load weight begin. …` and `Load weight end. …, type=Class, …, mem usage=1.62 GB.` of one rank."""
    if text.startswith("Load weight begin"):
        yield WeightsBegun(ranks)
    found = _CLASS.search(text) if text.startswith("Load weight end") else None
    if found:
        size = _SIZE.search(text)
        gb = float(size[1]) if size and not size[1].startswith("-") else None
        yield WeightsLoaded(found[1], ranks, gb, draft=_DRAFT.search(found[1]) is not None)
