# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Faults in a kernel log: GPU (NVIDIA's Xid, GSP and FSP), IOMMU, vfio, PCI and memory.

Texts of NVIDIA's open kernel modules 535-595 and Linux 5.15-6.12. Lines that only mention a driver are no faults.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from state.inspection.journal import ExportReader, looks_like_json, read_json
from state.inspection.report import KernelFault, KernelReport
from state.inspection.text import quote
from state.inspection.transport import Prefix, clean, read_prefix, strip_kernel_clock

_PCI = re.compile(
    r"(?<![0-9a-fA-F:])(?:(?P<domain>[0-9a-fA-F]{4,8}):)?(?P<bus>[0-9a-fA-F]{2}):(?P<slot>[0-9a-fA-F]{2})(?:\.(?P<function>[0-7]))?(?![0-9a-fA-F.])(?!:[0-9a-fA-F])"
)
_XID = re.compile(r"\bNVRM: (?:GPU\d+ )?Xid \((?:PCI:)?(?P<device>[^)]*)\): (?P<xid>\d{1,4})\b")
_SXID = re.compile(r"\bSXid \((?:PCI:)?(?P<device>[^)]*)\): (?P<sxid>\d{1,6})\b")
_XID_CODES = {
    13: "gpu-application", 31: "gpu-application", 43: "gpu-application", 45: "gpu-application", 48: "gpu-ecc", 63: "gpu-ecc",
    64: "gpu-ecc", 94: "gpu-ecc", 95: "gpu-ecc", 74: "gpu-nvlink", 79: "gpu-lost", 119: "gpu-gsp", 120: "gpu-gsp", 143: "gpu-fsp",
    154: "gpu-reset-required",
}  # fmt: skip
_TABLE: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (code, re.compile(pattern))
    for code, pattern in (
        ("gpu-lost", r"(?:NVRM|nvidia).*(?:fallen off the bus|GPU (?:has been )?lost from the bus|GPU is lost)|NVRM: The NVIDIA GPU .*not responding"),
        ("gpu-fsp", r"FSP response reported error|FSP.{0,60}(?:[Tt]imed? ?out|failed|refused|error code|Error code|boot failure)|[Tt]imed out waiting for FSP|kfsp\w+:.*(?:[Ff]ail|[Ee]rror|[Tt]imed out)|polling for FSP boot complete"),
        ("gpu-gsp", r"[Tt]imeout (?:after \d+s of )?waiting for RPC|GSP task exception|[Ff]atal GSP-FMC|_kgspIsHeartbeatTimedOut|GSP.{0,40}(?:crashed|hung|timed out)|krcWatchdog\w*: .*probably locked|_kgspRpc\w*: .*(?:[Ff]ail|[Tt]imeout)|timed out.{0,80}kgspWaitForRmInitDone"),
        ("gpu-init-failed", r"RmInitAdapter(?: failed|:)|rm_init_adapter failed|unexpected WPR2 already up|Cannot initialize GSP firmware|GPU is likely in a bad state|NVRM:.*failed to (?:initialize|load) (?:GSP )?firmware|NVRM: None of the NVIDIA devices were initialized|nvidia: probe of \S+ failed|failed to wait for GFW_BOOT"),
        ("gpu-reset-required", r"GPU recovery action changed|(?:GPU|[Nn]ode) (?:[Rr]eset|[Rr]eboot) [Rr]equired|NVRM:.*(?:requires? a reset|needs? to be reset)"),
        ("io-page-fault", r"AMD-Vi: Event logged \[(?:IO_PAGE_FAULT|INVALID_DEVICE_REQUEST|ILLEGAL_DEV_TABLE_ENTRY)|IO_PAGE_FAULT|DMAR: \[(?:DMA|INTR)[^\]]*\]|DMAR: \[fault reason|DMAR:.*(?:PTE \w+ access is not set|fault addr)|DMAR: DRHD: handling fault status"),
        ("vfio-reset-failed", r"not ready \d+ms after (?:FLR|bus reset|\w+ reset|[\w ]+); giving up|vfio[\w-]*.*(?:reset (?:recovery )?failed|failed to reset|[Rr]eset.*timed out|timed out waiting for pending transaction)|failed \w+ reset|reset hook failed|FLR (?:failed|timed out)"),
        ("pci-inaccessible", r"Unable to change power state from D3cold|device inaccessible|config space (?:reads? )?(?:all )?(?:0x)?f{2,}|Refused to change power state|[Cc]an't change power state|invalid power transition|(?:unknown|invalid) header type 7f|[Uu]nknown PCI header type '127'|BAR \d+:.*(?:0xf{8}|inaccessible)|stuck in D3"),
        ("pci-aer", r"AER: (?:Multiple )?(?:Uncorrect\w+|Correct\w+|Corrected)(?: \(\S+\))? (?:error|error message) (?:received|message)|PCIe Bus Error: severity=|AER: .*(?:error received|can't recover|device recovery failed)"),
        ("kernel-oom", r"Out of memory: Kill(?:ed)? process|Memory cgroup out of memory: Kill|oom-kill:|invoked oom-killer"),
    )
)  # fmt: skip
_WORTH = (
    b"NVRM", b"SXid", b"nvidia", b"IO_PAGE_FAULT", b"AMD-Vi", b"DMAR", b"vfio", b"giving up", b"power state", b"inaccessible", b"AER",
    b"PCIe Bus", b"emory", b"oom", b"reset", b"header type", b"config space", b"FLR", b"D3", b"GPU",
)  # fmt: skip
_DECOYS = re.compile(r"AER: enabled|: enabled with IRQ|loading NVIDIA|DMAR: IOMMU enabled|Adding to iommu group|vgaarb")
_SHAPES = re.compile(
    rb"NVRM:|nvidia(?:-\w+)?[: ]|Linux version|AMD-Vi|DMAR|iommu|vfio|\bpci \w{4}:|pcieport|ACPI|usb \d|systemd\[1\]|EXT4|audit:|Command line:|BIOS-e820|\bcpu\b|CPU\d*[: ]|\w+: renamed from|oom",
    re.IGNORECASE,
)
_DMESG = re.compile(
    rb"(?:<\d{1,3}>|kern  ?:\w+ +: )?(?:\[ *\d{1,9}\.\d{6}\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "
    rb"|\[(?:[A-Z][a-z]{2} {0,2}\d{1,2} \d\d:\d\d| +[+<]\d+\.\d{6}>?)\] )"
)
"""dmesg as it is, with `-T`, `-x` and `-H`."""
_DMESG_DATE = re.compile(
    rb"(?:kern  ?:\w+ +: )?(?:\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "
    rb"|\[(?:[A-Z][a-z]{2} {0,2}\d{1,2} \d\d:\d\d| +[+<]\d+\.\d{6}>?)\] )|kern  ?:\w+ +: "
)
_DRIVERS = (b"NVRM:", b"AMD-Vi:", b"DMAR:", b"vfio-pci ", b"nvidia-nvswitch", b"nvidia-modeset:", b"nvidia-uvm:")
_NAMED = re.compile(r"[0-9a-fA-F]{2}:[0-9a-fA-F]{2}")
_PREFACE = "DMAR: DRHD: handling fault status"
"""Said before the line that names the device of a DMAR fault."""
_NEARBY = 8
"""Lines within which a message over several lines goes on, others among them."""


@dataclass(slots=True)
class KernelReader:
    """Takes the lines of a kernel log one by one; faults are merged by code, device and Xid."""

    faults: dict[tuple[str, str | None, int | None], KernelFault]
    recognised: bool = False
    number: int = 0
    export: ExportReader | None = None
    named: str | None = None
    """The GPU of the driver's message over several lines, of which only the first one names it."""
    named_at: int = -100
    preface: tuple[str, int] | None = None
    """The first line of a DMAR fault and its number, until the line that names the device."""

    def __init__(self) -> None:
        self.faults = {}
        self.recognised = False
        self.number = 0
        self.export = None
        self.named, self.named_at = None, -100
        self.preface = None

    def feed_line(self, line: bytes) -> None:
        self.number += 1
        if self.export is not None or (self.number == 1 and ExportReader.recognises(line)):
            self.export = self.export or ExportReader()
            record = self.export.feed(line)
        elif looks_like_json(line):
            record = read_json(line)
        else:
            self._take(*_parts(clean(line)))
            return
        if record is not None and record.message is not None:
            self._take(record.prefix(), record.message)

    def report(self) -> KernelReport:
        if self.export is not None and (record := self.export.flush()) is not None and record.message is not None:
            self._take(record.prefix(), record.message)
        self._add_preface()
        return KernelReport(tuple(sorted(self.faults.values(), key=lambda fault: fault.line)))

    def _take(self, prefix: Prefix, words: bytes) -> None:
        if prefix.ident and prefix.ident != "kernel":
            return
        self.recognised = self.recognised or prefix.ident == "kernel" or _SHAPES.search(words[:300]) is not None
        if not any(mark in words for mark in _WORTH):
            return
        text = words[:4000].decode("utf-8", "replace")
        found = read_fault(text)
        if found is None:
            if b"The NVIDIA GPU " in words:
                self.named, self.named_at = pci_address(text), self.number
            return
        if found[0] == "gpu-lost" and found[1] is None and self.number - self.named_at <= _NEARBY:
            found = (found[0], self.named, found[2])
        self.recognised = True
        if found[1] is None and _PREFACE in text:
            self._add_preface()
            self.preface = (text, self.number)
            return
        if found[0] == "io-page-fault" and self.preface is not None and self.number - self.preface[1] <= _NEARBY:
            self.preface = None
        self._add(found, text, self.number)

    def _add(self, found: tuple[str, str | None, int | None], text: str, number: int) -> None:
        known = self.faults.get(found)
        code, device, xid = found
        count = known.count + 1 if known else 1
        first = known or KernelFault(code, device, xid, quote(text), number, 1)
        self.faults[found] = KernelFault(code, device, xid, first.text, first.line, count)

    def _add_preface(self) -> None:
        """A fault of which only the first line was seen."""
        preface, self.preface = self.preface, None
        if preface is not None:
            self._add(("io-page-fault", None, None), *preface)


def read_fault(text: str) -> tuple[str, str | None, int | None] | None:
    """Code, device and Xid of one kernel message without its prefix; None where it is no fault."""
    if found := _XID.search(text):
        xid = int(found["xid"])
        return _XID_CODES.get(xid, "gpu-xid"), _named_device(found["device"]), xid
    if found := _SXID.search(text):
        return "gpu-nvlink", _named_device(found["device"]), None
    if _DECOYS.search(text):
        return None
    for code, pattern in _TABLE:
        if pattern.search(text):
            return code, pci_address(text), None
    return None


def pci_address(text: str) -> str | None:
    """The first PCI address in `text` as `dddd:bb:dd.f`, function 0 where there is none; times are no addresses."""
    for found in _PCI.finditer(text):
        if found["domain"] is None and found["function"] is None:
            continue
        domain = f"{int(found['domain'] or '0', 16):04x}"
        return f"{domain}:{found['bus']}:{found['slot']}.{found['function'] or '0'}".lower()
    return None


def _named_device(text: str) -> str | None:
    """The address in the parentheses of an Xid, of which a short one leaves out domain and function."""
    return pci_address(f"0000:{text}" if _NAMED.fullmatch(text) else text)


def _parts(line: bytes) -> tuple[Prefix, bytes]:
    prefix = read_prefix(line)
    words = line[prefix.size :] if prefix.size else line
    if not prefix.size and (date := _DMESG_DATE.match(words)):
        words = words[date.end() :]
    return prefix, strip_kernel_clock(words)


def looks_like_kernel(line: bytes) -> bool:
    """Whether a line is the kernel's: by its identifier, by dmesg's clock, or by a driver's own shape."""
    head = clean(line[:600])
    prefix = read_prefix(head)
    if prefix.ident:
        return prefix.ident == "kernel"
    return _DMESG.match(head) is not None or head.startswith(_DRIVERS, prefix.size)


def read_kernel(lines: Iterable[bytes]) -> KernelReport:
    """The faults of a kernel log in any journal format or dmesg's."""
    reader = KernelReader()
    for line in lines:
        reader.feed_line(line)
    return reader.report()
