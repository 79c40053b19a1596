"""Whether a text is degenerate: the same words again and again, or one character for ever."""

ENOUGH_CHARS = 48
"""Characters below which nothing can be said."""
_LONGEST_PERIOD = 240
_SHARE = 0.5
_REPEATS = 4


def is_degenerate(text: str) -> bool | None:
    """True if at least half of the text is one piece repeated four times or more; None for too little text."""
    if len(text.strip()) < ENOUGH_CHARS:
        return None
    tail = text[-4_000:].rstrip()
    if not any(char.isalnum() for char in tail):
        return True
    return any(_loops(tail, period) for period in range(1, min(_LONGEST_PERIOD, len(tail) // _REPEATS) + 1))


def _loops(text: str, period: int) -> bool:
    """Whether a run of the given period covers enough of the text.

    Such a run is `needed` comparisons long, so it holds one of the places that are multiples of `needed`: only those
    are looked at, each to both sides as far as it goes.
    """
    needed = max(period * _REPEATS, int(len(text) * _SHARE)) - period
    return any(_run(text, period, place) >= needed for place in range(period, len(text), needed))


def _run(text: str, period: int, place: int) -> int:
    """How many characters in a row, `place` among them, equal the one a period before."""
    end = place
    while end < len(text) and text[end] == text[end - period]:
        end += 1
    start = place
    while start > period and text[start - 1] == text[start - 1 - period]:
        start -= 1
    return end - start if end > place else 0
