"""Questions with answers that can be checked by rule, and what degenerate text looks like."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

from state.inspection.degenerate import is_degenerate


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt, and a pattern (RE2's syntax, ignoring case) that a right answer contains."""

    prompt: str
    pattern: str

    def right(self, answer: str) -> bool:
        return matcher(self.pattern).search(answer) is not None


@cache
def matcher(pattern: str) -> Any:
    """The compiled pattern, by RE2: a pattern comes from a manifest, an answer from a model, and RE2 takes time in
    proportion to the answer whatever the pattern is. Raises re2.error for what is no pattern to it."""
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    return re2.compile(pattern, options)


QUESTIONS = (
    Question("What is 17 + 25? Answer with the number only.", r"\b42\b"),
    Question("What is the capital of France? Answer with one word.", r"\bParis\b"),
    Question("What is 9 * 8? Answer with the number only.", r"\b72\b"),
    Question("Which planet is called the red planet? Answer with one word.", r"\bMars\b"),
    Question("Repeat exactly this word: interlock", r"\binterlock\b"),
    Question("What is 100 - 37? Answer with the number only.", r"\b63\b"),
    Question("What is the chemical formula of water? Answer with the formula only.", r"\bH_?(2|₂)O\b"),
    Question("How many days does a week have? Answer with the number only.", r"\b(7|seven)\b"),
)

LONG_PROMPTS = (
    "Describe how a railway interlocking keeps trains apart.",
    "Explain how a refrigerator works, step by step.",
    "Tell the story of a lighthouse keeper on a stormy night.",
    "Explain the difference between a process and a thread.",
    "Describe how bread is made, from the field to the table.",
    "Explain why the sky is blue and sunsets are red.",
)

SPECIAL = re.compile(r"<[|｜][\w▁-]+[|｜]>|<unk>|\[PAD\]|<s>|</s>|\ufffd{2,}")
"""Qwen's and Llama's (`<|im_end|>`), Cohere's (in capitals), DeepSeek's (in wide bars), and undecodable bytes."""


def degenerate(text: str, prompt: str = "") -> bool | None:
    """True for repetition, leaked special tokens, one character over and over, scripts that the prompt gives no reason
    for; None for text too short to tell."""
    if SPECIAL.search(text) or (prompt and foreign(text, prompt)):
        return True
    stripped = text.strip()
    if len(stripped) < 40:
        return True if len(stripped) >= 8 and len(set(stripped)) <= 2 else None
    return is_degenerate(stripped) is True or _repeats(stripped.split()) or _one_sign(stripped)


ENOUGH_LETTERS = 20
FOREIGN_SHARE = 0.2


def foreign(text: str, prompt: str) -> bool:
    """Whether more than a fifth of the letters are of scripts that neither the prompt nor formulas use: word salad
    mixes scripts (seen with speculation that corrupts state)."""
    known = {"LATIN", "GREEK", *map(_script, filter(str.isalpha, prompt))}
    letters = [_script(char) for char in text if char.isalpha()]
    strange = sum(script not in known for script in letters)
    return len(letters) >= ENOUGH_LETTERS and strange > FOREIGN_SHARE * len(letters)


def _script(letter: str) -> str:
    """The first word of the letter's Unicode name: LATIN, CYRILLIC, CJK, HANGUL, HIRAGANA, ..."""
    return unicodedata.name(letter, "UNKNOWN").partition(" ")[0]


def _repeats(words: list[str]) -> bool:
    """Whether a run of words stands again and again: four words in a row cover more than a third of the text."""
    if len(words) < 12:
        return False
    runs: dict[tuple[str, ...], int] = {}
    for i in range(len(words) - 3):
        run = tuple(words[i : i + 4])
        runs[run] = runs.get(run, 0) + 1
    most = max(runs.values())
    return most >= 4 and most * 4 > len(words) / 3


def _one_sign(text: str) -> bool:
    """Whether one sign that is no space makes up more than half of the text (`!!!!!!`, `0000`)."""
    signs = [c for c in text if not c.isspace()]
    return max(signs.count(c) for c in set(signs)) * 2 > len(signs)
