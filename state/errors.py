"""Every deliberate error of interlock, as one tree.

Each carries its facts as fields, one sentence as text, a hint that says what to do next, whether trying again may
help (`retryable`), and the exit code that the command line ends with.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar


class InterlockError(Exception):
    """Base of every deliberate error.

    InterlockError
    ├── UsageInvalid            the words on the command line are off               exit 2
    ├── ManifestInvalid         a manifest has mistakes, all of them listed         exit 2
    ├── Refused                 the rules said no; nothing was touched              exit 3
    │   ├── PreflightRefused    one or more preconditions do not hold, all listed
    │   ├── LeaseHeld           another rollout holds the service or a host
    │   ├── PlanStale           the host's facts changed since the plan was reviewed
    │   ├── HostAhead           a host is further than the history: facts wait on another machine
    │   ├── StoreOutdated       the event store's tables are missing, old, or newer than this program
    │   └── HostKeyMismatch     the host showed another key than the pinned one
    ├── HostUnreachable         no session could be had; safe to try again          exit 3
    │   └── LoginRefused        the host answers, and takes none of our keys
    ├── PrivilegeRefused        sudo said no                                        exit 3
    ├── ArgvFailed              a remote argv exited non-zero                       exit 1
    ├── StepFailed              a step ended, but the state read back is not the one wanted   exit 1
    │   └── UnbindStuck         a device does not come off its driver; it is quarantined
    ├── DeadlineExceeded        no answer, or no end, in time                       exit 1
    ├── EngineFailed            the engine's own evidence says that its start failed   exit 1
    ├── FencedOut               the host carries another rollout's fencing number   exit 1
    ├── HostReverted            the host's own timer has restored the old state     exit 1
    ├── StoreUnavailable        the event store cannot be reached; safe to try again   exit 1
    ├── VersionConflict         somebody else appended to the stream first          exit 1
    ├── TakenOver               another orchestrator goes on with the rollout       exit 1
    ├── HistoryCorrupt          a digest does not match what is stored              exit 1
    │   └── EvidenceCorrupt     the same of raw evidence
    ├── SpoolDamaged            a spool on this machine is not what was written     exit 1
    ├── NotFound                no such rollout, service, evidence or stream        exit 2
    ├── NoneProven              there is no proven revision that could be gone back to   exit 2
    └── Stranded                neither revision could be proven; a person is needed   exit 4
        └── RolloutUnrecorded   the record broke off after a host may have been changed
    """

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    @property
    def code(self) -> str:
        """The error's name on the wire: `HostUnreachable` is `host-unreachable`."""
        name = type(self).__name__
        return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


class UsageInvalid(InterlockError):
    exit_code = 2


class NotFound(InterlockError):
    exit_code = 2

    def __init__(self, kind: str, name: str, *, hint: str = "") -> None:
        super().__init__(f"There is no {kind} `{name}`", hint=hint)
        self.kind, self.name = kind, name


class NoneProven(InterlockError):
    """A rollback has no revision to go to. What ran before the first rollout was never proven, so it is no target."""

    exit_code = 2

    def __init__(self, service: str, to: str, known: int) -> None:
        counted = f"{known} proven revision{'s' if known != 1 else ''}"
        which = f"none begins with `{to}`" if to else "there is none before the present one"
        super().__init__(f"{service} has {counted}: {which}", hint="`interlock history` lists services and revisions")
        self.service, self.to, self.known = service, to, known


class ManifestInvalid(InterlockError):
    """All mistakes of one manifest; each is `file:line: field: sentence`."""

    exit_code = 2

    def __init__(self, path: str, mistakes: Sequence[str]) -> None:
        count = len(mistakes)
        super().__init__(f"{path} has {count} mistake{'s' if count != 1 else ''}:\n" + "\n".join(mistakes))
        self.path, self.mistakes = path, tuple(mistakes)


class Refused(InterlockError):
    exit_code = 3


class PreflightRefused(Refused):
    def __init__(self, refusals: Sequence[str], *, hint: str = "") -> None:
        super().__init__("; ".join(refusals), hint=hint or "nothing was touched; mend these and apply again")
        self.refusals = tuple(refusals)


class LeaseHeld(Refused):
    def __init__(self, subject: str, holder: str, reason: str, until: str) -> None:
        super().__init__(
            f"{subject} is held by {holder} until {until} ({reason})",
            hint="wait for it to end, or run `interlock recover` once the lease has expired "
            "(with `--take-over` at once, if you know that its orchestrator is gone)",
        )
        self.subject, self.holder, self.reason, self.until = subject, holder, reason, until


class PlanStale(Refused):
    def __init__(self, planned: str, now: str) -> None:
        sentence = f"The host changed since the plan was made (plan {planned[:12]}, now {now[:12]})"
        super().__init__(sentence, hint="run `interlock plan` again and review it")
        self.planned, self.now = planned, now


class StoreOutdated(Refused):
    """`found` is the store's schema revision ("": no tables yet), `known` those of this program, in order."""

    def __init__(self, place: str, found: str, known: Sequence[str]) -> None:
        if found and found not in known:
            sentence = f"is at schema {found}, newer than this program"
            hint = "run the interlock that upgraded it, or a newer one"
        else:
            state = f"is at schema {found} of {known[-1]}" if found else "has no tables yet"
            sentence = f"{state}: run `interlock db upgrade`"
            hint = "nothing was touched; an upgrade keeps what is stored"
        super().__init__(f"The event store at {place} {sentence}", hint=hint)
        self.place, self.found, self.known = place, found, tuple(known)


class HostKeyMismatch(Refused):
    def __init__(self, host: str, address: str, detail: str) -> None:
        new = f"if the host was reinstalled, put its new key into `hosts.{host}.host_key`"
        sentence = f"{host} ({address}) showed a host key that is not the pinned one: {detail}"
        super().__init__(sentence, hint=f"{new}; otherwise somebody may stand in between")
        self.host, self.address, self.detail = host, address, detail


class HostUnreachable(InterlockError):
    retryable = True
    exit_code = 3

    def __init__(self, host: str, address: str, detail: str) -> None:
        hint = f"check the address, the network and sshd on {host}"
        super().__init__(f"Cannot reach {host} at {address}: {detail}", hint=hint)
        self.host, self.address, self.detail = host, address, detail


class LoginRefused(HostUnreachable):
    def __init__(self, host: str, address: str, detail: str) -> None:
        super().__init__(host, address, detail)
        self.hint = f"put the public key into ~/.ssh/authorized_keys on {host}, or name another by INTERLOCK_SSH_KEY"


class PrivilegeRefused(InterlockError):
    exit_code = 3

    def __init__(self, host: str, user: str, detail: str) -> None:
        hint = "grant the commands listed in docs/reference/sudoers.md without a password"
        super().__init__(f"sudo refused {user} on {host}: {detail}", hint=hint)
        self.host, self.user, self.detail = host, user, detail


class ArgvFailed(InterlockError):
    def __init__(self, host: str, argv: Sequence[str], status: int, stderr: str) -> None:
        super().__init__(f"`{argv[0] if argv else ''}` exited {status} on {host}: {stderr.strip() or 'no stderr'}")
        self.host, self.argv, self.status, self.stderr = host, tuple(argv), status, stderr


class StepFailed(InterlockError):
    def __init__(self, step: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.step = step


class UnbindStuck(StepFailed):
    """Devices that do not come off their drivers: each one's address with the driver, and what the kernel said of it
    (empty: nothing). They are quarantined on `host`, and not tried again."""

    def __init__(self, host: str, devices: Mapping[str, tuple[str, str]], rollout: str, *, told: str = "") -> None:
        stuck = "; ".join(
            f"the unbind of {address} from {driver} on {host} is stuck: it is quarantined"
            + (f"; the kernel says: {said}" if said else "")
            for address, (driver, said) in devices.items()
        )
        clears = " and ".join(f"`interlock gpu clear {rollout} {address}`" for address in devices)
        hint = f"when it is well again ({host} may need a reboot): {clears}"
        super().__init__("rebind-gpus", stuck + told, hint=hint)
        self.host, self.devices, self.rollout = host, dict(devices), rollout


class DeadlineExceeded(InterlockError):
    def __init__(self, what: str, seconds: float, *, hint: str = "") -> None:
        super().__init__(f"{what} did not end within {seconds:g} s", hint=hint)
        self.what, self.seconds = what, seconds


class EngineFailed(InterlockError):
    """The engine's own evidence says that it did not, or will not, come up.

    `cause` is a failure code of the inspection contract, `stage` the furthest stage that was proved.
    """

    def __init__(self, cause: str, text: str, remedy: str, *, stage: str | None = None) -> None:
        super().__init__(f"The engine failed ({cause}): {text}", hint=remedy)
        self.cause, self.text, self.remedy, self.stage = cause, text, remedy, stage


class HostReverted(InterlockError):
    def __init__(self, host: str) -> None:
        hint = "the orchestrator was away for longer than `policy.timer`"
        super().__init__(f"{host} has restored the old state by its own timer", hint=hint)
        self.host = host


class HostAhead(Refused):
    def __init__(self, host: str, rollout: str, spool: str) -> None:
        hint = "run `interlock recover` there; if it is gone for good, `--take-over` goes back without them"
        sentence = f"{host} is further than the history of rollout {rollout}, whose newest facts wait with"
        super().__init__(f"{sentence} {spool}", hint=hint)
        self.host, self.rollout, self.spool = host, rollout, spool


class FencedOut(InterlockError):
    def __init__(self, host: str, ours: int, theirs: str) -> None:
        hint = "another rollout has taken the host since; see `interlock history`"
        super().__init__(f"{host} refused fencing number {ours}; it carries {theirs or 'none'}", hint=hint)
        self.host, self.ours, self.theirs = host, ours, theirs


class StoreUnavailable(InterlockError):
    retryable = True

    def __init__(self, detail: str, *, hint: str = "check INTERLOCK_DATABASE_URL and the database") -> None:
        super().__init__(f"The event store cannot be reached: {detail}", hint=hint)
        self.detail = detail


class VersionConflict(InterlockError):
    """Another writer appended first; reading the stream again and deciding anew is the way on."""

    def __init__(self, stream: str, expected: int, actual: int) -> None:
        super().__init__(f"Stream {stream} is at version {actual}, not {expected}", hint="somebody else appended to it")
        self.stream, self.expected, self.actual = stream, expected, actual


class TakenOver(InterlockError):
    """This orchestrator was away for longer than its lease; it stopped before its next step, having lost nothing:
    what it could not store before the other wrote to the stream is in the file `kept`, if it names one."""

    def __init__(self, rollout: str, kept: str = "") -> None:
        spooled = f"; what it did while the event store was away is in {kept}" if kept else ""
        sentence = f"Another orchestrator goes on with rollout {rollout}; this one has stopped{spooled}"
        super().__init__(sentence, hint=f"`interlock show {rollout}` tells how far it is")
        self.rollout, self.kept = rollout, kept


class HistoryCorrupt(InterlockError):
    def __init__(self, stream: str, version: int, detail: str) -> None:
        super().__init__(
            f"Event {version} of {stream} is not what was recorded: {detail}",
            hint="restore the database from its backup; nothing after this event can be trusted",
        )
        self.stream, self.version, self.detail = stream, version, detail


class EvidenceCorrupt(HistoryCorrupt):
    def __init__(self, digest: str, detail: str) -> None:
        sentence = f"Evidence {digest[:12]} is not what was recorded: {detail}"
        InterlockError.__init__(self, sentence, hint="restore the database from its backup")
        self.stream, self.version, self.digest, self.detail = "evidence", 0, digest, detail


class SpoolDamaged(InterlockError):
    def __init__(self, place: str, line: int, detail: str) -> None:
        hint = "nothing of it was stored; `interlock recover` goes on from what the store has"
        super().__init__(f"Line {line} of {place} is not what was spooled: {detail}", hint=hint)
        self.place, self.line, self.detail = place, line, detail


class Stranded(InterlockError):
    exit_code = 4


class RolloutUnrecorded(Stranded):
    """`at` says where it broke off, `timers` in how many seconds each host restores the old state by itself."""

    def __init__(self, rollout: str, at: str, timers: Mapping[str, float], cause: InterlockError) -> None:
        waits = [f"the timer on {h}, if armed, restores the old state within {s:g} s" for h, s in timers.items()]
        host = "; ".join(waits) or "no host restores anything by itself"
        sentence = f"Rollout {rollout} broke off {at}; nothing more of it is recorded, neither state is proven"
        way_on = f"`interlock recover {rollout}` (`--take-over`: without waiting for this one's lease)"
        super().__init__(f"{sentence}; {host}. {cause}", hint=f"{cause.hint or 'mend that'}; then {way_on}")
        self.rollout, self.at, self.timers = rollout, at, dict(timers)
