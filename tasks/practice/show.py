"""Unit properties as `systemctl show` prints them (systemd 252), in the order of the bus."""

from collections.abc import Iterable, Iterator

from tasks.practice.clock import stamp
from tasks.practice.service import Service
from tasks.practice.status import Times
from tasks.practice.systemd import Systemd
from tasks.practice.timers import Timer
from tasks.practice.unitfile import format_span
from tasks.practice.units import Exec, ServiceUnit

Properties = dict[str, str]
_NEVER: Times = (0, 0)


def unknown(name: str) -> Properties:
    """What systemd says about a unit that it does not know."""
    return {
        "Type": "simple", "Restart": "no", "MainPID": "0", "Result": "success", "NRestarts": "0", "ExecMainPID": "0",
        "ExecMainCode": "0", "ExecMainStatus": "0", "Slice": "", "ControlGroup": "",
        "Id": name, "Names": name, "Description": name,
        "LoadState": "not-found", "LoadError": f"org.freedesktop.systemd1.NoSuchUnit \"Unit {name} not found.\"",
        "ActiveState": "inactive", "SubState": "dead", "FragmentPath": "", "DropInPaths": "", "UnitFileState": "",
        "NeedDaemonReload": "no", "Transient": "no", "InvocationID": "",
    }  # fmt: skip


def of_service(systemd: Systemd, service: Service) -> Properties:
    unit, status = service.unit, service.status
    members = service.cgroup.members()
    return {
        "Type": unit.type,
        "Restart": unit.restart,
        "RestartUSec": format_span(unit.restart_us),
        "TimeoutStartUSec": format_span(unit.timeout_start_us),
        "TimeoutStopUSec": format_span(unit.timeout_stop_us),
        "RuntimeMaxUSec": format_span(unit.runtime_max_us),
        "RemainAfterExit": _yes(unit.remain_after_exit),
        "MainPID": str(status.main_pid),
        "Result": status.result,
        "NRestarts": str(status.n_restarts),
        **_stamps("ExecMainStart", status.times),
        **_stamps("ExecMainExit", status.times),
        "ExecMainPID": str(status.exec_pid),
        "ExecMainCode": str(status.exec_code),
        "ExecMainStatus": str(status.exec_status),
        **{name: text for name, commands in _commands(unit) if (text := "".join(map(_exec, commands)))},
        "Slice": unit.slice,
        "ControlGroup": unit.control_group if members or (status.active, status.sub) in _WITH_CGROUP else "",
        "TasksCurrent": str(len(members)) if members else "[not set]",
        "Environment": " ".join(_quoted(f"{name}={value}") for name, value in unit.environment),
        "EnvironmentFiles": " ".join(f"{p} (ignore_errors={_yes(o)})" for p, o in unit.environment_files),
        **unit.texts,
        "WorkingDirectory": unit.working_directory,
        "User": unit.user,
        "Group": unit.group,
        "KillMode": unit.kill_mode,
        "KillSignal": str(int(unit.kill_signal)),
        "SendSIGKILL": _yes(unit.send_sigkill),
        "Id": unit.name,
        "Names": unit.name,
        "Description": unit.description,
        "LoadState": unit.load_state,
        "ActiveState": status.active,
        "FreezerState": "running",
        "SubState": status.sub,
        "FragmentPath": unit.fragment,
        "DropInPaths": " ".join(unit.drop_ins),
        "UnitFileState": unit_file_state(systemd, unit),
        **{k: v for name in _STATE_TIMES for k, v in _stamps(name, status.times).items()},
        "Job": "1" if systemd.jobs.running(unit.name) else "0",
        "NeedDaemonReload": _yes(systemd.needs_reload(service)),
        "StartLimitIntervalUSec": format_span(unit.start_limit_interval_us),
        "StartLimitBurst": str(unit.start_limit_burst),
        "Transient": _yes(unit.transient),
        "CollectMode": unit.collect,
        "InvocationID": status.invocation,
    }


def of_timer(timer: Timer) -> Properties:
    elapse = format_span(timer.next_us) if timer.next_us else "infinity"
    return {
        "Unit": timer.service,
        "TimersMonotonic": f"{{ OnActiveUSec={format_span(timer.on_active_us)} ; next_elapse={elapse} }}",
        "NextElapseUSecMonotonic": elapse,
        "LastTriggerUSec": stamp(timer.last_us) or "n/a",
        "Result": "success",
        "AccuracyUSec": "1min",
        "RemainAfterElapse": "no",
        "Id": timer.name,
        "Names": timer.name,
        "Description": timer.description,
        "LoadState": "loaded",
        "ActiveState": timer.active,
        "SubState": timer.sub,
        "FragmentPath": timer.unit.fragment,
        "DropInPaths": "",
        "UnitFileState": "transient" if timer.unit.transient else "enabled",
        "NeedDaemonReload": _yes(timer.needs_reload()),
        "Transient": _yes(timer.unit.transient),
        "InvocationID": timer.invocation,
    }


_WITH_CGROUP = (("active", "running"), ("activating", "start"), ("activating", "start-pre"))
_STATE_TIMES = ("StateChange", "InactiveExit", "ActiveEnter", "ActiveExit", "InactiveEnter")


def printed(properties: Properties, asked: Iterable[str], *, value: bool = False) -> str:
    """The lines of `systemctl show`: all that are not empty, or those asked for, empty ones among them."""
    wanted = list(asked)
    shown = [(k, v) for k, v in properties.items() if (k in wanted if wanted else v != "")]
    return "".join(f"{v}\n" if value else f"{k}={v}\n" for k, v in shown)


def unit_file_state(systemd: Systemd, unit: ServiceUnit) -> str:
    if not unit.fragment:
        return ""
    if unit.transient:
        return "transient"
    if unit.load_state == "masked":
        return "masked"
    wanted = any(
        systemd.files.exists(f"/etc/systemd/system/{t}.wants/{unit.name}")
        for t in ("multi-user.target", "default.target")
    )
    installable = b"[Install]" in systemd.files.read(unit.fragment) if systemd.files.exists(unit.fragment) else False
    return "enabled" if wanted else "disabled" if installable else "static"


def _commands(unit: ServiceUnit) -> Iterator[tuple[str, tuple[Exec, ...]]]:
    yield from (("ExecStartPre", unit.exec_start_pre), ("ExecStart", unit.exec_start), ("ExecStop", unit.exec_stop))


def _exec(command: Exec) -> str:
    argv = " ".join(command.argv)
    return (
        f"{{ path={command.path} ; argv[]={argv} ; ignore_errors={_yes(command.ignore_failure)} ; "
        "start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }"
    )


def _stamps(name: str, times: dict[str, Times]) -> Properties:
    real, monotonic = times.get(name, _NEVER)
    return {f"{name}Timestamp": stamp(real), f"{name}TimestampMonotonic": str(monotonic)}


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _quoted(word: str) -> str:
    """systemctl's quoting: double quotes around a word with white space or quotes in it."""
    if not any(char.isspace() or char in "\"'\\$`" for char in word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    return f'"{escaped}"'
