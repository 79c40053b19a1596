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
    """Whether a run of the given period covers enough of the text."""
    wanted = max(period * _REPEATS, int(len(text) * _SHARE))
    run = 0
    for index in range(period, len(text)):
        run = run + 1 if text[index] == text[index - period] else 0
        if run + period >= wanted:
            return True
    return False
