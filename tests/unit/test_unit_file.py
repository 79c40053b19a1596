"""A unit file gives the process exactly the argv and environment that were asked for."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from systemd_syntax import directives, environment, exec_start

from state.unit_file import ServiceUnit, quote_environment, quote_exec, quote_word, render_unit

NASTY = st.text(
    st.one_of(
        st.sampled_from(" \t\"'\\%$;#{}[]=-~*:,@!+|&<>"),
        st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]),
    )
)


def unit(**changes: object) -> ServiceUnit:
    given = {"description": "q", "argv": ("/bin/true",), "user": "sglang", "stop_timeout_s": 90.0} | changes
    return ServiceUnit.model_validate(given)


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        pytest.param("--tp-size", "--tp-size", id="plain-words-stay-plain"),
        pytest.param("a b", '"a b"', id="spaces-are-quoted"),
        pytest.param("", '""', id="an-empty-word-stays-a-word"),
        pytest.param('{"a": 1}', "'{\"a\": 1}'", id="json-goes-into-single-quotes"),
        pytest.param("it's", '"it\'s"', id="an-apostrophe-goes-into-double-quotes"),
        pytest.param("both\"'", '"both\\"\'"', id="both-kinds-of-quotes-are-escaped"),
        pytest.param("C:\\x", '"C:\\\\x"', id="backslashes-are-doubled"),
        pytest.param(";", '";"', id="a-semicolon-separates-no-commands"),
        pytest.param("ünï", '"ünï"', id="unicode-stays-as-it-is"),
    ],
)
def test_a_word_is_quoted_where_it_needs_it(word: str, quoted: str) -> None:
    assert quote_word(word) == quoted


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        pytest.param(["/bin/x", "50%"], "/bin/x 50%%", id="percent-is-no-specifier"),
        pytest.param(["/bin/x", "$HOME"], "/bin/x $$HOME", id="dollar-is-no-variable"),
        pytest.param(["/a b/x"], '"/a b/x"', id="a-program-may-have-spaces-in-its-path"),
    ],
)
def test_exec_start_expands_nothing(argv: list[str], value: str) -> None:
    assert quote_exec(argv) == value


def test_environment_leaves_dollars_alone() -> None:
    assert quote_environment("A", "50% $x") == '"A=50%% $x"'


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param([], id="nothing"),
        pytest.param(["python"], id="a-relative-program"),
        pytest.param(["/bin/$x"], id="a-variable-in-the-program"),
        pytest.param(["/bin/x", "a\nb"], id="a-line-break"),
        pytest.param(["/bin/x", "a\0b"], id="a-nul"),
        pytest.param(["/bin/x", "\ud800"], id="a-lone-surrogate"),
        pytest.param(["/bin/x", "\uffff"], id="a-noncharacter"),
    ],
)
def test_what_no_unit_can_hold_is_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match=r"absolute path|control character|UTF-8"):
        quote_exec(argv)


@pytest.mark.parametrize("text", ["", " x", "x\\", "a\nb"])
def test_a_directive_that_takes_its_line_as_it_stands_refuses_what_would_change(text: str) -> None:
    with pytest.raises(ValueError, match=r"directive|control character"):
        render_unit(unit(description=text))


@given(st.lists(NASTY, max_size=6), st.dictionaries(st.from_regex(r"[A-Z_]{1,9}", fullmatch=True), NASTY, max_size=3))
def test_argv_and_environment_come_back_word_for_word(words: list[str], variables: dict[str, str]) -> None:
    text = render_unit(unit(argv=("/opt/x y/python", *words), environment=variables))
    assert exec_start(text) == ["/opt/x y/python", *words]
    assert environment(text) == variables


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        pytest.param(90.0, "90", id="whole-seconds"),
        pytest.param(0.001, "0.001", id="a-millisecond"),
        pytest.param(86_400.25, "86400.25", id="a-day-and-a-part-of-a-second"),
        pytest.param(1_036_800.0, "1036800", id="twelve-days-without-an-exponent"),
    ],
)
def test_a_time_is_written_as_systemd_reads_it(seconds: float, written: str) -> None:
    """systemd.time(7): a number, and no exponent; what is no time span is ignored, and the default of 90 s stands."""
    assert directives(render_unit(unit(stop_timeout_s=seconds)), "Service")["TimeoutStopSec"] == [written]


def test_the_unit_says_how_it_is_started_stopped_and_restarted() -> None:
    service = directives(render_unit(unit(group="g", environment_files=("/etc/a.env",))), "Service")
    assert service["Type"] == ["exec"]
    assert service["KillMode"] == ["control-group"]
    assert service["TimeoutStopSec"] == ["90"]
    assert service["Restart"] == ["on-failure"]
    assert service["EnvironmentFile"] == ["/etc/a.env"]
    assert "SuccessExitStatus" not in service


def test_start_limits_stand_where_systemd_reads_them() -> None:
    text = render_unit(unit())
    assert {"StartLimitIntervalSec", "StartLimitBurst"} <= directives(text, "Unit").keys()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_to_say_about_it(tmp_path: Path) -> None:
    argv = ("/bin/true", "a b", '{"a": "50% of $x"}', ";", "it's \\")
    path = tmp_path / "nasty.service"
    path.write_text(render_unit(unit(argv=argv, user="root", labels={"X-Interlock-Service": "q"})))
    done = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
