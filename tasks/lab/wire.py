"""The wire to a container host: cut it so that packets are dropped without a word, lose an answer, mend it again."""

import re

from state.errors import StepFailed
from tasks.lab.container import run_in_network
from tasks.lab.record import LabHost

_TABLE = "inet interlock_cut"


def cut(host: LabHost) -> None:
    """Drop every packet to and from the host; its connections stay open and hear nothing."""
    rules = "add rule {t} in iifname host0 drop\nadd rule {t} out oifname host0 drop\n"
    _rules(host, rules.format(t=_TABLE))


def drop_answers(host: LabHost) -> list[int]:
    """Let the host's present SSH connections hear nothing of it, while it hears them; the clients' ports."""
    listed = run_in_network(host, ("ss", "-H", "-t", "-n", "state", "established", "sport", "=", ":22"))
    ports = [int(port) for port in re.findall(r":(\d+)\s*$", listed.text, re.M)]
    if ports:
        _rules(host, f"add rule {_TABLE} out tcp sport 22 {_to(ports)} tcp flags & rst == 0 drop\n")
    return ports


def reset(host: LabHost, ports: list[int]) -> None:
    """Answer whatever those clients send next with a reset."""
    rule = f"add rule {_TABLE} in tcp dport 22 tcp sport {{ {_listed(ports)} }} reject with tcp reset\n"
    _nft(host, rule)


def mend(host: LabHost) -> None:
    _nft(host, f"add table {_TABLE}\ndelete table {_TABLE}\n")


def _rules(host: LabHost, rules: str) -> None:
    chain = "add chain {t} {name} {{ type filter hook {hook} priority 0; }}\n"
    chains = (chain.format(t=_TABLE, name=name, hook=hook) for name, hook in (("in", "input"), ("out", "output")))
    _nft(host, f"add table {_TABLE}\ndelete table {_TABLE}\nadd table {_TABLE}\n{''.join(chains)}{rules}")


def _nft(host: LabHost, text: str) -> None:
    done = run_in_network(host, ("nft", "-f", "-"), stdin=text.encode())
    if not done.ok:
        raise StepFailed("lab-wire", f"nft refused the rules for {host.name}: {done.stderr.decode().strip()}")


def _to(ports: list[int]) -> str:
    return f"tcp dport {{ {_listed(ports)} }}"


def _listed(ports: list[int]) -> str:
    return ", ".join(str(port) for port in ports)
