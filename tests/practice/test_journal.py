"""journalctl: matches, cursors, formats, and following."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from tasks.practice.host import PracticeMachine
from tasks.properties import cursor_of
from tests.practice.session import Session, acting
from tests.practice.virtual_time import in_virtual_time

NOON = datetime(2026, 3, 9, 12, 0, tzinfo=UTC)
UNIT = "[Unit]\nDescription=App\n[Service]\nExecStart=/opt/app/run\n"


def session(**how: object) -> Session:
    run = Session(PracticeMachine("gpu-e", factory=acting(**how), started=NOON))
    run.install("app.service", UNIT)
    return run


@pytest.mark.parametrize(
    ("form", "text"),
    [
        pytest.param(
            "short-iso",
            "2026-03-09T12:00:00+0000 gpu-e systemd[1]: Started app.service - App.\n"
            "2026-03-09T12:00:00+0000 gpu-e run[14363]: hello\n",
            id="short-iso",
        ),
        pytest.param(
            "short",
            "Mar 09 12:00:00 gpu-e systemd[1]: Started app.service - App.\nMar 09 12:00:00 gpu-e run[14363]: hello\n",
            id="short",
        ),
        pytest.param("cat", "Started app.service - App.\nhello\n", id="cat"),
    ],
)
@in_virtual_time
async def test_a_units_records_read(form: str, text: str) -> None:
    run = session()
    await run("systemctl", "start", "app.service")
    assert (await run("journalctl", "--no-pager", f"--output={form}", "--unit=app.service")).text == text


@in_virtual_time
async def test_json_tells_who_said_it_and_in_which_run() -> None:
    run = session()
    await run("systemctl", "start", "app.service")
    invocation = (await run.shown("app.service", "InvocationID"))["InvocationID"]
    systemd, program = [json.loads(x) for x in (await run("journalctl", "-o", "json", "-u", "app")).text.splitlines()]
    assert {k: systemd[k] for k in ("_PID", "UNIT", "INVOCATION_ID", "SYSLOG_IDENTIFIER", "PRIORITY")} == {
        "_PID": "1",
        "UNIT": "app.service",
        "INVOCATION_ID": invocation,
        "SYSLOG_IDENTIFIER": "systemd",
        "PRIORITY": "6",
    }
    assert {k: program[k] for k in ("_PID", "_SYSTEMD_UNIT", "_SYSTEMD_INVOCATION_ID", "_TRANSPORT", "MESSAGE")} == {
        "_PID": "14363",
        "_SYSTEMD_UNIT": "app.service",
        "_SYSTEMD_INVOCATION_ID": invocation,
        "_TRANSPORT": "stdout",
        "MESSAGE": "hello",
    }
    assert program["__REALTIME_TIMESTAMP"] == str(int(NOON.timestamp()) * 1_000_000)
    assert program["__CURSOR"].startswith("s=")


@pytest.mark.parametrize(
    ("line", "words", "message"),
    [
        pytest.param(b"x" * 5000, (), None, id="a-long-line-is-null-without-all"),
        pytest.param(b"x" * 5000, ("--all",), "x" * 5000, id="and-whole-with-it"),
        pytest.param(b"\x1b[1m", ("--all",), list(b"\x1b[1m"), id="an-escape-makes-a-list-of-bytes"),
        pytest.param(b"\xff\xfe", (), [255, 254], id="so-does-what-is-no-text"),
        pytest.param("é\tü".encode(), (), "é\tü", id="letters-and-tabs-are-text"),
    ],
)
@in_virtual_time
async def test_a_field_that_is_long_or_not_text(line: bytes, words: tuple[str, ...], message: object) -> None:
    run = session(lines=[line])
    await run("systemctl", "start", "app.service")
    done = await run("journalctl", "-o", "json", *words, "_TRANSPORT=stdout")
    assert json.loads(done.text)["MESSAGE"] == message


@in_virtual_time
async def test_a_line_beyond_48_kib_is_cut_into_records() -> None:
    run = session(lines=[b"x" * (48 * 1024 + 5)])
    await run("systemctl", "start", "app.service")
    lengths = [len(x) for x in (await run("journalctl", "-o", "cat", "_TRANSPORT=stdout")).text.splitlines()]
    assert lengths == [48 * 1024, 5]


@in_virtual_time
async def test_export_frames_what_is_not_text() -> None:
    run = session(lines=[b"\x1b["])
    await run("systemctl", "start", "app.service")
    done = await run("journalctl", "-o", "export", "_TRANSPORT=stdout")
    assert b"MESSAGE\n" + (2).to_bytes(8, "little") + b"\x1b[\n" in done.stdout
    assert b"_PID=14363\n" in done.stdout
    assert done.stdout.endswith(b"\n\n")


@in_virtual_time
async def test_after_a_cursor_only_what_came_later() -> None:
    run = session(lives_s=1.0)
    await run("systemctl", "start", "app.service")
    end = await run("journalctl", "--no-pager", "--lines=0", "--show-cursor")
    assert end.text.startswith("-- No entries --\n-- cursor: s=")
    cursor = cursor_of(end.text)
    await asyncio.sleep(2)
    later = await run("journalctl", "-o", "cat", f"--after-cursor={cursor}")
    assert later.text == "app.service: Deactivated successfully.\n"
    last = (await run("journalctl", "-n", "1", "-o", "json")).text
    nothing = await run("journalctl", "-o", "cat", f"--after-cursor={json.loads(last)['__CURSOR']}")
    assert nothing.text == ""


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        pytest.param("--cursor", ["Stopping app.service - App...", "Stopped"], id="from-a-cursor-on-nothing-is-lost"),
        pytest.param("--after-cursor", ["Stopped"], id="after-a-cursor-the-first-that-fits-is-left-out"),
    ],
)
@in_virtual_time
async def test_a_cursor_at_a_record_that_does_not_fit(option: str, expected: list[str]) -> None:
    run = session()
    await run("systemctl", "start", "app.service")
    run.machine.kernel("somebody else's record")
    cursor = cursor_of((await run("journalctl", "--no-pager", "--lines=0", "--show-cursor")).text)
    await run("systemctl", "stop", "app.service")
    words = ("journalctl", "-o", "cat", f"{option}={cursor}", "--unit=app.service", "JOB_TYPE=stop")
    found = (await run(*words)).text.splitlines()
    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(found, expected, strict=True))


@in_virtual_time
async def test_fields_of_one_name_are_ored_and_of_two_names_anded() -> None:
    run = session()
    await run("systemctl", "start", "app.service")
    run.machine.kernel("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.")
    either = await run("journalctl", "-o", "cat", "_TRANSPORT=kernel", "_TRANSPORT=stdout")
    assert len(either.text.splitlines()) == 2
    both = await run("journalctl", "-o", "cat", "_TRANSPORT=stdout", "_PID=14363")
    assert both.text == "hello\n"
    neither = await run("journalctl", "-o", "cat", "-q", "_TRANSPORT=kernel", "_PID=14363")
    assert neither.text == ""
    assert (await run("journalctl", "-k", "-o", "short")).text == (
        "Mar 09 12:00:00 gpu-e kernel: NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
    )


@pytest.mark.parametrize(
    ("since", "count"),
    [
        pytest.param("2026-03-09 12:00:05", 1, id="a-time-of-day"),
        pytest.param("@1773057605", 1, id="seconds-of-the-epoch"),
        pytest.param("-5s", 1, id="a-span-back"),
        pytest.param("-1h", 3, id="long-ago"),
        pytest.param("now", 0, id="now"),
    ],
)
@in_virtual_time
async def test_since_a_time(since: str, count: int) -> None:
    run = session(lives_s=10.0)
    await run("systemctl", "start", "app.service")
    await asyncio.sleep(12)
    done = await run("journalctl", "-q", "-o", "cat", "--since", since)
    assert len(done.text.splitlines()) == count


@in_virtual_time
async def test_following_shows_the_end_and_then_what_comes() -> None:
    run = session(lives_s=5.0, lines=[b"%d" % n for n in range(20)])
    await run("systemctl", "start", "app.service")
    words = ("journalctl", "--output=cat", "--follow", "--unit=app.service")
    seen: list[bytes] = []
    async with run.machine.follow(words, user="root") as lines:
        async for line in lines:
            seen.append(line)
            if b"Deactivated" in line:
                break
    assert seen == [*(b"%d" % n for n in range(10, 20)), b"app.service: Deactivated successfully."]


@in_virtual_time
async def test_following_after_a_cursor_misses_nothing() -> None:
    run = session(lives_s=5.0)
    run.machine.kernel("first")
    cursor = run.machine.journal.records[-1].cursor
    await run("systemctl", "start", "app.service")
    seen = []
    words = ("sudo", "-n", "--", "journalctl", "-o", "cat", "--follow", f"--after-cursor={cursor}")
    async with run.machine.follow(words, user="interlock") as lines:
        async for line in lines:
            seen.append(line)
            if len(seen) == 3:
                break
    assert seen == [b"Started app.service - App.", b"hello", b"app.service: Deactivated successfully."]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("--output=yaml",), "Unknown output format 'yaml'.\n", id="no-such-output"),
        pytest.param(
            ("--after-cursor=s=1;i=1",), "Failed to seek to cursor: Invalid argument\n", id="a-foreign-cursor"
        ),
        pytest.param(("pid=1",), "Failed to add match 'pid=1': Invalid argument\n", id="a-match-in-small-letters"),
        pytest.param(("--since=soonish",), "Failed to parse timestamp: soonish\n", id="no-time"),
    ],
)
@in_virtual_time
async def test_journalctl_refuses(words: tuple[str, ...], said: str) -> None:
    refused = await session()("journalctl", *words)
    assert (refused.status, refused.stderr.decode()) == (1, said)
