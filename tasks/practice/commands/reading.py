"""coreutils and grep that only read (GNU coreutils 9.1, grep 3.8, findutils 4.9)."""

import hashlib
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

from tasks import argv
from tasks.hosts.port import Completed
from tasks.practice.commands.call import Call, Table, ok, options, said, words_of
from tasks.practice.files import Entry


async def cat(call: Call) -> Completed:
    return _each(call, call.read)


async def sha256sum(call: Call) -> Completed:
    def line(path: str) -> bytes:
        digest = hashlib.sha256(call.read(path)).hexdigest()
        escaped = path.replace("\\", "\\\\").replace("\n", "\\n")
        return f"{chr(92) if escaped != path else ''}{digest}  {escaped}\n".encode()

    return _each(call, line)


def _each(call: Call, show: Callable[[str], bytes]) -> Completed:
    """What `show` makes of each operand; those that fail are told on stderr, and the status is 1."""
    _, paths = options(call)
    if not paths:
        return ok(call.stdin)
    out, err = b"", b""
    for path in paths:
        try:
            out += show(path)
        except OSError as error:
            err += f"{call.program}: {path}: {words_of(error)}\n".encode()
    return Completed(1 if err else 0, out, err)


async def stat(call: Call) -> Completed:
    given, paths = options(call, "c:L", ["format=", "dereference"])
    form = given.get("format", given.get("c", "%n"))
    follow = "L" in given or "dereference" in given
    out, err = "", ""
    for path in paths:
        try:
            entry = (call.files.stat if follow else call.files.lstat)(call.absolute(path))
            out += _formatted(form, path, entry) + "\n"
        except OSError as error:
            err += f"stat: cannot statx '{path}': {words_of(error)}\n"
    return Completed(1 if err else 0, out.encode(), err.encode())


def _formatted(form: str, path: str, entry: Entry) -> str:
    kind = {
        "file": "regular file" if entry.size else "regular empty file",
        "directory": "directory",
        "link": "symbolic link",
    }
    table = {
        "%a": f"{entry.mode:o}", "%U": entry.owner, "%G": entry.group, "%s": str(entry.size), "%n": path,
        "%F": kind[entry.kind], "%Y": str(entry.mtime_ns // 10**9), "%%": "%",
    }  # fmt: skip
    done, i = "", 0
    while i < len(form):
        piece = form[i : i + 2]
        done += table.get(piece, form[i])
        i += 2 if piece in table else 1
    return done


async def ls(call: Call) -> Completed:
    _, paths = options(call, "1A")
    out, err = "", ""
    for path in paths:
        try:
            entry = call.files.stat(call.absolute(path))
            names = call.files.names(call.absolute(path)) if entry.kind == "directory" else [path]
            out += "".join(f"{name}\n" for name in names if not name.startswith(".") or entry.kind != "directory")
        except OSError as error:
            err += f"ls: cannot access '{path}': {words_of(error)}\n"
    return Completed(2 if err else 0, out.encode(), err.encode())


async def readlink(call: Call) -> Completed:
    given, (path, *_) = options(call, "fem")
    try:
        if "e" in given:
            return ok(f"{_existing(call, path)}\n")
        if "f" in given:
            return ok(f"{call.files.resolve(call.absolute(path))}\n")
        entry = call.files.lstat(call.absolute(path))
    except OSError:
        return Completed(1)
    return ok(f"{entry.target}\n") if entry.kind == "link" else Completed(1)


def _existing(call: Call, path: str) -> str:
    real = call.files.resolve(call.absolute(path))
    call.files.lstat(real)
    return real


async def test(call: Call) -> Completed:
    match call.words[1:]:
        case ("-e" | "-d" | "-f" | "-x" | "-r" | "-L" | "-s" as flag, path):
            return Completed(0 if _holds(call, flag, path) else 1)
        case ("!", "-e" | "-d" | "-f" | "-x" | "-r" | "-L" | "-s" as flag, path):
            return Completed(1 if _holds(call, flag, path) else 0)
        case (flag, _):
            return said(call, f"{flag}: unary operator expected", 2)
    return Completed(1)


def _holds(call: Call, flag: str, path: str) -> bool:
    try:
        entry = (call.files.lstat if flag == "-L" else call.files.stat)(call.absolute(path))
    except OSError:
        return False
    answers = {
        "-e": True,
        "-L": entry.kind == "link",
        "-d": entry.kind == "directory",
        "-f": entry.kind == "file",
        "-x": bool(entry.mode & 0o111),
        "-s": entry.size > 0,
    }
    return answers[flag] if flag in answers else call.root or bool(entry.mode & 0o044)


async def grep(call: Call) -> Completed:
    given, operands = options(call, "qxFsoEe:")
    if {"o", "E", "e"} <= given.keys():
        return _matches(call, given["e"], operands)
    text, *paths = operands
    if not {"q", "x", "F"} <= given.keys():
        return said(call, "only -qxF and -oE are known here", 2)
    missing = b""
    for path in paths:
        try:
            if text.encode() in call.read(path).splitlines():
                return ok()
        except OSError as error:
            missing += f"grep: {path}: {words_of(error)}\n".encode()
    return Completed(2 if missing else 1, b"", missing)


def _matches(call: Call, expression: str, paths: list[str]) -> Completed:
    """What each line has that matches; of POSIX's expressions those that Python reads alike, and `[[:space:]]`."""
    pattern, found, missing = re.compile(expression.replace("[[:space:]]", r"\s").encode()), b"", b""
    for path in paths:
        try:
            found += b"".join(m[0] + b"\n" for line in call.read(path).splitlines() for m in pattern.finditer(line))
        except OSError as error:
            missing += f"grep: {path}: {words_of(error)}\n".encode()
    return Completed(2 if missing else 0 if found else 1, found, missing)


async def find(call: Call) -> Completed:
    """The two searches that interlock makes: open device files of any process, and the drop-ins of a unit."""
    if call.words[1:2] == ("-H",) and tuple(call.words[-4:-1]) == ("-maxdepth", "1", "-name"):
        return _named(call, call.words[2:-4], call.words[-1])
    patterns = [word for before, word in pairwise(call.words) if before == "-lname"]
    if patterns and tuple(call.words) == tuple(argv.holders(patterns).words):
        return _open_files(call, patterns)
    return said(call, "only the searches for open device files and for drop-ins are known here")


def _named(call: Call, folders: Sequence[str], pattern: str) -> Completed:
    out, err = "", ""
    for folder in folders:
        try:
            call.files.stat(folder)
            names = [name for name in call.files.names(folder) if fnmatchcase(name, pattern)]
            out += "".join(f"{folder}/{name}\n" for name in names)
        except OSError as error:
            err += f"find: ‘{folder}’: {words_of(error)}\n"
    return Completed(1 if err else 0, out.encode(), err.encode())


def _open_files(call: Call, patterns: list[str]) -> Completed:
    opened = call.machine.open_devices()
    if not call.root:
        denied = "".join(f"find: ‘/proc/{pid}/fd’: Permission denied\n" for pid in sorted(opened))
        return Completed(1 if denied else 0, b"", denied.encode())
    lines = [
        f"/proc/{pid}/fd/{fd} {device}\n"
        for pid, devices in sorted(opened.items())
        for fd, device in enumerate(devices, 3)
        if any(fnmatchcase(device, pattern) for pattern in patterns)
    ]
    return ok("".join(lines))


PROGRAMS: Table = {
    "cat": cat,
    "sha256sum": sha256sum,
    "stat": stat,
    "ls": ls,
    "readlink": readlink,
    "test": test,
    "[": test,
    "grep": grep,
    "find": find,
}
