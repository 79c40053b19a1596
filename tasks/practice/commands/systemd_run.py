"""systemd-run (systemd 252): transient services and one-shot transient timers."""

import asyncio

from tasks.hosts.port import Completed
from tasks.practice.commands.call import Call, Table
from tasks.practice.ends import job_failure
from tasks.practice.unitfile import parse_span

_FLAGS = ("--collect", "-G", "--no-block", "--quiet", "-q", "--remain-after-exit", "-r", "--no-ask-password", "--wait")
_VALUES = [
    "--unit",
    "-u",
    "--property",
    "-p",
    "--on-active",
    "--timer-property",
    "--description",
    "--setenv",
    "-E",
    "--uid",
    "--gid",
    "--service-type",
    "--working-directory",
]
_UNIT_KEYS = ("CollectMode", "Description", "StartLimitIntervalSec", "StartLimitBurst")


class Unusable(Exception):  # named by consequence, as all errors here are
    """Words that systemd-run refuses."""


async def systemd_run(call: Call) -> Completed:
    try:
        given, argv = _parse(call.words[1:])
    except Unusable as error:
        return _refused(str(error))
    timer = "--on-active" in given
    kind = "timer" if timer else "service"
    if not call.root:
        return _refused(f"Failed to start transient {kind} unit: Interactive authentication required.")
    if not argv:
        return _refused("Command line to execute required.")
    program = _program(call, argv[0])
    if not program:
        return _refused(f"Failed to find executable {argv[0]}: No such file or directory")
    name = (given.get("--unit") or given.get("-u") or [f"run-r{call.machine.systemd.new_invocation()}"])[-1]
    stem = name.removesuffix(".service").removesuffix(".timer")
    text = unit_text(given, [program, *argv[1:]])
    try:
        return await (_timer(call, stem, given, text) if timer else _service(call, stem, given, text))
    except FileExistsError as taken:
        words = f"Unit {taken.args[0]} was already loaded or has a fragment file."
        return _refused(f"Failed to start transient {kind} unit: {words}")
    except ValueError:
        return _refused(f"Failed to parse timer value: {given['--on-active'][-1]}")


def _parse(words: tuple[str, ...]) -> tuple[dict[str, list[str]], list[str]]:
    given: dict[str, list[str]] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        name, sep, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in _VALUES and not sep and rest:
            value = rest.pop(0)
        elif name not in _FLAGS and not (name in _VALUES and sep):
            raise Unusable(f"systemd-run: unrecognized option '{word}'")
        given.setdefault(name, []).append(value)
    return given, rest


def unit_text(given: dict[str, list[str]], argv: list[str]) -> str:
    """The transient unit's file. Specifiers in the words are not expanded, variables are (as systemd 252 does)."""
    properties = [*given.get("--property", []), *given.get("-p", [])]
    unit = [p for p in properties if p.partition("=")[0] in _UNIT_KEYS]
    service = [p for p in properties if p.partition("=")[0] not in _UNIT_KEYS]
    unit.append(
        f"Description={(given.get('--description') or [' '.join(argv)])[-1]}".replace("\n", " ").replace("%", "%%")
    )
    if {"--collect", "-G"} & given.keys():
        unit.append("CollectMode=inactive-or-failed")
    if {"--remain-after-exit", "-r"} & given.keys():
        service.append("RemainAfterExit=yes")
    for option, key in (
        ("--uid", "User"),
        ("--gid", "Group"),
        ("--service-type", "Type"),
        ("--working-directory", "WorkingDirectory"),
    ):
        service += [f"{key}={value}" for value in given.get(option, [])]
    service += [f'Environment="{_escaped(value)}"' for value in [*given.get("--setenv", []), *given.get("-E", [])]]
    service.append("ExecStart=" + " ".join(f'"{_escaped(word)}"' for word in argv))
    head = "# This is a transient unit file, created programmatically via the systemd API. Do not edit.\n"
    return (
        head
        + "[Unit]\n"
        + "".join(f"{line}\n" for line in unit)
        + "[Service]\n"
        + "".join(f"{line}\n" for line in service)
    )


def _escaped(word: str) -> str:
    table = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "%": "%%"}
    return "".join(table.get(char, char) for char in word)


def _program(call: Call, word: str) -> str:
    """systemd-run looks it up before it asks for the unit; empty where there is none."""
    found = call.machine.which(word) or ""
    return found if call.machine.owns(found) or call.machine.runner.finds(found) else ""


async def _service(call: Call, stem: str, given: dict[str, list[str]], text: str) -> Completed:
    name = f"{stem}.service"
    service = call.machine.systemd.add_transient(name, text)
    job = call.machine.systemd.enqueue(name, "start")
    if "--no-block" in given:
        return _told(given, f"Running as unit: {name}\n")
    outcome = await asyncio.shield(job)
    if outcome == "canceled":
        return _told(given, f"Job for {name} canceled.\n", 1)
    if outcome == "failed":
        return _told(given, job_failure(name, service.status.result), 1)
    return _told(given, f"Running as unit: {name}\n")


async def _timer(call: Call, stem: str, given: dict[str, list[str]], text: str) -> Completed:
    systemd = call.machine.systemd
    span = parse_span(given["--on-active"][-1])
    name = f"{stem}.timer"
    if name in systemd.timers:
        raise FileExistsError(name)
    service = systemd.add_transient(f"{stem}.service", text)
    settings = [f"OnActiveSec={given['--on-active'][-1]}", "RemainAfterElapse=no", *given.get("--timer-property", [])]
    timer_text = f"[Unit]\nDescription={service.unit.description}\n[Timer]\n" + "".join(
        f"{line}\n" for line in settings
    )
    systemd.add_timer(name, service.unit.description, span, timer_text)
    await systemd.start(name)
    return _told(given, f"Running timer as unit: {name}\nWill run service as unit: {stem}.service\n")


def _told(given: dict[str, list[str]], text: str, status: int = 0) -> Completed:
    return Completed(status, b"", b"" if {"--quiet", "-q"} & given.keys() else text.encode())


def _refused(text: str) -> Completed:
    return Completed(1, b"", f"{text}\n".encode())


PROGRAMS: Table = {"systemd-run": systemd_run}
