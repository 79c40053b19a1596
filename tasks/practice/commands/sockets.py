"""ss (iproute2 6.1): listening TCP sockets with their processes."""

import re

from tasks.hosts.port import Completed
from tasks.practice.commands.call import Call, Table, ok, said
from tasks.practice.sockets import Listener, listeners


async def ss(call: Call) -> Completed:
    flags = [word for word in call.words[1:] if word.startswith("-")]
    letters = set("".join(flags).replace("-", ""))
    expression = " ".join(word for word in call.words[1:] if not word.startswith("-"))
    if not {"H", "l", "t", "n"} <= letters:
        return said(call, "only -H -ltnp is known here")
    port = re.fullmatch(r"sport = :(\d+)", expression.strip("() "))
    if expression and not port:
        return Completed(1, b"", f'Error: an inet prefix is expected rather than "{expression}".\n'.encode())
    rows = _listening(call, int(port[1]) if port else None)
    return ok(_table(rows, shows_holders="p" in letters, root=call.root))


def _listening(call: Call, port: int | None) -> list[Listener]:
    machine = call.machine
    real = listeners(port) if machine.root is not None else []
    known = {at for row in real for at in [row.port]}
    played = [
        Listener("127.0.0.1", at, ((_comm(group.members()[pid]), pid, 30),))
        for group in machine.systemd.groups()
        for at, pid in group.listening().items()
        if at not in known
    ]
    strange = [
        Listener("127.0.0.1", at, ((_comm(s.argv), pid, 3),)) for pid, s in machine.strangers.items() for at in s.ports
    ]
    return [row for row in (*real, *played, *strange) if port in (None, row.port)]


def _comm(argv: object) -> str:
    words = argv if isinstance(argv, (tuple, list)) else ("?",)
    return str(words[0]).rpartition("/")[2].partition(" ")[0][:15]


def _table(rows: list[Listener], *, shows_holders: bool, root: bool) -> str:
    width = max((len(f"{row.address}:{row.port}") for row in rows), default=0)
    far = max((len(row.anywhere) for row in rows), default=0)
    lines = []
    for row in rows:
        users = ",".join(f'("{comm}",pid={pid},fd={fd})' for comm, pid, fd in row.holders)
        shown = f" users:({users})" if shows_holders and root and users else ""
        here, there = f"{row.address}:{row.port}".ljust(width), row.anywhere.ljust(far if shown else 0)
        lines.append(f"LISTEN 0      128    {here} {there}{shown}\n")
    return "".join(lines)


PROGRAMS: Table = {"ss": ss}
