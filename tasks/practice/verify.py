"""`systemd-analyze verify`: what systemd would say of a unit file (systemd 252; sentences read from the real program)."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.practice.unitfile import UnitText, parse_boolean, parse_span, read_unit_text, split_words
from tasks.practice.units import KILL_MODES, RESTARTS, TYPES, Exec

if TYPE_CHECKING:
    from tasks.practice.host import PracticeMachine

_SECTIONS = ("Unit", "Service", "Install")
_UNIT_WORDS = """
    Description Documentation Wants Requires Requisite BindsTo PartOf Upholds Conflicts Before After OnFailure OnSuccess
    StopWhenUnneeded RefuseManualStart RefuseManualStop AllowIsolate DefaultDependencies CollectMode StartLimitIntervalSec
    StartLimitInterval StartLimitBurst StartLimitAction FailureAction SuccessAction RequiresMountsFor JobTimeoutSec
    IgnoreOnIsolate SourcePath RebootArgument PropagatesReloadTo ReloadPropagatedFrom JoinsNamespaceOf
"""
_SERVICE_WORDS = """
    Type ExecStart ExecStartPre ExecStartPost ExecStop ExecStopPost ExecReload ExecCondition Restart RestartSec
    TimeoutStartSec TimeoutStopSec TimeoutSec TimeoutAbortSec RuntimeMaxSec WatchdogSec RemainAfterExit GuessMainPID PIDFile
    BusName NotifyAccess SuccessExitStatus RestartPreventExitStatus RestartForceExitStatus KillMode KillSignal SendSIGKILL
    SendSIGHUP FinalKillSignal RestartKillSignal WatchdogSignal User Group SupplementaryGroups DynamicUser WorkingDirectory
    RootDirectory Environment EnvironmentFile PassEnvironment UnsetEnvironment StandardInput StandardOutput StandardError
    SyslogIdentifier SyslogFacility SyslogLevel LogLevelMax LogExtraFields LogNamespace LogRateLimitIntervalSec
    LogRateLimitBurst Nice OOMScoreAdjust OOMPolicy UMask Slice Delegate DeviceAllow DevicePolicy NoNewPrivileges
    CapabilityBoundingSet AmbientCapabilities SecureBits SystemCallFilter SystemCallArchitectures LockPersonality
    MountFlags BindPaths BindReadOnlyPaths TemporaryFileSystem ReadOnlyPaths ReadWritePaths InaccessiblePaths StateDirectory
    StateDirectoryMode CacheDirectory LogsDirectory ConfigurationDirectory RuntimeDirectory RuntimeDirectoryMode
    RuntimeDirectoryPreserve LoadCredential SetCredential TTYPath TimerSlackNSec NUMAPolicy NUMAMask RemoveIPC KeyringMode
    PAMName FileDescriptorStoreMax ProcSubset TimeoutStartFailureMode TimeoutStopFailureMode
"""
_UNIT_KEYS, _SERVICE_KEYS = frozenset(_UNIT_WORDS.split()), frozenset(_SERVICE_WORDS.split())
_SERVICE_FAMILIES = re.compile(
    r"(Limit|Protect|Private|Restrict|Memory|CPU|IO|Tasks|IP|Startup|Block|Managed|UtmpI|AppArmor|SELinux)[A-Z]?\w*"
)
_INSTALL_KEYS = frozenset({"WantedBy", "RequiredBy", "UpheldBy", "Alias", "Also", "DefaultInstance"})
_SPANS = ("RestartSec", "TimeoutStartSec", "TimeoutStopSec", "TimeoutSec", "RuntimeMaxSec", "StartLimitIntervalSec")
_BOOLEANS = ("RemainAfterExit", "SendSIGKILL", "SendSIGHUP", "NoNewPrivileges", "DynamicUser", "DefaultDependencies")
_CHOICES = {
    "Type": (TYPES, "service type"),
    "Restart": (RESTARTS, "service restart specifier"),
    "KillMode": (KILL_MODES, "kill mode"),
}


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
    if key in _CHOICES and value not in _CHOICES[key][0]:
        return f"Failed to parse {_CHOICES[key][1]}, ignoring: {value}"
    try:
        if key in _SPANS:
            parse_span(value)
        elif key in _BOOLEANS:
            parse_boolean(value)
        elif key.startswith("Exec"):
            split_words(value)
    except ValueError:
        kind = "time value" if key in _SPANS else "boolean value" if key in _BOOLEANS else ""
        return f"Failed to parse {kind}, ignoring: {value}" if kind else f'Ignoring unknown escape sequences: "{value}"'
    return ""


def _fatal(machine: "PracticeMachine", name: str, text: UnitText) -> Iterator[str]:
    from tasks.practice.commands import owns

    starts = text.all("Service", "ExecStart")
    if not starts and not text.all("Service", "ExecStop"):
        yield f"{name}: Service has no ExecStart=, ExecStop=, or SuccessAction=. Refusing."
        yield f"Unit {name} has a bad unit file setting."
        return
    if len(starts) > 1 and text.last("Service", "Type", "simple") != "oneshot":
        yield f"{name}: Service has more than one ExecStart= setting, which is only allowed for Type=oneshot services. Refusing."
        yield f"Unit {name} has a bad unit file setting."
        return
    for command in _commands(machine, name, text):
        if not owns(command.path) and (reason := _not_executable(machine, command.path)):
            yield f"{name}: Command {command.path} is not executable: {reason}"


def _commands(machine: "PracticeMachine", name: str, text: UnitText) -> Iterator[Exec]:
    for value in text.all("Service", "ExecStart"):
        try:
            words = split_words(value.lstrip("@-:+!"))
        except ValueError:
            continue
        if words:
            yield Exec(words[0], tuple(words))


def _not_executable(machine: "PracticeMachine", path: str) -> str:
    try:
        entry = machine.files.stat(path)
    except OSError as error:
        return error.strerror or str(error)
    return "" if entry.mode & 0o111 else "Permission denied"
