"""How words become a run: sudo, timeout, the shell's scripts, then the table of programs."""

import asyncio
import getopt
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from tasks.argv import WRITE_VALUE
from tasks.hosts.port import Completed
from tasks.practice.commands import files, gpu, journalctl, reading, sockets, system, systemctl, systemd_run
from tasks.practice.commands.call import Call, Table, ok, said, words_of
from tasks.practice.process import ProgramEnded, SpawnFailed
from tasks.script import Line, Script, parse

if TYPE_CHECKING:
    from tasks.practice.host import PracticeMachine

_OWN_FOLDERS = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/")

PROGRAMS: Table = {
    **reading.PROGRAMS,
    **files.PROGRAMS,
    **system.PROGRAMS,
    **systemctl.PROGRAMS,
    **systemd_run.PROGRAMS,
    **journalctl.PROGRAMS,
    **sockets.PROGRAMS,
    **gpu.PROGRAMS,
}


def own_name(word: str) -> str:
    """The machine's own program that a word names, empty for another's."""
    folder, slash, name = word.rpartition("/")
    known = name in PROGRAMS or name in _WRAPPERS
    return name if known and (not slash or f"{folder}/" in _OWN_FOLDERS) else ""


def owns(word: str) -> bool:
    return bool(own_name(word))


async def run_words(machine: "PracticeMachine", words: Sequence[str], *, stdin: bytes, user: str) -> Completed:
    """Run what a session asked for. Raises ConnectionCut."""
    return await run(Call(machine, tuple(words), user, stdin))


def call_for(
    machine: "PracticeMachine", words: Sequence[str], *, stdin: bytes, user: str
) -> Callable[[], Awaitable[Completed]]:
    return lambda: run(Call(machine, tuple(words), user, stdin))


def follow_lines(machine: "PracticeMachine", words: Sequence[str], *, user: str) -> AsyncGenerator[bytes, None]:
    """The lines of a program that goes on: journalctl --follow, with or without sudo. Raises ProgramEnded."""
    call = Call(machine, tuple(words), user)
    while call.program == "sudo":
        if refused := _refused_by_sudo(call):
            raise ProgramEnded(refused)
        call = call.of(_after_options(call.words), user="root")
    machine.faults.note(call.words)
    if call.program != "journalctl":
        raise ProgramEnded(said(call, "does not go on here"))
    return journalctl.follow(call)


async def run(call: Call) -> Completed:
    name = own_name(call.words[0]) if call.words else ""
    if name in _WRAPPERS:
        return await _WRAPPERS[name](call)
    words = (name, *call.words[1:]) if name else call.words
    return await call.machine.faults.around(words, lambda: _leaf(name, call))


async def _leaf(name: str, call: Call) -> Completed:
    if name:
        try:
            return await PROGRAMS[name](call)
        except getopt.GetoptError as error:
            return said(call, str(error), 1)
    return await _external(call)


async def _external(call: Call) -> Completed:
    path = call.words[0] if call.words else ""
    if "/" not in path:
        return Completed(127, b"", f"sh: 1: {path}: not found\n".encode())
    env = call.machine.session_environment(call.user)
    try:
        return await call.machine.runner.run(path, call.words, env, call.stdin)
    except SpawnFailed as refused:
        status = 126 if refused.reason == "Permission denied" else 127
        return Completed(status, b"", f"sh: 1: {path}: {refused.reason}\n".encode())


async def _sudo(call: Call) -> Completed:
    words = _after_options(call.words)
    if refused := _refused_by_sudo(call):
        return refused
    if words and not owns(words[0]) and not ("/" in words[0] and call.files.exists(words[0])):
        return said(call, f"{words[0]}: command not found")
    return await run(call.of(words, user="root"))


def _refused_by_sudo(call: Call) -> Completed | None:
    refused = call.machine.faults.sudo_refused and not call.root
    return said(call, "a password is required") if refused else None


def _after_options(words: Sequence[str]) -> list[str]:
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        if rest.pop(0) == "--":
            break
    return rest


async def _timeout(call: Call) -> Completed:
    words = _after_options(call.words)
    seconds, rest = float(words[0].removesuffix("s")), words[1:]
    if not owns(rest[0]) and "/" not in rest[0]:
        return said(call, f"failed to run command ‘{rest[0]}’: No such file or directory", 127)
    try:
        async with asyncio.timeout(seconds or None):
            return await run(call.of(rest))
    except TimeoutError:
        return Completed(124)


async def _shell(call: Call) -> Completed:
    match call.words[1:]:
        case ("-c", text, *rest) if text == WRITE_VALUE:
            return await call.machine.faults.around(call.words, lambda: _write_value(call, *rest))
        case ("-c", text, *_):
            return await _script(call, text)
        case (path,):
            try:
                text = call.read(path).decode("utf-8", "replace")
            except OSError as error:
                return said(call, f"0: cannot open {path}: {_dash(error, creating=False)}", 2)
            return await _script(call, text)
    return said(call, "only scripts that interlock wrote are understood here", 2)


async def _script(call: Call, text: str) -> Completed:
    try:
        script = parse(text)
    except ValueError as error:
        return said(call, f"1: Syntax error: {error}", 2)
    return await (_batch(call, script) if script.mark else _sequence(call, script.lines))


async def _batch(call: Call, script: Script) -> Completed:
    out, err = b"", b""
    for number, line in enumerate(script.lines, 1):
        done = await run(call.of(line.words, stdin=b""))
        frame = f"\n{script.mark} {number} {done.status}\n".encode()
        out, err = out + done.stdout + frame, err + done.stderr + frame
    return Completed(0, out, err)


async def _sequence(call: Call, lines: Sequence[Line]) -> Completed:
    out, err = b"", b""
    for line in lines:
        done = await run(call.of(line.words, stdin=b""))
        out, err = out + done.stdout, err + done.stderr
        if not done.ok and line.mode == "must":
            err += f"interlock: exit {done.status}: {' '.join(line.words)}\n".encode()
            return Completed(done.status, out, err)
    return Completed(0, out, err)


async def _write_value(call: Call, name: str = "sh", path: str = "", value: str = "") -> Completed:
    """`env printf %s "$2" > "$1"`: the redirection opens the file, and an empty value is no write at all."""
    try:
        call.must_write(path)
        real = call.files.resolve(call.absolute(path))
        if call.files.layer(real) is None:
            return _stored(call, real, value)
        call.files.lstat(real)
    except OSError as error:
        return Completed(2, b"", f"{name}: 1: cannot create {path}: {_dash(error, creating=True)}\n".encode())
    try:
        if value:
            await call.machine.pci.write(real, value)
    except OSError as error:
        return _unwritten(error)
    return ok()


def _unwritten(error: OSError) -> Completed:
    return Completed(1, b"", f"printf: write error: {words_of(error)}\n".encode())


def _stored(call: Call, real: str, value: str) -> Completed:
    fresh = not call.files.exists(real)
    try:
        call.files.write(real, value, owner=(call.user, call.user) if fresh else None)
    except OSError as error:
        if call.files.full:
            return _unwritten(error)
        raise
    return ok()


def _dash(error: OSError, *, creating: bool) -> str:
    """dash's reasons; those about a path that is not there are its own."""
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return "Directory nonexistent" if creating else "No such file"
    return words_of(error)


_WRAPPERS: Table = {"sudo": _sudo, "timeout": _timeout, "sh": _shell, "dash": _shell}
