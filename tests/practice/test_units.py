"""How a unit is put together: precedence, drop-ins, reloads, words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.practice.commands.systemd_run import unit_text
from tasks.practice.environment import parse_environment_file
from tasks.practice.host import PracticeMachine
from tasks.practice.unitfile import expand_specifiers, expand_variables, parse_span, read_unit_text, split_words
from tasks.practice.units import load_service
from tests.practice.session import Session, acting
from tests.practice.virtual_time import in_virtual_time

ETC, LIB = "/etc/systemd/system", "/usr/lib/systemd/system"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("/bin/a b  c", ["/bin/a", "b", "c"], id="white-space-separates"),
        pytest.param("a 'b c' \"d e\"", ["a", "b c", "d e"], id="both-kinds-of-quotes"),
        pytest.param("a x'y z'w", ["a", "xy zw"], id="quotes-inside-a-word"),
        pytest.param(r"a b\x20c \n \\", ["a", "b c", "\n", "\\"], id="c-escapes"),
        pytest.param("a '' b", ["a", "", "b"], id="an-empty-word"),
        pytest.param(r"a\sb", ["a b"], id="backslash-s-is-a-space"),
    ],
)
def test_words_are_split_as_systemd_does(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@given(
    st.lists(
        st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1, max_size=5
    )
)
def test_systemd_run_hands_every_word_over_unchanged(words: list[str]) -> None:
    argv = ["/bin/x", *(word.replace("$", "") + "." for word in words)]
    value = read_unit_text(unit_text({"--description": ["d"]}, argv)).last("Service", "ExecStart")
    split = [expand_specifiers(word, "a.service", hostname="h") for word in split_words(value)]
    assert expand_variables(split, {}) == argv


@pytest.mark.parametrize("text", ['"open', "back\\"])
def test_bad_quoting_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"quoting|escape"):
        split_words(text)


def test_lines_go_on_after_a_backslash_and_comments_do_not_end_them() -> None:
    unit = read_unit_text("[Service]\nExecStart=/bin/a \\\n# not this\n  --b \\\n  --c\n; nor this\nUser=u\n")
    assert split_words(unit.last("Service", "ExecStart")) == ["/bin/a", "--b", "--c"]
    assert unit.last("Service", "User") == "u"


@pytest.mark.parametrize("text", ["", "abc", "1x", "1min x", "-5"])
def test_what_is_no_time_span(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_span(text)


def test_a_template_knows_its_instance() -> None:
    assert (
        expand_specifiers("%n %p %i %N %%", "vllm@gpu-3.service", hostname="h")
        == "vllm@gpu-3.service vllm gpu-3 vllm@gpu-3 %"
    )


def test_an_environment_file_is_read_with_quotes_and_comments() -> None:
    text = '# c\nA=1\nB=\'x y\'\nC="a \\"b\\""\nnot a line\nD=a\\\nb\n'
    assert parse_environment_file(text) == {"A": "1", "B": "x y", "C": 'a "b"', "D": "ab"}


def machine(**files: str) -> PracticeMachine:
    made = PracticeMachine()
    for path, text in files.items():
        made.files.put(path, text)
    return made


def test_drop_ins_apply_by_file_name_and_the_stronger_folder_wins_a_name() -> None:
    made = machine(
        **{
            f"{LIB}/a.service": "[Service]\nExecStart=/bin/one\nEnvironment=A=lib\n",
            f"{LIB}/a.service.d/10.conf": "[Service]\nEnvironment=A=lib10\n",
            f"{ETC}/a.service.d/10.conf": "[Service]\nEnvironment=A=etc10\n",
            f"{ETC}/a.service.d/20.conf": "[Service]\nExecStart=\nExecStart=/bin/two\n",
            "/run/systemd/system/a.service.d/15.conf": "[Service]\nUser=u\n",
            f"{ETC}/service.d/05.conf": "[Service]\nTimeoutStopSec=7\n",
            f"{ETC}/a.service.d/ignored.txt": "[Service]\nUser=nobody\n",
        }
    )
    unit = load_service(made.files, "a.service", "h")
    assert unit.drop_ins == (
        f"{ETC}/service.d/05.conf",
        f"{ETC}/a.service.d/10.conf",
        "/run/systemd/system/a.service.d/15.conf",
        f"{ETC}/a.service.d/20.conf",
    )
    assert (unit.exec_start[0].path, dict(unit.environment)["A"], unit.user) == ("/bin/two", "etc10", "u")
    assert unit.timeout_stop_us == 7_000_000


def test_a_fragment_in_etc_hides_the_one_in_lib() -> None:
    made = machine(
        **{f"{LIB}/a.service": "[Service]\nExecStart=/lib\n", f"{ETC}/a.service": "[Service]\nExecStart=/etc\n"}
    )
    assert load_service(made.files, "a.service", "h").fragment == f"{ETC}/a.service"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        pytest.param("[Service]\nExecStart=/bin/a\n", "loaded", id="sound"),
        pytest.param("[Service]\nUser=a\n", "bad-setting", id="nothing-to-run"),
        pytest.param("[Service]\nExecStart=/bin/a\nExecStart=/bin/b\n", "bad-setting", id="two-to-run"),
        pytest.param("[Service\n", "error", id="broken"),
        pytest.param("", "masked", id="an-empty-file-masks"),
    ],
)
def test_the_load_state(text: str, state: str) -> None:
    assert load_service(machine(**{f"{ETC}/a.service": text}).files, "a.service", "h").load_state == state


@in_virtual_time
async def test_a_changed_file_needs_a_reload_and_the_old_unit_runs_until_then() -> None:
    run = Session(PracticeMachine(factory=acting()))
    run.install("a.service", "[Service]\nExecStart=/opt/app/run --old\n")
    run.want("a.service")
    assert await run.shown("a.service", "NeedDaemonReload") == {"NeedDaemonReload": "no"}
    await run("tee", "--", f"{ETC}/a.service", stdin=b"[Service]\nExecStart=/opt/app/run --new\n")
    assert await run.shown("a.service", "NeedDaemonReload") == {"NeedDaemonReload": "yes"}
    assert (await run("systemctl", "cat", "--", "a.service")).text.startswith("# Warning: a.service changed on disk")
    await run("systemctl", "start", "a.service")
    assert (await run("cat", "/proc/14363/cmdline")).text == "/opt/app/run\0--old\0"
    await run("systemctl", "daemon-reload")
    await run("systemctl", "restart", "a.service")
    assert (await run("cat", "/proc/14364/cmdline")).text == "/opt/app/run\0--new\0"
    await run("mkdir", "-p", "--", f"{ETC}/a.service.d")
    await run("tee", "--", f"{ETC}/a.service.d/x.conf", stdin=b"[Service]\nUser=u\n")
    assert await run.shown("a.service", "NeedDaemonReload") == {"NeedDaemonReload": "yes"}


@in_virtual_time
async def test_cat_shows_the_fragment_and_its_drop_ins() -> None:
    run = Session(PracticeMachine())
    run.install("a.service", "[Service]\nExecStart=/opt/app/run\n")
    run.machine.files.put(f"{ETC}/a.service.d/x.conf", "[Service]\nUser=u\n")
    assert (await run("systemctl", "cat", "--", "a.service")).text == (
        f"# {ETC}/a.service\n[Service]\nExecStart=/opt/app/run\n\n# {ETC}/a.service.d/x.conf\n[Service]\nUser=u\n"
    )
    missing = await run("systemctl", "cat", "--", "b.service")
    assert (missing.status, missing.stderr) == (1, b"No files found for b.service.\n")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        pytest.param(
            ("start", "no.service"), 5, "Failed to start no.service: Unit no.service not found.\n", id="start"
        ),
        pytest.param(("stop", "no.service"), 5, "Failed to stop no.service: Unit no.service not loaded.\n", id="stop"),
        pytest.param(("restart", "no"), 5, "Failed to restart no.service: Unit no.service not found.\n", id="restart"),
        pytest.param(
            ("reset-failed", "no.service"),
            1,
            "Failed to reset failed state of unit no.service: Unit no.service not loaded.\n",
            id="reset-failed",
        ),
        pytest.param(
            ("kill", "no.service"), 1, "Failed to kill unit no.service: Unit no.service not loaded.\n", id="kill"
        ),
        pytest.param(
            ("start", "bad.service"),
            1,
            "Failed to start bad.service: Unit bad.service has a bad unit file setting.\n"
            "See system logs and 'systemctl status bad.service' for details.\n",
            id="bad",
        ),
        pytest.param(("frob",), 1, "Unknown command verb frob.\n", id="no-such-verb"),
    ],
)
@in_virtual_time
async def test_systemctl_refuses(words: tuple[str, ...], status: int, said: str) -> None:
    run = Session(PracticeMachine())
    run.install("bad.service", "[Service]\nUser=x\n")
    refused = await run("systemctl", *words)
    assert (refused.status, refused.stderr.decode()) == (status, said)


@in_virtual_time
async def test_an_unknown_unit_is_shown_as_not_found_with_status_0() -> None:
    run = Session(PracticeMachine())
    shown = await run("systemctl", "show", "--property=LoadState,ActiveState,MainPID,InvocationID", "--", "no.service")
    assert (shown.status, shown.text) == (0, "MainPID=0\nLoadState=not-found\nActiveState=inactive\nInvocationID=\n")
    active = await run("systemctl", "is-active", "no.service")
    assert (active.status, active.text) == (3, "inactive\n")
