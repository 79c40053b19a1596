"""Scripts: what is written is what is read back, and what a real shell runs."""

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.hosts.port import Completed
from tasks.script import Line, Script, may, must, parse, render_batch, render_sequence, split_frames

MARK = "a1b2c3"
FIRST, LATER = f"{MARK} 1 0\n", f"\n{MARK} 2 0\n"
NASTY = [
    pytest.param("", id="empty"),
    pytest.param(" ", id="a space"),
    pytest.param("a'b", id="a single quote"),
    pytest.param("'", id="nothing but a quote"),
    pytest.param('a"b"c', id="double quotes"),
    pytest.param("'\"'\"'", id="what quoting writes for a quote"),
    pytest.param("two\nlines", id="a newline"),
    pytest.param("'\n\"\nrun ls\n", id="quotes and newlines"),
    pytest.param("$(reboot) `reboot` ${HOME} $1 $$", id="expansions"),
    pytest.param("; reboot & | > /dev/null < /x", id="operators"),
    pytest.param("back\\slash \\n \\'", id="backslashes"),
    pytest.param("#no comment", id="a comment sign"),
    pytest.param("-n", id="an option"),
    pytest.param("*?[a-z]~{a,b}", id="globs"),
    pytest.param("\t\r\x01\x7f", id="control characters"),
    pytest.param("grün 速度 \U0001f680", id="beyond ASCII"),
    pytest.param("%s%d%n", id="printf's own"),
    pytest.param(f"\n{MARK} 1 0\n", id="a frame"),
]
words = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
    | st.text(st.sampled_from("'\"\n \\$`;#"), max_size=8),
    min_size=1,
    max_size=4,
).map(tuple)
lines = st.lists(st.builds(Line, st.sampled_from(["must", "may"]), words), max_size=6).map(tuple)

ECHO = (sys.executable, "-Sc", "import json,sys; print(json.dumps(sys.argv[1:]))")
"""Prints its words as JSON on one line."""


def sh(text: str) -> Completed:
    done = subprocess.run(["/bin/sh"], input=text.encode(), capture_output=True, timeout=30, check=False)
    return Completed(done.returncode, done.stdout, done.stderr)


@given(lines)
@example((must("a", "'\n'"), may("b", "\n")))
def test_a_sequence_is_read_back(given_lines: tuple[Line, ...]) -> None:
    assert parse(render_sequence(given_lines)) == Script(given_lines)


@given(st.lists(words, max_size=6))
def test_a_batch_is_read_back(argvs: Sequence[tuple[str, ...]]) -> None:
    assert parse(render_batch(argvs, MARK)) == Script(tuple(Line("run", w) for w in argvs), MARK)


@pytest.mark.parametrize("word", NASTY)
def test_a_nasty_word_is_read_back(word: str) -> None:
    assert parse(render_sequence([must("x", word)])).lines == (must("x", word),)
    assert parse(render_batch([("x", word)], MARK)).lines == (Line("run", ("x", word)),)


def test_a_real_shell_runs_the_words_of_a_batch() -> None:
    nasty = [str(p.values[0]) for p in NASTY]
    out = sh(render_batch([(*ECHO, word, "end") for word in nasty], MARK))
    frames = split_frames(out.stdout, out.stderr, MARK, len(nasty))
    assert [json.loads(frame.stdout) for frame in frames] == [[word, "end"] for word in nasty]


def test_a_real_shell_runs_the_words_of_a_sequence() -> None:
    nasty = [str(p.values[0]) for p in NASTY]
    out = sh(render_sequence([must(*ECHO, *nasty), may(*ECHO, *nasty)]))
    assert [json.loads(line) for line in out.stdout.splitlines()] == [nasty, nasty]


@settings(max_examples=10, deadline=None)
@given(st.lists(words, min_size=1, max_size=20))
def test_a_real_shell_agrees_with_what_is_read_back(argvs: Sequence[tuple[str, ...]]) -> None:
    text = render_batch([(*ECHO[:1], "-Sc", "import sys; sys.stdout.write(repr(sys.argv[1:]))", *argvs[0])], MARK)
    out = sh(text)
    (frame,) = split_frames(out.stdout, out.stderr, MARK, 1)
    (line,) = parse(text).lines
    assert frame.stdout.decode() == repr(list(line.words[3:]))


@pytest.mark.parametrize(
    ("given_lines", "printed", "status"),
    [
        pytest.param([must("echo", "a"), must("echo", "b")], b"a\nb\n", 0, id="all of them"),
        pytest.param(
            [must("echo", "a"), must("false"), must("echo", "b")], b"a\n", 1, id="a must that fails is the last"
        ),
        pytest.param([may("false"), must("echo", "b")], b"b\n", 0, id="a may that fails is not"),
        pytest.param([must("sh", "-c", "exit 7")], b"", 7, id="its status is the script's"),
        pytest.param([must("/no/such/program")], b"", 127, id="a program that is not there"),
        pytest.param([may("sh", "-c", "kill -9 $$"), must("echo", "on")], b"on\n", 0, id="a may that is killed"),
        pytest.param([must("cat"), must("echo", "b")], b"b\n", 0, id="nobody reads the script as input"),
        pytest.param([may("false")], b"", 0, id="a last may does not count"),
    ],
)
def test_how_a_sequence_ends(given_lines: list[Line], printed: bytes, status: int) -> None:
    done = sh(render_sequence(given_lines))
    assert (done.stdout, done.status) == (printed, status)


def test_a_failed_must_says_which() -> None:
    done = sh(render_sequence([must("test", "-e", "/no such file")]))
    assert done.stderr == b"interlock: exit 1: test -e /no such file\n"


@pytest.mark.parametrize(
    ("argvs", "expected"),
    [
        pytest.param([("printf", "a"), ("echo", "b")], [(0, b"a"), (0, b"b\n")], id="with a last newline or without"),
        pytest.param([("true",)], [(0, b"")], id="no output"),
        pytest.param([("sh", "-c", "printf x; exit 3"), ("echo",)], [(3, b"x"), (0, b"\n")], id="failing is no end"),
        pytest.param([("printf", "a\\000b\\000"), ("true",)], [(0, b"a\0b\0"), (0, b"")], id="NULs"),
        pytest.param([("printf", "\\n\\n"), ("true",)], [(0, b"\n\n"), (0, b"")], id="newlines alone"),
        pytest.param([("printf", LATER), ("printf", "b")], [(0, LATER.encode()), (0, b"b")], id="a later frame's look"),
        pytest.param([("printf", FIRST), ("printf", "b")], [(0, FIRST.encode()), (0, b"b")], id="a first frame's"),
        pytest.param([("printf", "\\377\\376"), ("true",)], [(0, b"\xff\xfe"), (0, b"")], id="no text at all"),
        pytest.param([("/no/such/program",), ("printf", "b")], [(127, b""), (0, b"b")], id="a program that is missing"),
        pytest.param([("cat",), ("printf", "b")], [(0, b""), (0, b"b")], id="nobody reads the script as input"),
    ],
)  # fmt: skip
def test_frames_of_a_real_shell(argvs: list[tuple[str, ...]], expected: list[tuple[int, bytes]]) -> None:
    done = sh(render_batch(argvs, MARK))
    frames = split_frames(done.stdout, done.stderr, MARK, len(argvs))
    assert [(f.status, f.stdout) for f in frames] == expected


def test_each_argv_keeps_its_own_stderr() -> None:
    done = sh(render_batch([("sh", "-c", "echo one >&2"), ("true",), ("sh", "-c", "printf three >&2")], MARK))
    frames = split_frames(done.stdout, done.stderr, MARK, 3)
    assert [f.stderr for f in frames] == [b"one\n", b"", b"three"]


def test_a_shell_that_ends_early_leaves_fewer_frames() -> None:
    done = sh(render_batch([("printf", "a"), ("sh", "-c", "kill -9 $PPID"), ("printf", "c")], MARK))
    assert [f.stdout for f in split_frames(done.stdout, done.stderr, MARK, 3)] == [b"a"]


@pytest.mark.parametrize("cut", range(len(f"out\n{MARK} 1 0\n")))
def test_a_cut_stream_has_no_half_frame(cut: int) -> None:
    assert split_frames(f"out\n{MARK} 1 0\n".encode()[:cut], b"", MARK, 1) == ()


@given(st.binary(max_size=200), st.binary(max_size=60))
def test_any_bytes_can_be_split(stdout: bytes, stderr: bytes) -> None:
    hostile = stdout.replace(b"M", f"\n{MARK} 1 ".encode())
    assert len(split_frames(hostile, stderr, MARK, 3)) <= 3


def test_a_frame_with_no_status_is_none() -> None:
    assert split_frames(f"a\n{MARK} 1 x\n".encode(), b"", MARK, 1) == ()


SEQUENCE, BATCH = render_sequence([]), render_batch([], MARK)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("reboot\n", id="a bare command"),
        pytest.param(SEQUENCE + "reboot\n", id="no mode"),
        pytest.param(SEQUENCE + "run ls\n", id="a batch's mode in a sequence"),
        pytest.param(BATCH + "must ls\n", id="a sequence's mode in a batch"),
        pytest.param(SEQUENCE + "must\n", id="no words"),
        pytest.param(SEQUENCE + "must ls; reboot\n", id="two commands"),
        pytest.param(SEQUENCE + "must echo $(reboot)\n", id="a substitution"),
        pytest.param(SEQUENCE + "must echo $HOME\n", id="a variable"),
        pytest.param(SEQUENCE + "must ls > /etc/passwd\n", id="a redirection"),
        pytest.param(SEQUENCE + "must ls # all\n", id="a comment"),
        pytest.param(SEQUENCE + "must a\\ b\n", id="an escape"),
        pytest.param(SEQUENCE + "must 'ls\n", id="an open quote"),
        pytest.param(SEQUENCE + "must ls", id="no newline at the end"),
        pytest.param(SEQUENCE + "\nmust ls\n", id="an empty line"),
        pytest.param(SEQUENCE.replace("exit", "return") + "must ls\n", id="another head"),
        pytest.param(BATCH.replace(f"{MARK} \"$n\" \"$s\" >&2", "other \"$n\" \"$s\" >&2"), id="two marks"),
    ],
)  # fmt: skip
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse(text)


@given(st.text(max_size=60))
def test_what_is_accepted_is_what_would_be_written(tail: str) -> None:
    text = SEQUENCE + tail
    try:
        script = parse(text)
    except ValueError:
        return
    assert render_sequence(script.lines) == text


@pytest.mark.parametrize(
    ("mark", "argvs", "complaint"),
    [
        pytest.param("a b", [("ls",)], "letters and digits", id="a mark with a space"),
        pytest.param("", [("ls",)], "letters and digits", id="no mark"),
        pytest.param(MARK, [()], "at least one word", id="an argv without words"),
        pytest.param(MARK, [("ls", "a\0b")], "NUL", id="a NUL"),
    ],
)
def test_what_no_shell_could_run_is_not_written(mark: str, argvs: list[tuple[str, ...]], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        render_batch(argvs, mark)


def test_run_lines_belong_to_batches() -> None:
    with pytest.raises(ValueError, match="belong to batches"):
        render_sequence([Line("run", ("ls",))])
