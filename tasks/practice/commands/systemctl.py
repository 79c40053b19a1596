"""systemctl (systemd 252), the verbs that a deployment uses."""

import asyncio
import signal

from tasks.hosts.port import Completed
from tasks.practice.clock import stamp
from tasks.practice.commands.call import Call, Table, ok, options
from tasks.practice.ends import job_failure
from tasks.practice.show import of_service, of_timer, printed, unit_file_state, unknown
from tasks.practice.timers import Timer
from tasks.practice.verify import verify

VERSION = (
    "systemd 252 (252.38-1~deb12u1)\n"
    "+PAM +AUDIT +SELINUX +APPARMOR +IMA +SMACK +SECCOMP +GCRYPT -GNUTLS +OPENSSL +ACL +BLKID +CURL +ELFUTILS "
    "+FIDO2 +IDN2 -IDN +IPTC +KMOD +LIBCRYPTSETUP +LIBFDISK +PCRE2 -PWQUALITY +P11KIT +QRENCODE +TPM2 +BZIP2 "
    "+LZ4 +XZ +ZLIB +ZSTD -BPF_FRAMEWORK -XKBCOMMON +UTMP +SYSVINIT default-hierarchy=unified\n"
)
_LONG = [
    "version",
    "property=",
    "value",
    "no-pager",
    "no-block",
    "signal=",
    "kill-whom=",
    "quiet",
    "full",
    "plain",
    "no-legend",
    "all",
    "now",
    "no-ask-password",
]
_MAIN = ("main", "main-fail")


async def systemctl(call: Call) -> Completed:
    given, operands = options(call, "p:qs:la", _LONG)
    if "version" in given:
        return ok(VERSION)
    verb, *names = operands or ["list-units"]
    units = [name if "." in name else f"{name}.service" for name in names]
    if verb in ("start", "stop", "restart"):
        return await _jobs(call, verb, units, wait="no-block" not in given)
    if verb not in _VERBS:
        return Completed(1, b"", f"Unknown command verb {verb}.\n".encode())
    if verb in _PRIVILEGED and not call.root:
        return Completed(1, b"", _denied(verb, units))
    return await _VERBS[verb](call, given, units)


async def _jobs(call: Call, verb: str, names: list[str], *, wait: bool) -> Completed:
    if not call.root:
        return Completed(1, b"", b"".join(_denied(verb, [name]) + _see(name).encode() for name in names))
    err, status, queued = "", 0, []
    for name in names:
        refusal, code, hint = _refusal(call, verb, name)
        if not refusal:
            try:
                job = call.machine.systemd.enqueue(name, verb)
            except KeyError:  # it was loaded for the question alone, and is unloaded again
                refusal, code, hint = _not_there(verb, name)
            else:
                queued.append((name, job, call.machine.systemd.services.get(name)))
        if refusal:
            err, status = err + f"Failed to {verb} {name}: {refusal}\n{hint}", code
    err += "".join(_CHANGED.format(name=n) for n, _, s in queued if s and call.machine.systemd.needs_reload(s))
    for name, job, service in queued if wait else ():
        outcome = await asyncio.shield(job)
        if outcome == "canceled":
            err, status = err + f"Job for {name} canceled.\n", 1
        elif outcome == "failed":
            err, status = err + job_failure(name, service.status.result if service else ""), 1
    return Completed(status, b"", err.encode())


def _refusal(call: Call, verb: str, name: str) -> tuple[str, int, str]:
    """Why systemd takes no job for the unit, the exit status, and a second line; all empty where it does."""
    systemd = call.machine.systemd
    if systemd.timer(name) is not None:
        return "", 0, ""
    if "@." in name:
        return f"Unit name {name} is missing the instance name.", 1, _see(name)
    service = systemd.service(name)
    if service is None:
        return _not_there(verb, name)
    unit = service.unit
    if verb == "stop" or unit.load_state == "loaded":
        return "", 0, ""
    if unit.load_state == "masked":
        return f"Unit {name} is masked.", 1, ""
    if unit.load_state == "bad-setting":
        return unit.load_error, 1, _see(name)
    words = "failed to load properly, please adjust/correct and reload service manager"
    return f"Unit {name} {words}: {unit.load_error}", 1, _see(name)


def _not_there(verb: str, name: str) -> tuple[str, int, str]:
    return f"Unit {name} not {'loaded' if verb == 'stop' else 'found'}.", 5, ""


def _see(name: str) -> str:
    return f"See system logs and 'systemctl status {name}' for details.\n"


async def _show(call: Call, given: dict[str, str], names: list[str]) -> Completed:
    systemd = call.machine.systemd
    blocks = []
    for name in names:
        service = systemd.service(name)
        timer = systemd.timer(name)
        properties = of_timer(timer) if timer else of_service(systemd, service) if service else unknown(name)
        asked = [p for p in given.get("property", given.get("p", "")).split(",") if p]
        blocks.append(printed(properties, asked, value="value" in given))
    return ok("\n".join(blocks))


_CHANGED = (
    "Warning: The unit file, source configuration file or drop-ins of {name} changed on disk. "
    "Run 'systemctl daemon-reload' to reload units.\n"
)
_OUTDATED = """# Warning: {name} changed on disk, the version systemd has loaded is outdated.
# This output shows the current version of the unit's original fragment and drop-in files.
# If fragments or drop-ins were added or removed, they are not properly reflected in this output.
# Run 'systemctl daemon-reload' to reload units.
"""


async def _cat(call: Call, given: dict[str, str], names: list[str]) -> Completed:
    systemd = call.machine.systemd
    out = ""
    for name in names:
        service = systemd.service(name)
        timer = systemd.timers.get(name)
        unit = service.unit if service else timer.unit if timer else None
        if unit is None or not unit.fragment:
            return Completed(1, out.encode(), f"No files found for {name}.\n".encode())
        stale = service is not None and systemd.needs_reload(service)
        out += _OUTDATED.format(name=name) if stale else ""
        paths = [path for path in (unit.fragment, *unit.drop_ins) if call.files.exists(path)]
        out += "\n".join(f"# {path}\n{call.files.read(path).decode('utf-8', 'replace')}" for path in paths)
    return ok(out)


async def _reset_failed(call: Call, given: dict[str, str], names: list[str]) -> Completed:
    systemd = call.machine.systemd
    err = ""
    for name in names or list(systemd.services):
        if (service := systemd.loaded(name)) is not None:
            service.reset_failed()
        elif name not in systemd.timers:
            err += f"Failed to reset failed state of unit {name}: Unit {name} not loaded.\n"
    return Completed(1 if err else 0, b"", err.encode())


async def _kill(call: Call, given: dict[str, str], names: list[str]) -> Completed:
    word = given.get("signal", given.get("s", "SIGTERM"))
    number = int(word) if word.isdigit() else signal.Signals[word if word.startswith("SIG") else f"SIG{word}"]
    for name in names:
        service = call.machine.systemd.loaded(name)
        if service is None:
            return Completed(1, b"", f"Failed to kill unit {name}: Unit {name} not loaded.\n".encode())
        main = service.status.main_pid
        only = given.get("kill-whom", "all") in _MAIN
        for pid in [main] if only else list(service.cgroup.members()):
            service.cgroup.signal(pid, number)
    return ok()


async def _is_active(call: Call, given: dict[str, str], names: list[str]) -> Completed:
    systemd = call.machine.systemd
    states = []
    for name in names:
        unit = systemd.timers.get(name) or systemd.service(name)
        states.append("unknown" if unit is None else unit.active if isinstance(unit, Timer) else unit.status.active)
    shown = "".join(f"{'inactive' if state == 'unknown' else state}\n" for state in states)
    status = 0 if "active" in states else 3
    return Completed(status, b"" if {"q", "quiet"} & given.keys() else shown.encode())


async def _is_enabled(call: Call, given: dict[str, str], names: list[str]) -> Completed:
    service = call.machine.systemd.service(names[0])
    if service is None:
        return Completed(1, b"", f"Failed to get unit file state for {names[0]}: No such file or directory\n".encode())
    state = unit_file_state(call.machine.systemd, service.unit)
    return Completed(0 if state in ("enabled", "static") else 1, f"{state}\n".encode())


async def _enable(call: Call, given: dict[str, str], names: list[str]) -> Completed:
    err = ""
    for name in names:
        service = call.machine.systemd.service(name)
        if service is None:
            return Completed(1, b"", f"Failed to enable unit: Unit file {name} does not exist.\n".encode())
        wants = "/etc/systemd/system/multi-user.target.wants"
        call.files.mkdir(wants, parents=True)
        if not call.files.exists(f"{wants}/{name}"):
            call.files.symlink(service.unit.fragment, f"{wants}/{name}")
            err += f"Created symlink {wants}/{name} -> {service.unit.fragment}.\n"
    return await _linked(call, given, err, "start", names)


async def _disable(call: Call, given: dict[str, str], names: list[str]) -> Completed:
    err = ""
    for name in names:
        path = f"/etc/systemd/system/multi-user.target.wants/{name}"
        if call.files.exists(path):
            call.files.remove(path)
            err += f'Removed "{path}".\n'
        elif call.machine.systemd.service(name) is None:
            return Completed(1, b"", f"Failed to disable unit: Unit file {name} does not exist.\n".encode())
    return await _linked(call, given, err, "stop", names)


async def _linked(call: Call, given: dict[str, str], said: str, verb: str, names: list[str]) -> Completed:
    """After a change of links: PID 1 reads them anew, and with `--now` the units are started or stopped as well."""
    call.machine.systemd.daemon_reload()
    told = b"" if {"q", "quiet"} & given.keys() else said.encode()
    if "now" not in given:
        return Completed(0, b"", told)
    done = await _jobs(call, verb, names, wait="no-block" not in given)
    return Completed(done.status, b"", told + done.stderr)


async def _daemon_reload(call: Call, given: dict[str, str], names: list[str]) -> Completed:
    call.machine.systemd.daemon_reload()
    return ok()


async def _list_timers(call: Call, given: dict[str, str], names: list[str]) -> Completed:
    timers = [t for t in call.machine.systemd.timers.values() if t.active == "active"]
    now, wall = call.machine.clock.monotonic_us(), call.machine.clock.now().timestamp()
    rows = [("NEXT", "LEFT", "LAST", "PASSED", "UNIT", "ACTIVATES")]
    for timer in timers:
        left = max(0, timer.next_us - now) // 1_000_000
        rows.append((_clock(wall + left), f"{left}s left", "-", "-", timer.name, timer.service))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = [" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return ok("\n".join([*lines, "", f"{len(timers)} timers listed."]) + "\n")


def _clock(at: float) -> str:
    return stamp(round(at * 1_000_000))


def _denied(verb: str, names: list[str]) -> bytes:
    what = f"{verb} {names[0]}" if names else "reload daemon"
    return f"Failed to {what}: Interactive authentication required.\n".encode()


_PRIVILEGED = ("reset-failed", "kill", "enable", "disable", "daemon-reload")
_VERBS = {
    "show": _show,
    "cat": _cat,
    "reset-failed": _reset_failed,
    "kill": _kill,
    "is-active": _is_active,
    "is-enabled": _is_enabled,
    "enable": _enable,
    "disable": _disable,
    "daemon-reload": _daemon_reload,
    "list-timers": _list_timers,
}


async def systemd_analyze(call: Call) -> Completed:
    _, operands = options(call, "", ["man=", "recursive-errors="])
    match operands:
        case ["verify", path]:
            problems, usable = verify(call.machine, path)
            return Completed(0 if usable else 1, b"", "".join(f"{line}\n" for line in problems).encode())
    return Completed(1, b"", b"Unknown command verb.\n")


PROGRAMS: Table = {"systemctl": systemctl, "systemd-analyze": systemd_analyze}
