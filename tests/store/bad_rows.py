"""Rows of a store that no release of this program wrote, whole by their digests, and what is said of them."""

from typing import Any

EVENTS: dict[str, tuple[str, int, Any, str]] = {
    "a-type-that-is-not-known": ("rollout-exploded", 1, {}, "its type `rollout-exploded/1` is not known"),
    "a-shape-of-later": (
        "action-started",
        99,
        {"action": "a", "attempt": 1},
        "its type `action-started/99` is not known",
    ),
    "a-field-that-is-missing": (
        "action-started",
        1,
        {"action": "a"},
        "its data do not fit `action-started/1`.*attempt",
    ),
    "a-number-in-words": ("action-started", 1, {"action": "a", "attempt": "x"}, "do not fit.*attempt"),
    "a-list-for-a-text": ("action-started", 1, {"action": [], "attempt": 1}, "do not fit.*action"),
    "nothing": ("plan-made", 1, {}, "its data do not fit `plan-made/1`"),
    "a-plan-of-text": ("plan-made", 1, {"action": "a", "attempt": 1, "plan": "x", "digest": "d"}, "do not fit.*plan"),
    "an-ending-that-is-none": (
        "rollout-concluded",
        1,
        {"action": "a", "attempt": 1, "outcome": "fine", "summary": "", "exit_code": 0},
        "do not fit.*outcome",
    ),
    "fencing-that-is-a-list": (
        "lease-taken",
        1,
        {"action": "a", "attempt": 1, "holder": "h", "until": "u", "fencing": []},
        "do not fit.*fencing",
    ),
    "a-verdict-of-maybe": (
        "judged",
        1,
        {"action": "a", "attempt": 1, "side": "new", "round": 1, "outcome": "maybe", "verdicts": [], "facts": []},
        "do not fit.*outcome",
    ),
}
"""Type, schema version and data of the second event of a rollout; the first is a right one."""

EVIDENCE = {
    "no-bytes": ("bytes = x''", "cannot be decompressed"),
    "bytes-that-are-not-compressed": ("bytes = CAST('plain text' AS BLOB)", "cannot be decompressed|it holds"),
    "half-of-them": ("bytes = substr(bytes, 1, length(bytes) / 2)", "cannot be decompressed|its content gives"),
    "a-size-that-is-not-theirs": ("size = size + 1", "it holds"),
    "a-size-of-a-petabyte": ("size = 1125899906842624", "it holds .* bytes, not 1125899906842624"),
    "a-size-below-0": ("size = -1", "it holds"),
    "another-piece": (
        "bytes = (SELECT bytes FROM evidence ORDER BY digest DESC LIMIT 1)",
        "it holds|its content gives",
    ),
}
"""What is set in a row of evidence, and what is said of it."""
