"""/sys and the device files of GPUs, as trees drawn from the PCI bus at each look."""

import errno
from collections.abc import Callable, Iterator, Mapping

from tasks.practice.files import Entry, Layer, refusal
from tasks.practice.pci import NVIDIA, VFIO, Function, PciBus

Node = bytes | str | None
"""A file's content, a link's target, or None for a directory."""

_FOLDER = Entry("directory", 0o755, 0, 0)
_WRITE_ONLY = ("unbind", "bind", "drivers_probe", "new_id", "remove_id")


class Tree(Layer):
    """A kernel's tree: `draw` gives each path's node, the directories above come by themselves.

    It is drawn anew when `state` is no longer what it was.
    """

    def __init__(
        self,
        prefixes: tuple[str, ...],
        draw: Callable[[], Iterator[tuple[str, Node]]],
        state: Callable[[], object],
    ) -> None:
        self._prefixes, self._draw, self._state = prefixes, draw, state
        self._below = tuple(f"{prefix}/" for prefix in prefixes)
        self._drawn: object = None
        self._drawings = 0
        self._nodes: dict[str, Node] = {}

    def covers(self, path: str) -> bool:
        return path.startswith(self._below) or path in self._prefixes

    def drawing(self) -> int:
        self._look()
        return self._drawings

    def lstat(self, path: str) -> Entry:
        return self._entry(path, self._node(path))

    def find(self, path: str) -> Entry | None:
        self._look()
        return self._entry(path, self._nodes[path]) if path in self._nodes else None

    def _entry(self, path: str, node: Node) -> Entry:
        if node is None:
            return _FOLDER
        if isinstance(node, str):
            return Entry("link", 0o777, 0, 0, target=node)
        return Entry("file", 0o200 if path.rpartition("/")[2] in _WRITE_ONLY else 0o644, 4096, 0)

    def read(self, path: str) -> bytes:
        node = self._node(path)
        if not isinstance(node, bytes) or path.rpartition("/")[2] in _WRITE_ONLY:
            raise refusal(errno.EACCES, path)
        return node

    def names(self, path: str) -> list[str]:
        self._look()
        below = path.rstrip("/") + "/"
        return sorted({p[len(below) :].partition("/")[0] for p in self._nodes if p.startswith(below)})

    def _node(self, path: str) -> Node:
        self._look()
        try:
            return self._nodes[path]
        except KeyError:
            raise refusal(errno.ENOENT, path) from None

    def _look(self) -> None:
        state = self._state()
        if state == self._drawn:
            return
        files = dict(self._draw())
        folders = {path[:i] for path in (*files, *self._prefixes) for i, char in enumerate(path) if char == "/" and i}
        self._nodes = dict.fromkeys((*folders, *self._prefixes)) | files
        self._drawn = state
        self._drawings += 1


def sysfs(bus: PciBus, modules: Mapping[str, str]) -> Tree:
    def draw() -> Iterator[tuple[str, Node]]:
        yield from ((f"/sys/module/{name}/version", f"{version}\n".encode()) for name, version in modules.items())
        yield "/sys/fs/cgroup", None
        yield from _bus(bus)
        for function in bus.functions.values():
            yield from _function(function)

    return Tree(("/sys",), draw, lambda: (bus.state(), dict(modules)))


def cgroupfs(control_groups: Callable[[], Mapping[str, list[int]]], oom_kills: Mapping[int, int]) -> Tree:
    def draw() -> Iterator[tuple[str, Node]]:
        yield "/sys/fs/cgroup/cgroup.controllers", b"cpuset cpu io memory hugetlb pids rdma misc\n"
        for path, pids in control_groups().items():
            yield f"/sys/fs/cgroup{path}/cgroup.procs", "".join(f"{pid}\n" for pid in pids).encode()
            killed = sum(oom_kills.get(pid, 0) for pid in pids)
            counts = {"low": 0, "high": 0, "max": 0, "oom": killed, "oom_kill": killed, "oom_group_kill": 0}
            text = "".join(f"{name} {count}\n" for name, count in counts.items())
            yield f"/sys/fs/cgroup{path}/memory.events", text.encode()

    return Tree(("/sys/fs/cgroup",), draw, lambda: (control_groups(), dict(oom_kills)))


def device_files(bus: PciBus) -> Tree:
    """/dev/nvidia* and /dev/vfio, present as long as a function is on the driver."""

    def draw() -> Iterator[tuple[str, Node]]:
        for name in ("nvidiactl", "nvidia-uvm") if bus.bound_gpus() else ():
            yield f"/dev/{name}", b""
        for gpu in bus.bound_gpus():
            yield f"/dev/nvidia{gpu.minor}", b""
        yield "/dev/vfio/vfio", b""
        for group in sorted({f.group for f in bus.functions.values() if f.driver == VFIO}):
            yield f"/dev/vfio/{group}", b""

    return _Devices(draw, bus.state)


def nvidia_proc(bus: PciBus) -> Tree:
    """/proc/driver/nvidia: what the driver says about each GPU that it is bound to."""

    def draw() -> Iterator[tuple[str, Node]]:
        for gpu in bus.bound_gpus():
            text = f"GPU UUID: \t {gpu.uuid}\nBus Location: \t {gpu.address}\nDevice Minor: \t {gpu.minor}\n"
            yield f"/proc/driver/nvidia/gpus/{gpu.address}/information", text.encode()

    return Tree(("/proc/driver",), draw, bus.state)


class _Devices(Tree):
    def __init__(self, draw: Callable[[], Iterator[tuple[str, Node]]], state: Callable[[], object]) -> None:
        super().__init__(("/dev/vfio",), draw, state)

    def covers(self, path: str) -> bool:
        return path.startswith("/dev/nvidia") or super().covers(path)


def _bus(bus: PciBus) -> Iterator[tuple[str, Node]]:
    yield "/sys/bus/pci/drivers_probe", b""
    for driver in bus.drivers:
        for attribute in ("bind", "unbind", "new_id", "remove_id"):
            yield f"/sys/bus/pci/drivers/{driver}/{attribute}", b""
    for group, kind in bus.group_types.items():
        yield f"/sys/kernel/iommu_groups/{group}/type", f"{kind}\n".encode()
    for function in bus.functions.values():
        home = f"../../../devices/pci0000:00/{function.address}"
        yield f"/sys/bus/pci/devices/{function.address}", home
        yield f"/sys/kernel/iommu_groups/{function.group}/devices/{function.address}", f"../{home}"
        if function.driver and not function.leaving:
            yield f"/sys/bus/pci/drivers/{function.driver}/{function.address}", f"../{home}"


def _function(function: Function) -> Iterator[tuple[str, Node]]:
    home = f"/sys/devices/pci0000:00/{function.address}"
    if function.driver and not function.leaving:
        yield f"{home}/driver", f"../../../bus/pci/drivers/{function.driver}"
    yield f"{home}/iommu_group", f"../../../kernel/iommu_groups/{function.group}"
    values = {
        "class": function.device_class,
        "vendor": function.vendor,
        "device": function.device,
        "driver_override": function.override or "(null)",
        "numa_node": "0",
        "d3cold_allowed": "1",
        "power_state": "D0",
        "reset_method": "flr bus" if function.driver in (NVIDIA, VFIO) else "pm bus",
    }
    for name, value in values.items():
        yield f"{home}/{name}", f"{value}\n".encode()
