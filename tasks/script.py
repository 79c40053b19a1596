"""Scripts: lists of argv that a host runs in one go, as text for a POSIX shell and back.

A batch reports each argv's status and output, whatever the others did; a sequence stops at the first argv that fails.
Real hosts give the text to /bin/sh. The simulated host reads it back with `parse` and refuses any other shell text, so
that both run the same words.
"""

import functools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.hosts.port import Completed

_BATCH_HEAD = """set -u
n=0
run() {{ n=$((n+1)); "$@" </dev/null; s=$?; printf '\\n%s %d %d\\n' {mark} "$n" "$s"; \
printf '\\n%s %d %d\\n' {mark} "$n" "$s" >&2; }}
"""
_SEQUENCE_HEAD = """set -u
must() { "$@" </dev/null || { s=$?; printf 'interlock: exit %d: %s\\n' "$s" "$*" >&2; exit "$s"; }; }
may() { "$@" </dev/null || :; }
"""

Mode = Literal["run", "must", "may"]


@dataclass(frozen=True, slots=True)
class Line:
    """One argv of a script. `must` ends the script when it fails, `may` goes on, `run` belongs to batches."""

    mode: Mode
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed script; `mark` is the frame marker of a batch, empty for a sequence."""

    lines: tuple[Line, ...]
    mark: str = ""


def must(*words: str) -> Line:
    return Line("must", words)


def may(*words: str) -> Line:
    return Line("may", words)


def render_batch(argvs: Sequence[Sequence[str]], mark: str) -> str:
    """Shell text that runs each argv and frames what it printed with `mark` (letters and digits, fresh for each batch).

    ValueError for an argv without words, and for a word with a NUL, which no process can be given.
    """
    if not mark.isalnum():
        raise ValueError("mark must be letters and digits")
    return _BATCH_HEAD.format(mark=mark) + "".join(f"run {_quoted(words)}\n" for words in argvs)


def render_sequence(lines: Sequence[Line]) -> str:
    """Shell text that runs the lines in order and exits with the status of the first `must` that fails."""
    if any(line.mode == "run" for line in lines):
        raise ValueError("run lines belong to batches")
    return _SEQUENCE_HEAD + "".join(f"{line.mode} {_quoted(line.words)}\n" for line in lines)


def _quoted(words: Sequence[str]) -> str:
    if not words or any("\0" in word for word in words):
        raise ValueError("an argv has at least one word, and no word holds a NUL")
    return shlex.join(words)


def split_frames(stdout: bytes, stderr: bytes, mark: str, count: int) -> tuple[Completed, ...]:
    """What each argv of a batch printed. Fewer than `count` come back where the shell ended early."""
    outs, errs = _frames(stdout, mark), _frames(stderr, mark)
    return tuple(
        Completed(status, out, errs[i][0] if i < len(errs) else b"") for i, (out, status) in enumerate(outs[:count])
    )


def _frames(stream: bytes, mark: str) -> list[tuple[bytes, int]]:
    found: list[tuple[bytes, int]] = []
    rest = stream
    while True:
        want = f"\n{mark} {len(found) + 1} ".encode()
        body, sep, tail = rest.partition(want)
        if not sep:
            return found
        status, newline, rest = tail.partition(b"\n")
        if not newline or not status.isdigit():
            return found
        found.append((body, int(status)))


@functools.lru_cache(maxsize=256)
def parse(text: str) -> Script:
    """The script that `render_batch` or `render_sequence` wrote; ValueError for any other text."""
    script = _read(text)
    argvs = [line.words for line in script.lines]
    if text != (render_batch(argvs, script.mark) if script.mark else render_sequence(script.lines)):
        raise ValueError("not a script that interlock wrote: a shell would read it otherwise")
    return script


def _read(text: str) -> Script:
    if text.startswith(_SEQUENCE_HEAD):
        return Script(_lines(text[len(_SEQUENCE_HEAD) :], ("must", "may")))
    first = text.partition("printf '\\n%s %d %d\\n' ")[2].partition(" ")[0]
    head = _BATCH_HEAD.format(mark=first)
    if first.isalnum() and text.startswith(head):
        return Script(_lines(text[len(head) :], ("run",)), first)
    raise ValueError("not a script that interlock wrote")


def _lines(body: str, modes: tuple[Mode, ...]) -> tuple[Line, ...]:
    lines = []
    for raw in _logical_lines(body):
        mode, *words = shlex.split(raw)
        match = next((m for m in modes if m == mode), None)
        if match is None or not words:
            raise ValueError(f"not a line of a script: {raw!r}")
        lines.append(Line(match, tuple(words)))
    return tuple(lines)


def _logical_lines(body: str) -> list[str]:
    """Lines of shell text, quoted newlines staying inside (`shlex.join` writes both kinds of quotes, no escapes)."""
    lines, start, quote = [], 0, ""
    for i, char in enumerate(body):
        if char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        elif char == "\n" and not quote:
            lines.append(body[start:i])
            start = i + 1
    return [line for line in lines if line.strip()]
