"""`systemd-analyze verify`: what systemd 252 says of a unit file (sentences taken from the real program)."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tasks.practice.unit_values import is_signal
from tasks.practice.unitfile import UnitText, parse_boolean, parse_span, read_unit_text, split_words
from tasks.practice.units import KILL_MODES, RESTARTS, TYPES, Exec, find_drop_ins

if TYPE_CHECKING:
    from tasks.practice.host import PracticeMachine

_SECTIONS = ("Unit", "Service", "Install")
_UNIT_WORDS = """
    Description Documentation Wants Requires Requisite BindsTo PartOf Upholds Conflicts Before After OnFailure
    OnSuccess StopWhenUnneeded RefuseManualStart RefuseManualStop AllowIsolate DefaultDependencies CollectMode
    StartLimitIntervalSec StartLimitInterval StartLimitBurst StartLimitAction FailureAction SuccessAction
    RequiresMountsFor JobTimeoutSec IgnoreOnIsolate SourcePath RebootArgument PropagatesReloadTo
    ReloadPropagatedFrom JoinsNamespaceOf
"""
_SERVICE_WORDS = """
    Type ExecStart ExecStartPre ExecStartPost ExecStop ExecStopPost ExecReload ExecCondition Restart
    RestartSec TimeoutStartSec TimeoutStopSec TimeoutSec TimeoutAbortSec RuntimeMaxSec WatchdogSec
    RemainAfterExit GuessMainPID PIDFile BusName NotifyAccess SuccessExitStatus RestartPreventExitStatus
    RestartForceExitStatus KillMode KillSignal SendSIGKILL SendSIGHUP FinalKillSignal RestartKillSignal
    WatchdogSignal User Group SupplementaryGroups DynamicUser WorkingDirectory RootDirectory Environment
    EnvironmentFile PassEnvironment UnsetEnvironment StandardInput StandardOutput StandardError
    SyslogIdentifier SyslogFacility SyslogLevel LogLevelMax LogExtraFields LogNamespace
    LogRateLimitIntervalSec LogRateLimitBurst Nice OOMScoreAdjust OOMPolicy UMask Slice Delegate DeviceAllow
    DevicePolicy NoNewPrivileges CapabilityBoundingSet AmbientCapabilities SecureBits SystemCallFilter
    SystemCallArchitectures LockPersonality MountFlags BindPaths BindReadOnlyPaths TemporaryFileSystem
    ReadOnlyPaths ReadWritePaths InaccessiblePaths StateDirectory StateDirectoryMode CacheDirectory
    LogsDirectory ConfigurationDirectory RuntimeDirectory RuntimeDirectoryMode RuntimeDirectoryPreserve
    LoadCredential SetCredential TTYPath TimerSlackNSec NUMAPolicy NUMAMask RemoveIPC KeyringMode
    StartLimitInterval StartLimitBurst StartLimitAction FailureAction RebootArgument PAMName
    FileDescriptorStoreMax ProcSubset TimeoutStartFailureMode TimeoutStopFailureMode
"""
_UNIT_KEYS, _SERVICE_KEYS = frozenset(_UNIT_WORDS.split()), frozenset(_SERVICE_WORDS.split())
_SERVICE_FAMILIES = re.compile(
    r"(Limit|Protect|Private|Restrict|Memory|CPU|IO|Tasks|IP|Startup|Block|Managed|UtmpI|AppArmor|SELinux)[A-Z]?\w*"
)
_INSTALL_KEYS = frozenset({"WantedBy", "RequiredBy", "UpheldBy", "Alias", "Also", "DefaultInstance"})
_BOOLEANS = ("RemainAfterExit", "SendSIGKILL", "SendSIGHUP", "NoNewPrivileges", "DynamicUser", "DefaultDependencies")
_CHOICES = {
    "Type": (TYPES, "service type"),
    "Restart": (RESTARTS, "service restart specifier"),
    "KillMode": (KILL_MODES, "kill mode specification"),
}
_SPANS = {
    "RestartSec": "Failed to parse sec value",
    "RuntimeMaxSec": "Failed to parse sec value",
    "StartLimitIntervalSec": "Failed to parse sec value",
    "StartLimitInterval": "Failed to parse sec value",
    "TimeoutStopSec": "Failed to parse time value",
    "TimeoutStartSec": "Failed to parse TimeoutStartSec= parameter",
    "TimeoutSec": "Failed to parse TimeoutSec= parameter",
}


_EXECS = ("ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost", "ExecReload", "ExecStop", "ExecStopPost")


def verify(machine: "PracticeMachine", path: str) -> tuple[list[str], bool]:
    """The sentences, and whether systemd would take the unit; an unknown key is only a warning."""
    name = path.rpartition("/")[2]
    if not machine.files.exists(path):
        return [f"Unit {name} not found."], False
    text = read_unit_text(machine.files.read(path).decode("utf-8", "replace"))
    problems = [f"{path}:{number}: {words}" for number, words in text.problems] + list(_warnings(path, text))
    if text.broken:
        words = "failed to load properly, please adjust/correct and reload service manager: Bad message"
        return [*problems, f"Unit {name} {words}"], False
    if name.endswith(".service"):
        for drop_in in find_drop_ins(machine.files, name):  # the real one too, by name
            read_unit_text(machine.files.read(drop_in).decode("utf-8", "replace"), text)
        fatal = list(_fatal(machine, name, text))
        return problems + fatal, not fatal
    return problems, True


def _warnings(path: str, text: UnitText) -> Iterator[str]:
    strange: set[str] = set()
    for number, section, key, value in text.lines:
        if section not in _SECTIONS and not section.startswith("X-"):
            if section not in strange:
                yield f"{path}:{number - 1}: Unknown section '{section}'. Ignoring."
            strange.add(section)
        elif not _known(section, key):
            yield f"{path}:{number}: Unknown key '{key}' in section [{section}], ignoring."
        elif value and (words := _bad_value(key, value)):
            yield f"{path}:{number}: {words}"


def _known(section: str, key: str) -> bool:
    if key.startswith("X-") or section.startswith("X-"):
        return True
    if section == "Unit":
        return key in _UNIT_KEYS or key.startswith(("Condition", "Assert"))
    if section == "Install":
        return key in _INSTALL_KEYS
    return key in _SERVICE_KEYS or bool(_SERVICE_FAMILIES.fullmatch(key))


def _bad_value(key: str, value: str) -> str:
    """systemd's sentence about a value that it ignores; empty for a good one."""
    if key in _CHOICES:
        allowed, what = _CHOICES[key]
        return "" if value in allowed else f"Failed to parse {what}, ignoring: {value}"
    if key in _SPANS:
        return "" if _reads(parse_span, value) else f"{_SPANS[key]}, ignoring: {value}"
    if key in _BOOLEANS:
        return "" if _reads(parse_boolean, value) else f"Failed to parse boolean value, ignoring: {value}"
    if key == "StartLimitBurst":
        return "" if value.isdigit() else f"Failed to parse unsigned value, ignoring: {value}"
    if key == "KillSignal":
        return "" if is_signal(value) else f"Failed to parse signal name, ignoring: {value}"
    if key == "Environment":
        return _bad_environment(value)
    if key.startswith("Exec") and not _reads(split_words, value):
        return f'Unbalanced quoting, ignoring: "{value}"'
    return ""


def _bad_environment(value: str) -> str:
    if not _reads(split_words, value):
        return f"Invalid syntax, ignoring: {value}"
    wrong = next((word for word in split_words(value) if not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", word)), "")
    return f"Invalid environment assignment, ignoring: {wrong}" if wrong else ""


def _reads(parse: Callable[[str], object], value: str) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True


def _fatal(machine: "PracticeMachine", name: str, text: UnitText) -> Iterator[str]:
    starts = text.all("Service", "ExecStart")
    if not starts and not text.all("Service", "ExecStop"):
        yield f"{name}: Service has no ExecStart=, ExecStop=, or SuccessAction=. Refusing."
        yield f"Unit {name} has a bad unit file setting."
        return
    if len(starts) > 1 and text.last("Service", "Type", "simple") != "oneshot":
        words = (
            "Service has more than one ExecStart= setting, which is only allowed for Type=oneshot services. Refusing."
        )
        yield f"{name}: {words}"
        yield f"Unit {name} has a bad unit file setting."
        return
    for command in _commands(machine, name, text):
        if not machine.owns(command.path) and (reason := _not_executable(machine, command.path)):
            yield f"{name}: Command {command.path} is not executable: {reason}"


def _commands(machine: "PracticeMachine", name: str, text: UnitText) -> Iterator[Exec]:
    for value in (value for key in _EXECS for value in text.all("Service", key)):
        bare = value.lstrip("@-:+!|")
        try:
            words = split_words(bare)
        except ValueError:
            continue
        if words and "-" not in value.removesuffix(bare):  # one whose failure is ignored may be absent
            yield Exec(words[0], tuple(words))


def _not_executable(machine: "PracticeMachine", path: str) -> str:
    found = machine.which(path) or path
    try:
        entry = machine.files.stat(found)
    except OSError as error:
        return "" if machine.runner.finds(found) else error.strerror or str(error)
    return "" if entry.mode & 0o111 else "Permission denied"
