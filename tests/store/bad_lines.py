"""Lines that are not an export, as a change of the lines of one, and what is said of them."""

import json
from collections.abc import Callable, Sequence

Change = Callable[[list[str]], Sequence[str]]


def changed(at: int, **fields: object) -> Change:
    """Line `at` with other fields; -1 is its last piece of evidence."""
    return lambda lines: [*lines[: at % len(lines)], json.dumps({**json.loads(lines[at]), **fields})]


def without(field: str) -> Change:
    return lambda lines: [json.dumps({k: v for k, v in json.loads(lines[0]).items() if k != field}), *lines[1:]]


SHAPE = "Line 1 lacks a field, has one too many, or one of another type"
LINES: dict[str, tuple[Change, str]] = {
    "a-byte-order-mark": (lambda lines: [f"\ufeff{lines[0]}", *lines[1:]], "Line 1 is no JSON: Unexpected UTF-8 BOM"),
    "a-nul": (lambda lines: ["\0", *lines], "Line 1 is no JSON"),
    "a-hundred-thousand-brackets": (lambda lines: ["[" * 100_000, *lines], "Line 1 is nested too deeply"),
    "a-number-of-5000-digits": (lambda lines: [f'{{"version": {"9" * 5000}}}'], "Line 1 is no JSON: Exceeds the limit"),
    "a-line-cut-off": (lambda lines: [lines[0][:50]], "Line 1 is no JSON"),
    "a-format-in-quotes": (changed(0, interlock="1"), "Line 1 is no line of an export in format 1"),
    "a-format-that-is-true": (changed(0, interlock=True), "Line 1 is no line of an export in format 1"),
    "no-digest": (without("digest"), SHAPE),
    "no-time": (without("recorded_at"), SHAPE),
    "a-version-with-a-point": (changed(0, version=1.0), SHAPE),
    "data-of-null": (changed(0, data=None), SHAPE),
    "data-that-are-a-list": (changed(0, data=[]), SHAPE),
    "metadata-of-null": (changed(0, metadata=None), SHAPE),
    "a-digest-that-is-a-number": (changed(0, digest=1), SHAPE),
    "a-time-that-is-a-number": (changed(0, recorded_at=1), SHAPE),
    "an-empty-time": (changed(0, recorded_at=""), "Event 1 has no time"),
    "the-year-0": (changed(0, recorded_at="0000-01-01T00:00:00+00:00"), "Event 1 has no time: year 0 is out of range"),
    "a-time-after-all-times": (changed(0, recorded_at="9999-12-31T23:59:59-23:59"), "Event 1 has no time"),
    "not-a-number": (changed(0, data={"a": float("nan")}), "Line 1 cannot be kept faithfully: Out of range float"),
    "half-a-character": (
        changed(0, data={"a": "\ud800"}),
        "Line 1 cannot be kept faithfully: .*surrogates not allowed",
    ),
    "a-stream-without-a-name": (changed(0, stream=""), "Line 1 cannot be kept faithfully: '' is no name"),
    "a-stream-of-two-lines": (changed(0, stream="a\nb"), r"Line 1 cannot be kept faithfully: 'a\\nb' is no name"),
    "a-type-without-a-name": (changed(0, type=""), "Line 1 cannot be kept faithfully: '' is no name"),
    "version-0": (changed(0, version=0), "Event 1 of rollout-1 .* it is missing, event 0 follows"),
    "a-version-below-0": (changed(0, version=-1), "Event 1 of rollout-1 .* it is missing, event -1 follows"),
    "another-schema": (changed(0, schema_version=-1), "Event 1 of rollout-1 .* its content gives"),
    "a-short-digest": (changed(0, digest="00"), "Event 1 of rollout-1 .* the digest stored is 00"),
    "a-line-twice": (lambda lines: [lines[0], *lines], "Event 2 of rollout-1 .* it is missing, event 1 follows"),
    "lines-in-another-order": (
        lambda lines: [lines[1], lines[0], *lines[2:]],
        "Event 1 of rollout-1 .* it is missing, event 2 follows",
    ),
    "evidence-that-is-no-base64": (changed(-1, base64="%%%"), "Evidence .* it is no base64"),
    "evidence-by-another-name": (changed(-1, evidence="zz"), "Evidence zz .* its content gives"),
    "evidence-of-null": (changed(-1, base64=None), "Line 5 lacks a field"),
    "evidence-without-an-event": (lambda lines: lines[3:], "There is no event in these lines"),
}
