"""Small programs about the host and its processes."""

import signal

from tasks.hosts.port import Completed
from tasks.practice.commands.call import Call, Table, ok, said

_USERS = 1000
"""The UID of anybody but root."""


async def true(call: Call) -> Completed:
    return ok()


async def false(call: Call) -> Completed:
    return Completed(1)


async def identity(call: Call) -> Completed:
    match call.words[1:]:
        case ("-u",):
            return ok(f"{0 if call.root else _USERS}\n")
        case ("-un",) | ("-u", "-n"):
            return ok(f"{call.user}\n")
    return said(call, "only -u and -un are known here")


async def date(call: Call) -> Completed:
    now = call.machine.clock.realtime_us()
    form = call.words[1] if len(call.words) > 1 else ""
    table = {
        "+%s.%N": f"{now // 1_000_000}.{now % 1_000_000 * 1000:09d}\n",
        "+%s": f"{now // 1_000_000}\n",
    }
    return ok(table[form]) if form in table else ok(call.machine.clock.now().strftime("%a %b %e %H:%M:%S UTC %Y\n"))


async def dmesg(call: Call) -> Completed:
    """Debian restricts it to root (kernel.dmesg_restrict)."""
    if not call.root:
        return said(call, "read kernel buffer failed: Operation not permitted")
    return ok("".join(f"{line}\n" for line in call.machine.journal.ring))


async def uname(call: Call) -> Completed:
    return ok(f"{call.machine.kernel_release}\n" if call.words[1:] == ("-r",) else "Linux\n")


async def hostname(call: Call) -> Completed:
    return ok(f"{call.machine.hostname}\n")


async def echo(call: Call) -> Completed:
    return ok(" ".join(call.words[1:]) + "\n")


async def kill(call: Call) -> Completed:
    """`kill -KILL PID…`, as the procps program says it."""
    flag, *pids = call.words[1:] if call.words[1:2] and call.words[1].startswith("-") else ("-TERM", *call.words[1:])
    name = flag.lstrip("-").removeprefix("SIG")
    number = int(name) if name.isdigit() else signal.Signals[f"SIG{name}"]
    err = b""
    for pid in pids:
        known = pid.isdigit() and int(pid) in call.machine.processes()
        if known and not call.root and call.machine.processes()[int(pid)].owner != call.user:
            err += f"kill: ({pid}): Operation not permitted\n".encode()
        elif not known or not call.machine.signal(int(pid), number):
            err += f"kill: ({pid}): No such process\n".encode()
    return Completed(1 if err else 0, b"", err)


PROGRAMS: Table = {
    "true": true,
    "false": false,
    "id": identity,
    "date": date,
    "dmesg": dmesg,
    "uname": uname,
    "hostname": hostname,
    "echo": echo,
    "kill": kill,
}
