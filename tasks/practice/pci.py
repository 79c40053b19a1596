"""PCI functions, their drivers and IOMMU groups, with the kernel's bind and unbind rules."""

import asyncio
import errno
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from tasks.practice.files import refusal

VFIO = "vfio-pci"
NVIDIA = "nvidia"
_FIRST_LOOK_S, _LAST_LOOK_S = 0.02, 1.0

FSP_FAILURE = (
    "NVRM: kfspProcessCommandResponse_GH100: FSP response reported error. Task ID: 0x1 "
    "Command type: 0x14 Error code: 0x177",
    "NVRM: GPU {address}: RmInitAdapter failed! (0x62:0xffff:2142)",
    "nvidia: probe of {address} failed with error -1",
)
"""A GPU whose firmware cannot boot behind an `identity` domain. 0x177 is an operator's report, not NVIDIA's word."""


@dataclass(slots=True)
class Function:
    """One PCI function. `driver` is what it is bound to, `native` what the kernel gives it without an override.

    `minor` is the number of its device file while the GPU's driver has it; others keep theirs when it leaves.

    `needs_translation`: the firmware boots only behind a translating IOMMU domain. `memory_mib` is the GPU's.
    """

    address: str
    group: int
    device_class: str = "0x030200"
    vendor: str = "0x10de"
    device: str = "0x2bb1"
    native: str | None = NVIDIA
    driver: str | None = None
    override: str = ""
    uuid: str = ""
    serial: str = ""
    memory_mib: int = 97_887
    needs_translation: bool = True
    lost: bool = False
    leaving: bool = False
    minor: int = 0

    @property
    def is_gpu(self) -> bool:
        return self.vendor == "0x10de" and self.device_class.startswith("0x03")


def gpu(address: str, group: int) -> Function:
    """A data-centre GPU as it is after boot."""
    uuid = f"GPU-{0x5EED0000 + group:08x}-0000-4000-8000-{int(address.replace(':', '').replace('.', ''), 16):012x}"
    return Function(address, group, driver=NVIDIA, uuid=uuid, serial=f"{1650000000000 + group}")


def audio(address: str, group: int) -> Function:
    return Function(address, group, "0x040300", device="0x22e8", native="snd_hda_intel", driver="snd_hda_intel")


def bridge(address: str, group: int) -> Function:
    return Function(address, group, "0x060400", "0x1022", "0x1483", native="pcieport", driver="pcieport")


BLOCKED = "vfio-pci {address}: No device request channel registered, blocked until released by user"


@dataclass(slots=True)
class PciBus:
    """The bus. `holders` says who has a function open; `kernel` takes lines of the kernel log; in `stalled` journald
    waits.

    Injected: `refuse_probe[(address, driver)]` are the kernel's lines for a probe that fails; addresses in
    `stuck_unbind` never come off their driver; `group_types` are the IOMMU domain types.
    """

    kernel: Callable[[str], None]
    holders: Callable[[str], Sequence[int]]
    stalled: Callable[[], AbstractContextManager[None]] = nullcontext
    functions: dict[str, Function] = field(default_factory=dict)
    group_types: dict[int, str] = field(default_factory=dict)
    drivers: list[str] = field(default_factory=lambda: [NVIDIA, VFIO, "snd_hda_intel", "pcieport"])
    refuse_probe: dict[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    stuck_unbind: set[str] = field(default_factory=set)
    probes: list[str] = field(default_factory=list)
    _releases: "set[asyncio.Future[None]]" = field(default_factory=set)

    def add(self, functions: Iterable[Function]) -> None:
        for function in functions:
            self.functions[function.address] = function
            self.group_types.setdefault(function.group, "DMA-FQ")
            if function.driver == NVIDIA and function.is_gpu:
                self._probed(function)

    def bound_gpus(self) -> list[Function]:
        """GPUs on the nvidia driver, in the order in which nvidia-smi counts them."""
        gpus = (self.functions[address] for address in self.probes)
        return sorted((f for f in gpus if f.driver == NVIDIA and not f.lost), key=lambda f: f.address)

    def state(self) -> object:
        """Equal as long as sysfs looks the same."""
        functions = tuple(
            (f.address, f.driver, f.override, f.group, f.lost, f.leaving) for f in self.functions.values()
        )
        return functions, tuple(self.group_types.items()), tuple(self.drivers)

    async def write(self, path: str, value: str) -> None:
        """A write to a sysfs attribute; OSError with the kernel's errno. A write to `unbind` waits for the holders."""
        match path.removeprefix("/sys/").split("/"):
            case ["bus", "pci", "drivers_probe"]:
                self._probe(self._function(value, path))
            case ["bus", "pci", "drivers", driver, "unbind"] if driver in self.drivers:
                await self._unbind(driver, value.strip(), path)
            case ["bus", "pci", "drivers", driver, "bind"] if driver in self.drivers:
                self._bind(driver, self._function(value, path), path)
            case ["devices", "pci0000:00", address, "driver_override"] if address in self.functions:
                self.functions[address].override = "" if value.strip() in ("", "(null)") else value.strip()
            case ["kernel", "iommu_groups", group, "type"] if group.isdigit() and int(group) in self.group_types:
                self._retype(int(group), value.strip(), path)
            case _:
                raise refusal(errno.EACCES, path)

    def lose(self, address: str) -> None:
        """A GPU falls off the bus: Xid 79, and the driver shows it no more. Only a boot brings it back."""
        self.functions[address].lost = True
        slot = address.rpartition(".")[0]
        self.kernel(f"NVRM: Xid (PCI:{slot}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
        self.kernel(f"NVRM: GPU {address}: GPU has fallen off the bus.")

    def power_off(self) -> None:
        for release in self._releases:
            release.cancel()

    def reset(self, overrides: Mapping[str, str] | None = None) -> None:
        """A boot: every function is on its native driver, or on that which `overrides` (udev's rules) has for it."""
        self.probes.clear()
        for function in self.functions.values():
            function.override, function.driver, function.lost, function.leaving = "", None, False, False
            function.override = (overrides or {}).get(function.address, "")
            self._probe(function)

    def _function(self, value: str, path: str) -> Function:
        try:
            return self.functions[value.strip()]
        except KeyError:
            raise refusal(errno.ENODEV, path) from None

    async def _unbind(self, driver: str, address: str, path: str) -> None:
        function = self.functions.get(address)
        if function is None or function.driver != driver:
            raise refusal(errno.ENODEV, path)
        release = asyncio.ensure_future(self._release(function))
        self._releases.add(release)
        release.add_done_callback(self._releases.discard)
        try:
            await asyncio.shield(release)
        except asyncio.CancelledError:
            await asyncio.wait([release])  # no signal ends the writer: it waits for the release (Linux 6.1)
            raise

    async def _release(self, function: Function) -> None:
        """Take a function off its driver as soon as nobody holds it; without an end if somebody always does."""
        pause = _FIRST_LOOK_S
        function.leaving = True  # the link goes first, whether or not the driver can be made to let go
        held = function.driver == VFIO and self.holders(function.address)
        with self.stalled() if held else nullcontext():  # the line names a device that nobody can look at until then
            if held:
                self.kernel(BLOCKED.format(address=function.address))
            while function.address in self.stuck_unbind or self.holders(function.address):
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _LAST_LOOK_S)
        function.driver, function.leaving = None, False
        if function.address in self.probes:
            self.probes.remove(function.address)

    def _bind(self, driver: str, function: Function, path: str) -> None:
        if function.driver is not None or self._wanted(function) != driver:
            raise refusal(errno.ENODEV, path)
        if not self._attach(function, driver):
            raise refusal(errno.EIO, path)

    def _probe(self, function: Function) -> None:
        """A failed probe is no error of the write: only the link and the kernel log tell."""
        driver = self._wanted(function)
        if function.driver is None and driver in self.drivers:
            self._attach(function, driver)

    def _wanted(self, function: Function) -> str:
        return function.override or function.native or ""

    def _attach(self, function: Function, driver: str) -> bool:
        refused = (function.address, driver) in self.refuse_probe
        lines = self.refuse_probe.get((function.address, driver), ())
        untranslated = self.group_types.get(function.group) == "identity" and function.needs_translation
        if not refused and driver == NVIDIA and function.is_gpu and untranslated:
            refused, lines = True, FSP_FAILURE
        for line in lines:
            self.kernel(line.format(address=function.address))
        if refused:
            return False
        function.driver = driver
        if driver == NVIDIA and function.is_gpu:
            self._probed(function)
        return True

    def _probed(self, function: Function) -> None:
        taken = {self.functions[address].minor for address in self.probes}
        function.minor = next(n for n in itertools.count() if n not in taken)
        self.probes.append(function.address)

    def _retype(self, group: int, value: str, path: str) -> None:
        if value not in ("identity", "DMA", "DMA-FQ", "auto"):
            raise refusal(errno.EINVAL, path)
        if any(f.driver for f in self.functions.values() if f.group == group):
            self.kernel("iommu: Device is still bound to driver")
            raise refusal(errno.EBUSY, path)
        self.group_types[group] = "DMA-FQ" if value == "auto" else value
