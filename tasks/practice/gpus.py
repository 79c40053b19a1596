"""Who uses which GPU: ranks of running engines and strangers, as the driver and /proc would tell."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tasks.practice.pci import VFIO, Function, PciBus
from tasks.practice.process import Group

_TP_FLAGS = ("--tp-size", "--tp", "--tensor-parallel-size", "-tp")
_FRACTION_FLAGS = ("--mem-fraction-static", "--gpu-memory-utilization")
_RANK_TITLE = re.compile(r"scheduler|Worker|EngineCore")
_COMMON_DEVICES = ("/dev/nvidiactl", "/dev/nvidia-uvm")


@dataclass(frozen=True, slots=True)
class Stranger:
    """A process of no unit: what it is, the device files it has open, the ports it listens on."""

    argv: tuple[str, ...]
    devices: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Use:
    """One compute process on one GPU."""

    pid: int
    function: Function
    index: int
    used_mib: int


def uses(bus: PciBus, groups: Sequence[Group]) -> list[Use]:
    """The compute processes that running engines keep on the bound GPUs, one a rank."""
    return [use for group in groups for use in _of_group(bus, group)]


def open_devices(bus: PciBus, groups: Sequence[Group], strangers: Mapping[int, Stranger]) -> dict[int, list[str]]:
    """PID -> device files it has open."""
    found: dict[int, list[str]] = {pid: list(s.devices) for pid, s in strangers.items() if s.devices}
    for use in uses(bus, groups):
        devices = found.setdefault(use.pid, list(_COMMON_DEVICES))
        devices.append(f"/dev/nvidia{use.function.minor}")
    return found


def holders(bus: PciBus, address: str, opened: Mapping[int, Sequence[str]]) -> list[int]:
    """PIDs that have the device file of a function open."""
    function = bus.functions[address]
    path = f"/dev/vfio/{function.group}" if function.driver == VFIO else ""
    if function in bus.bound_gpus():
        path = f"/dev/nvidia{function.minor}"
    return [pid for pid, devices in opened.items() if path in devices]


def _of_group(bus: PciBus, group: Group) -> Iterator[Use]:
    words = group.argv
    if not any("sglang" in word or "vllm" in word or "llama-server" in word for word in words):
        return
    members = group.members()
    others = [pid for pid in members if pid != group.pid]
    ranks = [pid for pid in others if _RANK_TITLE.search(" ".join(members[pid]))] or others or list(members)
    fraction = _number(words, _FRACTION_FLAGS, 0.88)
    for rank, (index, function) in enumerate(
        _visible(bus, group)[: int(_number(words, _TP_FLAGS, 1))] if ranks else ()
    ):
        yield Use(ranks[min(rank, len(ranks) - 1)], function, index, round(fraction * function.memory_mib))


def _visible(bus: PciBus, group: Group) -> list[tuple[int, Function]]:
    every = list(enumerate(bus.bound_gpus()))
    asked = group.env.get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return every
    wanted = [word.strip() for word in asked.split(",")]
    return [(i, f) for name in wanted for i, f in every if name in (str(i), f.uuid)]


def _number(words: Sequence[str], flags: Sequence[str], default: float) -> float:
    for at, word in enumerate(words):
        flag, sep, value = word.partition("=")
        if flag in flags:
            text = value if sep else next(iter(words[at + 1 : at + 2]), "")
            return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else default
    return default
