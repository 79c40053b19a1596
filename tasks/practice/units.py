"""Service units as systemd 252 loads them: the fragment by precedence, drop-ins on top, every default filled in."""

import functools
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tasks.practice.files import Files
from tasks.practice.unit_values import boolean, one_of, signal_number, span, timeout
from tasks.practice.unitfile import (
    INFINITY,
    UnitText,
    expand_specifiers,
    read_unit_text,
    split_words,
)

UNIT_PATH = (
    "/run/systemd/transient",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
DEFAULT_TIMEOUT_US = 90_000_000
TYPES = ("simple", "exec", "oneshot", "forking", "dbus", "notify", "idle")
RESTARTS = ("no", "always", "on-success", "on-failure", "on-abnormal", "on-abort", "on-watchdog")
KILL_MODES = ("control-group", "mixed", "process", "none")

_INTERVALS = (("Unit", "StartLimitIntervalSec"), ("Unit", "StartLimitInterval"), ("Service", "StartLimitInterval"))


@dataclass(frozen=True, slots=True)
class Exec:
    """One command line; `argv[0]` is what the program sees as its name, `path` what is run."""

    path: str
    argv: tuple[str, ...]
    ignore_failure: bool = False


@dataclass(frozen=True, slots=True)
class ServiceUnit:
    """What systemd holds in memory about a service unit. Times are in microseconds."""

    name: str
    load_state: str = "not-found"
    load_error: str = ""
    fragment: str = ""
    drop_ins: tuple[str, ...] = ()
    stamps: tuple[tuple[str, int], ...] = ()
    description: str = ""
    type: str = "simple"
    exec_start: tuple[Exec, ...] = ()
    exec_start_pre: tuple[Exec, ...] = ()
    exec_stop: tuple[Exec, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    environment_files: tuple[tuple[str, bool], ...] = ()
    kill_mode: str = "control-group"
    kill_signal: int = signal.SIGTERM
    send_sigkill: bool = True
    timeout_start_us: int = DEFAULT_TIMEOUT_US
    timeout_stop_us: int = DEFAULT_TIMEOUT_US
    runtime_max_us: int = INFINITY
    restart: str = "no"
    restart_us: int = 100_000
    start_limit_interval_us: int = 10_000_000
    start_limit_burst: int = 5
    remain_after_exit: bool = False
    success_exit: frozenset[int] = frozenset()
    user: str = ""
    group: str = ""
    working_directory: str = ""
    identifier: str = ""
    asked_slice: str = ""
    collect: str = "inactive"
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def slice(self) -> str:
        """The slice that it asks for; instances of a template have one of their own."""
        prefix, at, _ = self.name.partition("@")
        own = "system-" + prefix.replace("-", r"\x2d") + ".slice" if at else "system.slice"
        return self.asked_slice or own

    @property
    def control_group(self) -> str:
        """Its place among the cgroups: `a-b.slice` is within `a.slice`."""
        stem = self.slice.removesuffix(".slice")
        ends = [match.start() for match in re.finditer("-", stem)] if stem != "-" else []
        folders = [f"/{stem[:end]}.slice" for end in (*ends, len(stem))] if stem != "-" else []
        return f"{''.join(folders)}/{self.name}"

    @property
    def transient(self) -> bool:
        return self.fragment.startswith("/run/systemd/transient/")

    @property
    def status_name(self) -> str:
        """The unit as systemd's own records name it: `a.service - Words`."""
        return self.name if self.description in ("", self.name) else f"{self.name} - {self.description}"


def load_service(files: Files, name: str, hostname: str) -> ServiceUnit:
    """Read a unit from the disk. A unit that is not there, masked or unusable says so in `load_state`."""
    fragment = next((p for d in UNIT_PATH for n in _fragment_names(name) if files.exists(p := f"{d}/{n}")), "")
    if not fragment:
        return ServiceUnit(name, description=name)
    text = _text(files, fragment)
    stamp = (fragment, files.stat(fragment).mtime_ns)
    if files.resolve(fragment) == "/dev/null" or not text.strip():
        return ServiceUnit(name, "masked", fragment=fragment, stamps=(stamp,), description=name)
    drop_ins = tuple(find_drop_ins(files, name))
    stamps = (stamp, *((path, files.stat(path).mtime_ns) for path in drop_ins))
    texts = (text, *(_text(files, path) for path in drop_ins))
    return replace(_parsed(texts, name, hostname, fragment, drop_ins), stamps=stamps)


def _text(files: Files, path: str) -> str:
    return files.read(path).decode("utf-8", "replace")


@functools.lru_cache(maxsize=256)
def _parsed(texts: tuple[str, ...], name: str, hostname: str, fragment: str, drop_ins: tuple[str, ...]) -> ServiceUnit:
    """The fragment's text with those of the drop-ins on top; the same ones are loaded again and again."""
    unit = UnitText()
    for text in texts:
        read_unit_text(text, unit)
    if unit.broken:
        return ServiceUnit(name, "error", "Bad message", fragment, drop_ins, description=name)
    return _service(unit, name, hostname, fragment, drop_ins)


def wanted(files: Files) -> frozenset[str]:
    """Units that a target wants or requires: there is a link in its folder, which `systemctl enable` makes."""
    base = "/etc/systemd/system"
    names = files.names(base) if files.exists(base) else []
    folders = [name for name in names if name.endswith((".wants", ".requires"))]
    return frozenset(unit for folder in folders for unit in files.names(f"{base}/{folder}"))


def changed_on_disk(files: Files, unit: ServiceUnit) -> bool:
    """NeedDaemonReload: the fragment, a drop-in or the list of drop-ins is not what was loaded."""
    if not unit.fragment:
        return False
    if not files.exists(unit.fragment):
        return True
    now = (unit.fragment, *find_drop_ins(files, unit.name))
    return unit.stamps != tuple((path, files.stat(path).mtime_ns) for path in now)


def find_drop_ins(files: Files, name: str) -> list[str]:
    """Drop-in files in the order systemd applies them: by file name, the stronger directory winning a name."""
    found: dict[str, str] = {}
    for folder in _drop_in_folders(name):
        if files.exists(folder):
            for base in files.names(folder):
                if base.endswith(".conf"):
                    found.setdefault(base, f"{folder}/{base}")
    return [found[base] for base in sorted(found)]


@functools.lru_cache(maxsize=256)
def _drop_in_folders(name: str) -> tuple[str, ...]:
    """The folders in which systemd looks for drop-ins, the stronger first."""
    *names, shared = _drop_in_names(name)
    own = [f"{d}/{n}.d" for d in UNIT_PATH for n in names]
    return (*own, *(f"{d}/{shared}.d" for d in UNIT_PATH))


def _fragment_names(name: str) -> list[str]:
    prefix, at, rest = name.partition("@")
    return [name, f"{prefix}@.{rest.rpartition('.')[2]}"] if at and not rest.startswith(".") else [name]


def _drop_in_names(name: str) -> list[str]:
    """The name itself, its template, both cut short after each dash (the instance kept), and the type."""
    stem, _, suffix = name.rpartition(".")
    prefix, at, instance = stem.partition("@")
    cuts = [prefix[: m.end()] for m in re.finditer("-", prefix) if m.end() < len(prefix)][::-1]
    instances = [n for cut in cuts for n in _fragment_names(f"{cut}@{instance}.{suffix}")] if at and instance else []
    return [*_fragment_names(name), *(f"{cut}.{suffix}" for cut in cuts), *instances, suffix]


def _service(
    text: UnitText,
    name: str,
    hostname: str,
    fragment: str,
    drop_ins: tuple[str, ...],
) -> ServiceUnit:
    def last(key: str, default: str = "", section: str = "Service") -> str:
        return expand_specifiers(text.last(section, key, default), name, hostname=hostname)

    kind = one_of(last("Type"), TYPES, "simple")
    execs = {
        key: tuple(_execs(text.all("Service", key), name, hostname))
        for key in ("ExecStart", "ExecStartPre", "ExecStop")
    }
    refused = not (execs["ExecStart"] or execs["ExecStop"]) or (kind != "oneshot" and len(execs["ExecStart"]) != 1)
    start_default = INFINITY if kind == "oneshot" else DEFAULT_TIMEOUT_US
    both = span(last("TimeoutSec"), -1)
    burst = _either(text, ("Unit", "StartLimitBurst"), ("Service", "StartLimitBurst"))
    return ServiceUnit(
        name=name,
        load_state="bad-setting" if refused else "loaded",
        load_error=f"Unit {name} has a bad unit file setting." if refused else "",
        fragment=fragment,
        drop_ins=drop_ins,
        description=last("Description", name, "Unit"),
        type=kind,
        exec_start=execs["ExecStart"],
        exec_start_pre=execs["ExecStartPre"],
        exec_stop=execs["ExecStop"],
        environment=tuple(_environment(text, name, hostname)),
        environment_files=tuple(_environment_files(text, name, hostname)),
        kill_mode=one_of(last("KillMode"), KILL_MODES, "control-group"),
        kill_signal=signal_number(last("KillSignal", "SIGTERM")),
        send_sigkill=boolean(last("SendSIGKILL"), True),
        timeout_start_us=timeout(last("TimeoutStartSec"), both if both >= 0 else start_default),
        timeout_stop_us=timeout(last("TimeoutStopSec"), both if both >= 0 else DEFAULT_TIMEOUT_US),
        runtime_max_us=timeout(last("RuntimeMaxSec"), INFINITY),
        restart=one_of(last("Restart"), RESTARTS, "no"),
        restart_us=span(last("RestartSec"), 100_000),
        start_limit_interval_us=span(_either(text, *_INTERVALS), 10_000_000),
        start_limit_burst=int(burst) if burst.isdigit() else 5,
        remain_after_exit=boolean(last("RemainAfterExit"), False),
        success_exit=frozenset(
            int(w) for v in text.all("Service", "SuccessExitStatus") for w in v.split() if w.isdigit()
        ),
        user=last("User"),
        group=last("Group"),
        working_directory=last("WorkingDirectory"),
        identifier=last("SyslogIdentifier"),
        asked_slice=asked if (asked := last("Slice")).endswith(".slice") else "",
        collect=one_of(last("CollectMode", section="Unit"), ("inactive", "inactive-or-failed"), "inactive"),
        texts={key: last(key) for key in ("MemoryMax", "LimitNOFILE", "LimitMEMLOCK", "TasksMax") if last(key)},
    )


def _execs(values: Sequence[str], name: str, hostname: str) -> Iterator[Exec]:
    for value in values:
        prefix = re.match(r"[@\-:+!|]*", value)
        marks = prefix[0] if prefix else ""
        try:
            words = [expand_specifiers(w, name, hostname=hostname) for w in split_words(value[len(marks) :])]
        except ValueError:
            continue
        if words:
            argv = words[1:] if "@" in marks and len(words) > 1 else words
            yield Exec(words[0], tuple(argv), "-" in marks)


def _environment(text: UnitText, name: str, hostname: str) -> Iterator[tuple[str, str]]:
    for value in text.all("Service", "Environment"):
        try:
            words = split_words(value)
        except ValueError:
            continue
        for word in words:
            key, sep, content = word.partition("=")
            if sep and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
                yield key, expand_specifiers(content, name, hostname=hostname)


def _environment_files(text: UnitText, name: str, hostname: str) -> Iterator[tuple[str, bool]]:
    for value in text.all("Service", "EnvironmentFile"):
        yield expand_specifiers(value.removeprefix("-"), name, hostname=hostname), value.startswith("-")


def _either(text: UnitText, *places: tuple[str, str]) -> str:
    """The first of the settings that is there; systemd still takes some in the section where they once belonged."""
    return next((value for section, key in places if (value := text.last(section, key))), "")
