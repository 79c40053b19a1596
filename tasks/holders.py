"""Who holds a PCI function: processes with one of its device files open or mapped, network interfaces that are up."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from state.steps import DriverMove
from tasks import argv
from tasks.hosts.port import Completed, Host
from tasks.properties import words_of
from tasks.sequence import READ_TIMEOUT_S

UNTOLD = "anon_inode:[[]vfio-device[]]"
"""A device of vfio whose group file has been closed: the kernel does not say which device it is (Linux 6.1)."""

_KINDS = ("vfio-dev", "drm", "sound", "net")
_IFF_UP = 1


@dataclass(frozen=True, slots=True)
class Held:
    """What `sentence` names keeps `address` from being unbound."""

    address: str
    sentence: str


async def holders_of(host: Host, moves: Sequence[DriverMove]) -> list[Held]:
    """All that holds the functions on their present drivers. Reads only; needs root for other users' processes."""
    if not moves:
        return []
    per = len(_KINDS) + 2
    questions = [
        question
        for move in moves
        for question in (
            argv.group_link(move.address),
            argv.nvidia_information(move.address),
            *(argv.listed(move.address, kind) for kind in _KINDS),
        )
    ]
    answers = await host.run_all(questions, timeout_s=READ_TIMEOUT_S)
    patterns = {m.address: list(_patterns(m, answers[per * i : per * i + per])) for i, m in enumerate(moves)}
    interfaces = {m.address: _names(answers[per * i + per - 1]) for i, m in enumerate(moves)}
    return [*await _processes(host, patterns), *await _interfaces(host, interfaces)]


def _patterns(move: DriverMove, answers: Sequence[Completed]) -> Iterator[str]:
    """The device files of a function, as patterns for what a file descriptor's link says."""
    group, information, vfio, cards, sound, _ = answers
    yield f"/sys/devices/*/{move.address}/resource*"
    if move.before == "vfio-pci" and group.ok:
        yield f"/dev/vfio/{group.text.strip().rpartition('/')[2]}"
        yield UNTOLD
    yield from (f"/dev/vfio/devices/{name}" for name in _names(vfio))
    yield from (f"/dev/dri/{name}" for name in _names(cards))
    yield from (f"/dev/snd/*C{name.removeprefix('card')}*" for name in _names(sound) if name.startswith("card"))
    if move.before == "nvidia":
        minor = re.search(r"^Device Minor:\s*(\d+)", information.text, re.M) if information.ok else None
        yield f"/dev/nvidia{minor[1]}" if minor else "/dev/nvidia[0-9]*"


async def _processes(host: Host, patterns: dict[str, list[str]]) -> list[Held]:
    every = list(dict.fromkeys(pattern for some in patterns.values() for pattern in some))
    (read,) = await host.run_all([argv.holders(every)], timeout_s=READ_TIMEOUT_S)
    opened: dict[int, set[str]] = {}
    for line in read.text.splitlines():
        path, _, device = line.partition(" ")
        opened.setdefault(int(path.split("/")[2]), set()).add(device)
    opened = {pid: _told(devices) for pid, devices in opened.items()}
    held = {a: {pid: sorted(d for d in devices if _any(d, some)) for pid, devices in sorted(opened.items())}
            for a, some in patterns.items()}  # fmt: skip
    names = await _commands(host, sorted(opened))
    return [
        Held(address, f"PID {pid} holds {', '.join(devices)}{names.get(pid, '')}")
        for address, found in held.items()
        for pid, devices in found.items()
        if devices
    ]


def _told(devices: set[str]) -> set[str]:
    """A process that has a group's file open too has the device of that group."""
    named = {device for device in devices if not fnmatchcase(device, UNTOLD)}
    return named or devices


def _any(device: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(device, pattern) for pattern in patterns)


async def _commands(host: Host, pids: Sequence[int]) -> dict[int, str]:
    if not pids:
        return {}
    answers = await host.run_all([argv.cmdline(pid) for pid in pids], timeout_s=READ_TIMEOUT_S)
    words = {pid: " ".join(words_of(answer.stdout)) for pid, answer in zip(pids, answers, strict=True)}
    return {pid: f" ({text[:120]})" for pid, text in words.items() if text}


async def _interfaces(host: Host, interfaces: dict[str, list[str]]) -> list[Held]:
    """An unbind would take the network from under a host without a word."""
    pairs = [(address, name) for address, names in interfaces.items() for name in names]
    if not pairs:
        return []
    answers = await host.run_all([argv.interface_flags(*pair) for pair in pairs], timeout_s=READ_TIMEOUT_S)
    return [
        Held(address, f"its network interface {name} is up")
        for (address, name), answer in zip(pairs, answers, strict=True)
        if answer.ok and int(answer.text.strip() or "0", 16) & _IFF_UP
    ]


def _names(listed: Completed) -> list[str]:
    return listed.text.split() if listed.ok else []
