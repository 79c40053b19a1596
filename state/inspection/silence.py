"""Telling quickly that a line says nothing: none of the words stands in it that every line with a meaning has.

A journal is full of lines of other programs that hardly ever repeat. Looking for a hundred words in each of them costs
more than all the rest, so a line is taken apart into its own words, and those are remembered.
"""

import re
from collections.abc import Iterable

_LETTERS = bytes(byte if 97 <= byte <= 122 else 32 for byte in range(256))
_RUN = re.compile(rb"[a-z]+")
_MESSAGE = re.compile(rb'"MESSAGE" ?: ?"((?:[^"\\]++|\\["nt])*+)"[,}]')
_LONGEST = 4096
"""Bytes of a line that is taken apart; a longer one is always read."""
_LONGEST_WORD = 32
_MOST_WORDS = 1 << 16


def message_of(line: bytes) -> bytes | None:
    """The message inside a whole journal record as JSON, if its text stands there as it is."""
    found = _MESSAGE.search(line)
    return found[1] if found is not None and line.rstrip(b"\r").endswith(b"}") else None


class Silence:
    """Knows the words of which a line with a meaning has one, in any case of letters."""

    def __init__(self, words: Iterable[bytes]) -> None:
        lowered = {word.lower() for word in words}
        self._bare = tuple(sorted(word for word in lowered if _RUN.search(word) is None))
        self._words = tuple(sorted((max(_RUN.findall(word), key=len), word) for word in lowered if _RUN.search(word)))
        self._known: dict[bytes, tuple[bytes, ...]] = {}

    def of(self, line: bytes) -> bool:
        """Whether the line has none of the words; False where it is not worth the trouble."""
        if len(line) > _LONGEST or b"\x1b" in line:
            return False
        text = line.lower()
        known = self._known
        suspects: set[bytes] = set()
        for word in text.translate(_LETTERS).split():
            if (of_word := known.get(word)) is None:
                of_word = self._learn(word)
            if of_word:
                suspects.update(of_word)
        return not any(word in text for word in suspects) and not any(word in text for word in self._bare)

    def _learn(self, word: bytes) -> tuple[bytes, ...]:
        """The words that a line with this one in it may have."""
        if len(self._known) >= _MOST_WORDS:
            self._known.clear()
        found = tuple(whole for run, whole in self._words if run in word)
        if len(word) <= _LONGEST_WORD:
            self._known[word] = found
        return found
