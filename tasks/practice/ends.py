"""How processes end, in systemd's words (systemd 252, src/shared/exit-status.c)."""

import signal
from dataclasses import dataclass

CLEAN_SIGNALS = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE})


@dataclass(frozen=True, slots=True)
class Step:
    """What a forked child does before exec: its exit status where it fails, its complaint, and whether it is in the
    unit's control group by then (systemd 252, src/core/execute.c); journald takes it for PID 1's scope where not."""

    status: int
    complaint: str
    enrolled: bool = True


STEPS = {
    "USER": Step(217, "Failed to determine user credentials", enrolled=False),
    "GROUP": Step(216, "Failed to determine group credentials", enrolled=False),
    "CHDIR": Step(200, "Changing to the requested working directory failed"),
    "EXEC": Step(203, "Failed to locate executable {path}"),
}
EXEC_FAILED = STEPS["EXEC"].status
_CORE = frozenset(
    {
        signal.SIGQUIT,
        signal.SIGILL,
        signal.SIGTRAP,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGSEGV,
        signal.SIGSYS,
    }
)
_STATUS_NAMES = {
    0: "SUCCESS", 1: "FAILURE", 2: "INVALIDARGUMENT", 3: "NOTIMPLEMENTED", 4: "NOPERMISSION", 5: "NOTINSTALLED",
    6: "NOTCONFIGURED", 7: "NOTRUNNING", 200: "CHDIR", 203: "EXEC", 216: "GROUP", 217: "USER",
}  # fmt: skip
_JOB_REASONS = {
    "resources": "of unavailable resources or another system error",
    "protocol": "the service did not take the steps required by its unit configuration",
    "timeout": "a timeout was exceeded",
    "exit-code": "the control process exited with error code",
    "signal": "a fatal signal was delivered to the control process",
    "core-dump": "a fatal signal was delivered causing the control process to dump core",
    "start-limit-hit": "start of the service was attempted too often",
}


def signal_name(number: int) -> str:
    return signal.Signals(number).name.removeprefix("SIG")


def describe_end(status: int) -> tuple[str, str]:
    """The words after `code=` and `status=` for an exit status, or minus a signal."""
    if status >= 0:
        return "exited", f"{status}/{_STATUS_NAMES.get(status, 'n/a')}"
    return "dumped" if -status in _CORE else "killed", f"{-status}/{signal_name(-status)}"


def exec_main_code(status: int) -> int:
    """CLD_EXITED, CLD_KILLED or CLD_DUMPED."""
    return 1 if status >= 0 else 3 if -status in _CORE else 2


def result_of(status: int, success: frozenset[int], *, daemon: bool) -> str:
    """systemd's Result for an end; signals that ask a daemon to go are a clean end of a daemon only."""
    if status == 0 or status in success or (daemon and -status in CLEAN_SIGNALS):
        return "success"
    if status > 0:
        return "exit-code"
    return "core-dump" if -status in _CORE else "signal"


def restarts(policy: str, result: str) -> bool:
    """Whether Restart=`policy` starts a unit again that ended with `result` and was not asked to stop."""
    clean, abnormal = result == "success", result in ("signal", "core-dump", "timeout", "watchdog")
    return {
        "no": False,
        "always": True,
        "on-success": clean,
        "on-failure": not clean,
        "on-abnormal": abnormal,
        "on-abort": result in ("signal", "core-dump"),
        "on-watchdog": result == "watchdog",
    }[policy]


def job_failure(name: str, result: str) -> str:
    """What `systemctl start` says on stderr when its job failed."""
    reason = _JOB_REASONS.get(result)
    text = f"Job for {name} failed because {reason}.\n" if reason else f"Job for {name} failed.\n"
    text += f'See "systemctl status {name}" and "journalctl -xeu {name}" for details.\n'
    if result == "start-limit-hit":
        text += f'To force a start use "systemctl reset-failed {name}"\nfollowed by "systemctl start {name}" again.\n'
    return text
