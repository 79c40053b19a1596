"""Quarantine: a PCI function whose unbind is stuck is kept out of all plans by a file on its host until a person has
cleared it."""

import re
from collections.abc import Mapping, Sequence

from state.errors import Refused, StepFailed
from state.steps import DriverMove
from tasks.argv import cat_as_root, quarantine, rebind_unit, show, write
from tasks.hosts.port import Argv, Host
from tasks.hosts.privilege import checked
from tasks.observe import unit_from
from tasks.script import must, render_sequence
from tasks.sequence import READ_TIMEOUT_S, Fence, run_sequence


async def quarantine_device(host: Host, move: DriverMove, fence: Fence, said: str) -> None:
    """Write the file, which names the rollout and what the kernel said."""
    path = quarantine(move.address)
    text = f"unbind from {move.before} was stuck in rollout {fence.rollout}: {said or 'no word of the kernel'}\n"
    folder = path.rpartition("/")[0]
    await run_sequence(host, fence, [must("install", "-d", "-m", "700", "--", folder), must(*write(path, text))])


async def quarantined(host: Host, addresses: Sequence[str]) -> Mapping[str, str]:
    """Which of the functions are in quarantine, and what their files say."""
    asked = [cat_as_root(quarantine(address)) for address in addresses]
    answers = await host.run_all(asked, timeout_s=READ_TIMEOUT_S) if asked else ()
    return {a: answer.text.strip() for a, answer in zip(addresses, answers, strict=True) if answer.ok}


def refusal(host: str, address: str, text: str) -> str:
    """Why a plan that moves the function is refused, and the command that clears it."""
    return f"gpus: {address} is quarantined on {host} ({text}); when it is well again, {_remedy(host, address, text)}"


def _remedy(host: str, address: str, text: str) -> str:
    rollout = rollout_of(text)
    if rollout:
        return f"`interlock gpu clear {rollout} {address}` clears it"
    return f"remove {quarantine(address)} on {host}"


def rollout_of(text: str) -> str:
    """The rollout that a quarantine's file names; empty for one that somebody else wrote."""
    named = re.search(r" in rollout ([\w-]+):", text)
    return named[1] if named else ""


async def is_stuck(host: Host, address: str) -> bool:
    """Whether the unit in which it moves still waits for the kernel, which takes the driver's link away first."""
    unit = rebind_unit(address)
    (shown,) = await host.run_all([show(unit)], timeout_s=READ_TIMEOUT_S)
    return unit_from(unit, shown.text).active


async def clear(host: Host, address: str, rollout: str) -> bool:
    """Take the function out of the quarantine that `rollout` put it in; False if it was in none any more.

    Raises Refused while its unbind still waits in the kernel, or if another rollout quarantined it; StepFailed if the
    file is still there afterwards.
    """
    text = (await quarantined(host, [address])).get(address)
    if text is None:
        return False
    if rollout_of(text) != rollout:
        sentence = f"{address} on {host.name} is in another quarantine: {text}"
        raise Refused(sentence, hint=f"when it is well again, {_remedy(host.name, address, text)}")
    if await is_stuck(host, address):
        raise Refused(
            f"{address} on {host.name} is not well yet: its unbind still waits in the kernel",
            hint=f"end what holds the device, or reboot {host.name}; `systemctl status {rebind_unit(address)}` there",
        )
    remove = Argv(("/bin/sh", "-c", render_sequence([must("rm", "-f", "--", quarantine(address))])), root=True)
    checked(host.name, remove, *await host.run_all([remove], timeout_s=READ_TIMEOUT_S))
    if await quarantined(host, [address]):
        raise StepFailed("gpu-clear", f"{quarantine(address)} on {host.name} is still there", hint="remove it by hand")
    return True
