"""Ports that the kernel itself may give to an outgoing connection before the service binds them."""

from collections.abc import Iterator, Mapping

from state.revision import Revision
from tasks.argv import cat
from tasks.hosts.port import Host
from tasks.sequence import READ_TIMEOUT_S

RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"
"""Linux, ip-sysctl.rst: two numbers, and a list of ports and of ranges that are left out, joined by commas."""


async def port_doubts(host: Host, revision: Revision) -> list[str]:
    """A sentence for each port of the revision that lies in the host's range for outgoing connections; reads only."""
    answers = await host.run_all([cat(RANGE), cat(RESERVED)], timeout_s=READ_TIMEOUT_S)
    given, reserved = (answer.text if answer.ok else "" for answer in answers)
    return [
        f"{name} {port} lies in the range from which {host.name} serves outgoing connections "
        f"({' to '.join(given.split())}): one may have it when the service starts; choose a port below, or add it to "
        "net.ipv4.ip_local_reserved_ports"
        for name, port in _ports(revision)
        if is_given_away(port, given, reserved)
    ]


def is_given_away(port: int, given: str, reserved: str) -> bool:
    """Whether the kernel may give the port away, by the texts of both settings; False where they do not say."""
    bounds = given.split()
    if len(bounds) != 2 or not all(word.isdecimal() for word in bounds):
        return False
    kept = [_span(part) for part in reserved.strip().split(",")]
    return int(bounds[0]) <= port <= int(bounds[1]) and not any(first <= port <= last for first, last in kept)


def _ports(revision: Revision) -> Iterator[tuple[str, int]]:
    """The endpoint's, and every other that an argument names."""
    endpoint = int(revision.endpoint.rpartition(":")[2].strip("/"))
    yield "port", endpoint
    yield from (found for found in _named(revision.arguments) if found[1] != endpoint)


def _named(arguments: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    for name, value in sorted(arguments.items()):
        if name.endswith("port") and type(value) is int:
            yield name, value


def _span(part: str) -> tuple[int, int]:
    first, _, last = part.partition("-")
    return (int(first), int(last or first)) if first.isdecimal() else (0, -1)
