"""The wire to a lab's host: cut it so that packets are dropped without a word, lose an answer, mend it again."""

import re
import subprocess

from state.errors import StepFailed
from tasks.lab.container import run_in_network
from tasks.lab.needs import environment
from tasks.lab.record import LabHost
from tasks.lab.vm_record import VmHost

_TABLE = "inet interlock_cut"
_NFT_TIMEOUT_S = 10.0


def cut(host: LabHost | VmHost) -> None:
    """Drop every packet to and from the host; its connections stay open and hear nothing."""
    if isinstance(host, VmHost):
        _cut_port(host)
        return
    rules = "add rule {t} in iifname host0 drop\nadd rule {t} out oifname host0 drop\n"
    _rules(host, rules.format(t=_TABLE))


def _cut_port(host: VmHost) -> None:
    """A virtual machine is reached through a port of this machine's loopback."""
    table = _table(host)
    rules = [f"add rule {table} in iif lo tcp {side} {host.port} drop" for side in ("dport", "sport")]
    chain = f"add chain {table} in {{ type filter hook input priority 0; }}"
    _nft(host, "\n".join((f"add table {table}", f"delete table {table}", f"add table {table}", chain, *rules, "")))


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


def mend(host: LabHost | VmHost) -> None:
    _nft(host, f"add table {_table(host)}\ndelete table {_table(host)}\n")


def _table(host: LabHost | VmHost) -> str:
    """A container has a network of its own, and with it tables; virtual machines share this machine's."""
    return f"{_TABLE}_{host.name.replace('-', '_')}" if isinstance(host, VmHost) else _TABLE


def _rules(host: LabHost, rules: str) -> None:
    chain = "add chain {t} {name} {{ type filter hook {hook} priority 0; }}\n"
    chains = (chain.format(t=_TABLE, name=name, hook=hook) for name, hook in (("in", "input"), ("out", "output")))
    _nft(host, f"add table {_TABLE}\ndelete table {_TABLE}\nadd table {_TABLE}\n{''.join(chains)}{rules}")


def _nft(host: LabHost | VmHost, text: str) -> None:
    words = ("nft", "-f", "-")
    if isinstance(host, VmHost):
        done = subprocess.run(
            words, input=text.encode(), env=environment(), capture_output=True, timeout=_NFT_TIMEOUT_S
        )
        ok, stderr = done.returncode == 0, done.stderr
    else:
        inside = run_in_network(host, words, stdin=text.encode())
        ok, stderr = inside.ok, inside.stderr
    if not ok:
        raise StepFailed("lab-wire", f"nft refused the rules for {host.name}: {stderr.decode().strip()}")


def _to(ports: list[int]) -> str:
    return f"tcp dport {{ {_listed(ports)} }}"


def _listed(ports: list[int]) -> str:
    return ", ".join(str(port) for port in ports)
