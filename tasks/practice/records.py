"""systemd's own records about a unit, word for word (systemd 252)."""

from tasks.practice.ends import STEPS, describe_end
from tasks.practice.journal import Journal
from tasks.practice.process import SpawnFailed
from tasks.practice.units import ServiceUnit

MESSAGE_IDS = {
    "starting": "7d4958e842da4a758f6c1cdc7b36dcc5",
    "started": "39f53479d3a045ac8e11786248231fbf",
    "start-failed": "be02cf6855d2428ba40df7e9d022f03d",
    "stopping": "de5b426a63be47a7b6ac3eaac82e2f6f",
    "stopped": "9d1aaa27d60140bd96365438aad20286",
    "exited": "98e322203f7a4ed290d09fe03c09fe15",
    "failed": "d9b373ed55a64feb8242e02dbe79a49c",
    "success": "7ad2d189f7e94e70a38c781354912448",
    "spawn-failed": "641257651c1b4ec9a8624d7a40a9e1e7",
    "restart": "5eb03494b6584870a536b337290809b2",
}


class Records:
    """Writes about one unit; `invocation` follows the unit's starts."""

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal, self._name = journal, name
        self.invocation = ""

    def say(self, message: str, *, priority: int = 6, kind: str = "", **extra: str) -> None:
        known = {"MESSAGE_ID": MESSAGE_IDS[kind]} if kind else {}
        self._journal.manager(self._name, self.invocation, message, priority=priority, **known, **extra)

    def starting(self, unit: ServiceUnit) -> None:
        self.say(f"Starting {unit.status_name}...", kind="starting", JOB_TYPE="start")

    def started(self, unit: ServiceUnit) -> None:
        verb = "Finished" if unit.type == "oneshot" else "Started"
        self.say(f"{verb} {unit.status_name}.", kind="started", JOB_TYPE="start", JOB_RESULT="done")

    def start_failed(self, unit: ServiceUnit) -> None:
        text = f"Failed to start {unit.status_name}."
        self.say(text, priority=3, kind="start-failed", JOB_TYPE="start", JOB_RESULT="failed")

    def stopping(self, unit: ServiceUnit) -> None:
        self.say(f"Stopping {unit.status_name}...", kind="stopping", JOB_TYPE="stop")

    def stopped(self, unit: ServiceUnit) -> None:
        self.say(f"Stopped {unit.status_name}.", kind="stopped", JOB_TYPE="stop", JOB_RESULT="done")

    def exited(self, status: int, process: str = "Main process") -> None:
        code, words = describe_end(status)
        text = f"{self._name}: {process} exited, code={code}, status={words}"
        extra = {"EXIT_CODE": code, "EXIT_STATUS": str(abs(status))}
        self.say(text, priority=5 if status >= 0 else 4, kind="exited", **extra)

    def ended(self, result: str) -> None:
        if result == "success":
            self.say(f"{self._name}: Deactivated successfully.", kind="success")
        else:
            self.say(f"{self._name}: Failed with result '{result}'.", priority=4, kind="failed", UNIT_RESULT=result)

    def restart_scheduled(self, count: int) -> None:
        text = f"{self._name}: Scheduled restart job, restart counter is at {count}."
        self.say(text, kind="restart", N_RESTARTS=str(count))

    def about(self, words: str, *, priority: int = 4) -> None:
        self.say(f"{self._name}: {words}", priority=priority)

    def left_over(self, pid: int, program: str) -> None:
        self.about(f"Found left-over process {pid} ({comm(program)}) in control group while starting unit. Ignoring.")
        words = "This usually indicates unclean termination of a previous run, or service implementation deficiencies."
        self.about(words)

    def remains(self, pid: int, program: str) -> None:
        self.about(f"Unit process {pid} ({comm(program)}) remains running after unit stopped.")

    def killing(self, pid: int, program: str) -> None:
        self.about(f"Killing process {pid} ({comm(program)}) with signal SIGKILL.", priority=5)

    def spawn_failed(self, pid: int, refused: SpawnFailed) -> None:
        """The two records of the forked child that did not become the program."""
        child, step = f"({refused.path.rpartition('/')[2][-8:]})", STEPS[refused.step]
        ours = {"_SYSTEMD_UNIT": self._name, "_SYSTEMD_INVOCATION_ID": self.invocation}
        told = step.complaint.format(path=refused.path), f"Failed at step {refused.step} spawning {refused.path}"
        for words, known in zip(told, ({}, {"MESSAGE_ID": MESSAGE_IDS["spawn-failed"]}), strict=True):
            self._journal.append(
                {
                    "PRIORITY": "3", "SYSLOG_IDENTIFIER": child, "_TRANSPORT": "journal", "_PID": str(pid), "_UID": "0",
                    "_COMM": child, "UNIT": self._name, "INVOCATION_ID": self.invocation,
                    **(ours if step.enrolled else {"_SYSTEMD_UNIT": "init.scope"}), **known,
                    "MESSAGE": f"{self._name}: {words}: {refused.reason}",
                }
            )  # fmt: skip


def comm(program: str) -> str:
    """A process's name as the kernel keeps it."""
    return program.rpartition("/")[2][:15]
