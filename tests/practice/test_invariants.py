"""Whatever is asked of the practice machine, and in whatever order, it stays in states that a real host has."""

import asyncio
import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.practice.host import PracticeMachine
from tasks.practice.show import of_service
from tests.practice.session import Acting, Session
from tests.practice.virtual_time import in_virtual_time

POSSIBLE = {
    ("inactive", "dead"),
    ("failed", "failed"),
    ("active", "running"),
    ("activating", "auto-restart"),
    ("deactivating", "stop-sigterm"),
    ("deactivating", "stop-sigkill"),
}
VERBS = st.sampled_from(["start", "stop", "restart", "reset-failed", "kill", "daemon-reload", "wait", "crash"])
SETTINGS = st.fixed_dictionaries(
    {
        "Restart": st.sampled_from(["no", "always", "on-failure"]),
        "KillMode": st.sampled_from(["control-group", "mixed", "process"]),
        "TimeoutStopSec": st.sampled_from(["1", "5"]),
        "RestartSec": st.sampled_from(["100ms", "3"]),
    }
)


class Host:
    """A machine with one unit, whose programs die slowly and may leave a child behind."""

    def __init__(self, how: dict[str, str], dies_s: float, leaves: bool) -> None:
        self.programs: list[Acting] = []
        keeps = [["worker"]] if leaves else []

        def factory(argv: object, env: object, machine: PracticeMachine) -> Acting:
            self.programs.append(Acting(machine, dies_s=dies_s, keeps=keeps))
            return self.programs[-1]

        self.run = Session(PracticeMachine(factory=factory))
        text = "[Service]\nExecStart=/opt/app/run\n" + "".join(f"{k}={v}\n" for k, v in how.items())
        self.run.install("a.service", text)

    async def do(self, verb: str, pause: float) -> None:
        if verb == "crash" and self.programs:
            self.programs[-1].signal(11)
        elif verb in ("start", "stop", "restart"):
            await self.run("systemctl", "--no-block", verb, "a.service")
        elif verb == "kill":
            await self.run("systemctl", "kill", "--signal=SIGKILL", "a.service")
        elif verb in ("reset-failed", "daemon-reload"):
            await self.run("systemctl", verb)
        await asyncio.sleep(pause)

    def check(self) -> None:
        """Properties and processes of one moment: a session between them would let a restart that is due happen."""
        service = self.run.machine.systemd.service("a.service")
        assert service is not None
        shown = of_service(self.run.machine.systemd, service)
        state = (shown["ActiveState"], shown["SubState"])
        assert state in POSSIBLE
        alive = [pid for pid, seen in self.run.machine.processes().items() if seen.argv[0] == "/opt/app/run"]
        assert len(alive) <= 1, "two main processes at once"
        if state == ("active", "running"):
            assert alive in ([int(shown["MainPID"])], [])  # for an instant systemd has yet to hear of its end
        if state in (("inactive", "dead"), ("failed", "failed"), ("activating", "auto-restart")):
            assert shown["MainPID"] == "0"
            assert not alive
        assert (state[0] == "failed") <= (shown["Result"] != "success")


@settings(max_examples=40, deadline=None)
@given(
    how=SETTINGS,
    dies_s=st.sampled_from([0.0, 0.5, 30.0]),
    leaves=st.booleans(),
    steps=st.lists(st.tuples(VERBS, st.sampled_from([0.0, 0.05, 1.0, 12.0])), max_size=12),
)
def test_a_service_is_never_in_an_impossible_state(
    how: dict[str, str], dies_s: float, leaves: bool, steps: list[tuple[str, float]]
) -> None:
    @in_virtual_time
    async def live() -> None:
        host = Host(how, dies_s, leaves)
        for verb, pause in steps:
            await host.do(verb, pause)
            host.check()
        await host.run("systemctl", "stop", "a.service")
        host.check()
        assert (await host.run.shown("a.service", "ActiveState"))["ActiveState"] in ("inactive", "failed")
        started = [r.text("INVOCATION_ID") for r in host.run.machine.journal.records if "Started" in r.text("MESSAGE")]
        assert len(started) == len(set(started)) == len(host.programs)

    live()


NAMES = st.sampled_from(["/t/a", "/t/b", "/t/d", "/t/d/c", "/t/link"])
CHANGES = st.one_of(
    st.tuples(st.just("tee"), NAMES, st.binary(max_size=4)),
    st.tuples(st.just("rm"), NAMES, st.just(b"")),
    st.tuples(st.just("mkdir"), NAMES, st.just(b"")),
    st.tuples(st.just("rmdir"), NAMES, st.just(b"")),
    st.tuples(st.just("ln"), NAMES, st.just(b"")),
    st.tuples(st.just("mv"), NAMES, st.just(b"")),
    st.tuples(st.just("install"), NAMES, st.just(b"")),
)
WORDS = {
    "tee": ("tee", "--", "X"),
    "rm": ("rm", "-f", "--", "X"),
    "mkdir": ("mkdir", "--", "X"),
    "rmdir": ("rmdir", "--", "X"),
    "ln": ("ln", "-s", "-T", "--", "a", "X"),
    "mv": ("mv", "-T", "-f", "--", "/t/a", "X"),
    "install": ("install", "-m", "600", "-T", "--", "/t/a", "X"),
}


@settings(max_examples=40, deadline=None)
@given(st.lists(CHANGES, max_size=12))
@example([("tee", "/t/a", b""), ("rm", "/t/d/c", b""), ("mv", "/t/d", b""), ("rm", "/t/d/c", b"")])
def test_files_in_memory_and_on_disk_answer_alike(changes: list[tuple[str, str, bytes]]) -> None:
    @in_virtual_time
    async def both() -> None:
        with TemporaryDirectory() as root:
            memory, disk = Session(PracticeMachine()), Session(PracticeMachine(root=Path(root)))
            for run in (memory, disk):
                await run("mkdir", "--", "/t")
            for verb, path, content in changes:
                words = [path if word == "X" else word for word in WORDS[verb]]
                answers = [await run(*words, stdin=content) for run in (memory, disk)]
                assert answers[0] == answers[1]
            digests = [hashlib.sha256((await run("ls", "-1", "--", "/t")).stdout).digest() for run in (memory, disk)]
            assert digests[0] == digests[1]
            for name in ("/t/a", "/t/b", "/t/d/c", "/t/link"):
                answers = [await run("cat", "--", name) for run in (memory, disk)]
                assert answers[0] == answers[1]

    both()
