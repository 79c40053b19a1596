"""What is wrong, or will bite, in a unit file. Facts checked with systemd 252."""

import difflib
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from state.inspection.report import UnitFinding
from state.inspection.text import quote
from state.inspection.unit_directives import BELONG_IN_UNIT, SECTIONS
from state.inspection.unit_words import is_balanced, seconds_of, split_words
from state.redaction import REDACTED, redact, redact_argv

if TYPE_CHECKING:
    from state.inspection.unit import Directive, ParsedUnit

_PLACEHOLDER = re.compile(
    r"\{\{.*?\}\}|\{%.*?%\}|__[A-Z][A-Z0-9_]*__|<[A-Z][A-Za-z0-9_ -]{2,40}>|<(?:your|path|model|user"
    r"|token)[\w -]*>|@[A-Z][A-Z0-9_]+@"
    r"|\bCHANGE[_-]?ME\b|\bREPLACE[_-]?ME\b|\bYOUR[_-][A-Z_]+\b|\bTODO\b|\bFIXME\b|/path/to/|\bXXX+\b",
    re.IGNORECASE,
)
_CASED = re.compile(r"<redacted>", re.IGNORECASE)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh"})
_CONTAINERS = frozenset(
    {"docker", "podman", "nerdctl", "apptainer", "singularity", "systemd-nspawn", "docker-compose", "lxc"}
)
_SCRIPT = re.compile(r"\.(?:sh|bash|zsh|py|pl|rb)$")
_ABOUT_ENGINE = re.compile(r"sglang|vllm|llama|\bllm\b|serve|inference|speculative", re.IGNORECASE)
_ARGS_NAME = re.compile(r"ARGS?|OPTS?|OPTIONS|FLAGS?|EXTRA|PARAMS?")
_ALONE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_INSTANCE = re.compile(r"(?<!%)(?:%%)*%([iI])")
_PATHS = ("EnvironmentFile", "WorkingDirectory", "PIDFile", "RootDirectory")
_OF_OTHERS = frozenset({"Timer", "Socket", "Path", "Mount", "Automount", "Swap", "Container", "Pod", "Kube"})
"""Sections of units that start no program of their own, or have it generated."""
_RESTARTS = frozenset({"always", "on-failure", "on-abnormal", "on-abort", "on-watchdog", "on-success"})
_MEMORY = ("MemoryMax", "MemoryHigh", "MemoryLimit", "LimitAS", "LimitDATA", "LimitRSS")

Severity = Literal["error", "warning"]


def find_all(unit: "ParsedUnit", engine: str | None) -> tuple[UnitFinding, ...]:
    """All findings, by line."""
    rules: tuple[Callable[[ParsedUnit, str | None], Iterator[UnitFinding]], ...] = (
        _directives, _specifiers, _placeholders, _paths, _processes, _hidden, _restarts, _arguments, _missing, _secrets,
        _memory,
    )  # fmt: skip
    found = [finding for rule in rules for finding in rule(unit, engine)]
    return tuple(sorted(found, key=lambda finding: finding.line))


def _finding(code: str, severity: Severity, directive: "Directive", text: str) -> UnitFinding:
    return UnitFinding(code, severity, directive.name, quote(text), directive.line)


def _directives(unit: "ParsedUnit", engine: str | None) -> Iterator[UnitFinding]:
    for d in unit.directives:
        known = SECTIONS.get(d.section)
        if known is None or d.name.startswith("X-"):
            continue
        if d.section == "Service" and d.name in BELONG_IN_UNIT:
            yield _finding(
                "misplaced-directive", "warning", d, f"{d.name}= belongs in [Unit]; here it is heard for old units only"
            )
        elif d.name not in known:
            right = [section for section, names in SECTIONS.items() if d.name in names]
            if right:
                yield _finding(
                    "misplaced-directive",
                    "error",
                    d,
                    f"{d.name}= is ignored in [{d.section}]; it belongs in [{right[0]}]",
                )
            else:
                near = difflib.get_close_matches(d.name, known, 1)
                hint = f"; {near[0]}= may be meant" if near else ""
                yield _finding("unknown-directive", "error", d, f"systemd ignores {d.name}= in [{d.section}]{hint}")


def _specifiers(unit: "ParsedUnit", engine: str | None) -> Iterator[UnitFinding]:
    if unit.name is None or "@" in unit.name:
        return
    for d in unit.directives:
        if found := _INSTANCE.search(d.value):
            yield _finding("specifier-in-non-template", "warning", d, f"%{found[1]} is empty: this unit is no template")


def _placeholders(unit: "ParsedUnit", engine: str | None) -> Iterator[UnitFinding]:
    for d in unit.directives:
        found = _PLACEHOLDER.search(_CASED.sub("", d.value))
        if found and not (found[0].startswith(("__", "@", "<")) and not found[0].strip("_@<>")[:1].isalpha()):
            yield _finding("placeholder-left", "error", d, f"`{found[0]}` was never filled in")


def _paths(unit: "ParsedUnit", engine: str | None) -> Iterator[UnitFinding]:
    for d in unit.in_force("Environment"):
        for word in split_words(d.value):
            name, _, value = word.partition("=")
            if found := re.search(r"\$\{?[A-Za-z_]\w*\}?|(?:^|:)~(?:/|$)", value):
                yield _finding(
                    "path-not-expanded",
                    "error",
                    d,
                    f"`{found[0].lstrip(':')}` in {name} stays as it is written; systemd does not expand it here",
                )
    for d in (d for name in _PATHS for d in unit.in_force(name)):
        path = d.value.lstrip("-")
        if path.startswith(("$", "~/")) or "/$" in path:
            yield _finding("path-not-expanded", "error", d, f"{d.name}= does not expand `{path}`")
        elif not path.startswith(("/", "%", "~", "{", "_")):
            yield _finding("relative-path", "error", d, f"{d.name}= wants an absolute path, not `{path}`")
    for d, argv in _started(unit):
        if argv[0].startswith(("$", "~")):
            yield _finding("path-not-expanded", "error", d, f"the program's path is not expanded: `{argv[0]}`")
        elif "/" in argv[0] and not argv[0].startswith(("/", "%", "{", "_")):
            yield _finding("relative-path", "error", d, f"the program's path is relative: `{argv[0]}`")
        for word in argv[1:]:
            if re.match(r"(?:--?[\w-]+=)?~/", word):
                yield _finding("path-not-expanded", "error", d, f"`~` is not expanded in `{word}`")


def _started(unit: "ParsedUnit") -> Iterator[tuple["Directive", tuple[str, ...]]]:
    """Each command in force beside the directive that gives it; words are redacted."""
    for d in unit.in_force("ExecStart"):
        words = split_words(d.value)
        if words:
            yield d, redact_argv((words[0].lstrip("@-:+!|"), *words[1:]))


def _processes(unit: "ParsedUnit", engine: str | None) -> Iterator[UnitFinding]:
    mode, kill = unit.last("KillMode"), unit.last("SendSIGKILL")
    if mode and mode.value in ("process", "none"):
        yield _finding(
            "leaves-processes",
            "error",
            mode,
            f"KillMode={mode.value} leaves rank processes with their GPU memory behind",
        )
    if kill and kill.value.lower() in ("no", "false", "0", "off", "n", "f"):
        yield _finding("leaves-processes", "warning", kill, "SendSIGKILL=no leaves whatever does not stop by itself")
    kind = unit.last("Type")
    if kind and kind.value == "oneshot":
        yield _finding(
            "oneshot-service", "warning", kind, "Type=oneshot waits for the program to end, which a server does not do"
        )


def _hidden(unit: "ParsedUnit", engine: str | None) -> Iterator[UnitFinding]:
    about = " ".join(d.value for d in unit.directives) + (unit.name or "")
    for d, argv in _started(unit):
        program = argv[0].rsplit("/", 1)[-1]
        inner = program.startswith("python") and len(argv) > 1 and _SCRIPT.search(argv[1]) is not None
        if program in _SHELLS:
            yield _finding(
                "hidden-argv", "warning", d, f"`{program}` stands between systemd and the engine's arguments"
            )
        elif program in _CONTAINERS:
            yield _finding(
                "hidden-argv", "warning", d, f"`{program}` runs the engine in a container; its arguments are read there"
            )
        elif engine is None and (_SCRIPT.search(argv[0]) or inner or _ABOUT_ENGINE.search(about)):
            yield _finding(
                "hidden-argv", "warning", d, f"`{argv[1] if inner else argv[0]}` hides the engine's arguments"
            )


def _restarts(unit: "ParsedUnit", engine: str | None) -> Iterator[UnitFinding]:
    restart = unit.last("Restart")
    if restart is None or restart.value not in _RESTARTS:
        return
    interval = _limit(unit, "StartLimitIntervalSec", "StartLimitInterval")
    burst = unit.value("StartLimitBurst", "Unit") or unit.value("StartLimitBurst")
    delay = seconds_of(unit.value("RestartSec") or "100ms")
    window = seconds_of(interval) if interval else 10.0
    times = int(burst) if burst and burst.isdigit() else 5
    disabled = window in (0.0, None) or times == 0
    never = isinstance(window, float) and isinstance(delay, float) and delay * times >= window
    if disabled or never or (interval is None and burst is None):
        yield _finding(
            "restart-without-limit",
            "warning",
            restart,
            f"{times} failures within {window or 0:g} s are never reached, so systemd restarts for ever"
            if not disabled and isinstance(window, float)
            else "nothing limits the restarts",
        )


def _limit(unit: "ParsedUnit", *names: str) -> str | None:
    for name in names:
        value = unit.value(name, "Unit")
        if value is not None:
            return value
    return unit.value("StartLimitInterval")


def _arguments(unit: "ParsedUnit", engine: str | None) -> Iterator[UnitFinding]:
    for d, argv in _started(unit):
        for before, word in pairwise(argv):
            found = _ALONE.fullmatch(word)
            if found is None:
                continue
            value = unit.environment.get(found[1], "")
            several = len(split_words(value)) > 1
            if several or _ARGS_NAME.search(found[1]) or not before.startswith("-"):
                yield _finding(
                    "argument-not-split", "error", d, f"`{word}` stays one word; write `${found[1]}` to have it split"
                )


def _missing(unit: "ParsedUnit", engine: str | None) -> Iterator[UnitFinding]:
    if not unit.exec_start and not _OF_OTHERS.intersection(d.section for d in unit.directives):
        services = [d for d in unit.directives if d.section == "Service"]
        broken = next((d for d in unit.in_force("ExecStart") if not is_balanced(d.value)), None)
        text = "systemd ignores ExecStart=: its quotes are not balanced" if broken else "no ExecStart= is in force"
        line = broken.line if broken else services[0].line if services else 1
        yield UnitFinding("missing-exec", "error", "ExecStart", text, line)


def _secrets(unit: "ParsedUnit", engine: str | None) -> Iterator[UnitFinding]:
    for d in unit.directives:
        words = split_words(d.value)
        shown = redact_argv(words)
        if d.value and (any(REDACTED in word for word in shown) or REDACTED in redact(d.value)):
            yield _finding(
                "secret-in-unit",
                "error",
                d,
                f"a secret stands in {d.name}=, readable for every user; move it to a root-only EnvironmentFile",
            )


def _memory(unit: "ParsedUnit", engine: str | None) -> Iterator[UnitFinding]:
    for name in _MEMORY:
        d = unit.last(name)
        if d and d.value not in ("infinity", "100%"):
            yield _finding(
                "memory-limit",
                "warning",
                d,
                f"{name}={d.value} also counts page cache and pinned memory while weights load",
            )
