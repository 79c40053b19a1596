# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Each kernel fault, and the lines that only mention a driver."""

import json

import pytest

from state.inspection.kernel import read_kernel
from state.inspection.kind import kind_of

XID = "NVRM: Xid (PCI:0000:41:00): {}"
FAULTS = (
    ("lost", "gpu-lost", "0000:41:00.0", 79, XID.format("79, pid=4242, name=sglang::schedul, GPU has fallen off the bus.")),
    ("lost-without-xid", "gpu-lost", "0000:41:00.0", None, "NVRM: The NVIDIA GPU 0000:41:00.0 (PCI ID: 10de:2bb1) installed in this system has fallen off the bus and is not responding to commands."),
    ("reset-required", "gpu-reset-required", "0000:41:00.0", 154, XID.format("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")),
    ("fsp-boot", "gpu-fsp", "0000:41:00.0", 143, XID.format("143, Error status 0x65 while polling for FSP boot complete, 0x1, 0x2")),
    ("fsp-command", "gpu-fsp", None, None, "NVRM: kfspProcessCommandResponse_GH100: FSP response reported error. Task ID: 0x1 Command type: 0x14 Error code: 0x177"),
    ("fsp-595", "gpu-fsp", None, None, "NVRM: GPU6 kfspPollForQueueEmpty_IMPL: Timed out waiting for FSP command queue to be empty."),
    ("gsp", "gpu-gsp", "0000:41:00.0", 119, XID.format("119, pid=1, name=x, Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL)")),
    ("gsp-task", "gpu-gsp", "0000:41:00.0", 120, XID.format("120, GSP task exception: 0x1")),
    ("gsp-old", "gpu-gsp", None, None, "NVRM: _kgspRpcRecvPoll: Timeout waiting for RPC from GSP!"),
    ("gsp-fmc", "gpu-gsp", None, None, "NVRM: kgspFmcReportErrorCode_GH100: Fatal GSP-FMC Error"),
    ("heartbeat", "gpu-gsp", None, None, "NVRM: _kgspIsHeartbeatTimedOut: Heartbeat timed out"),
    ("adapter", "gpu-init-failed", "0000:a1:00.0", None, "NVRM: GPU 0000:a1:00.0: RmInitAdapter failed! (0x62:0x40:2168)"),
    ("adapter-minor", "gpu-init-failed", "0000:a1:00.0", None, "NVRM: GPU 0000:a1:00.0: rm_init_adapter failed, device minor number 7"),
    ("adapter-gsp", "gpu-init-failed", None, None, "NVRM: RmInitAdapter: Cannot initialize GSP firmware RM"),
    ("wpr2", "gpu-init-failed", None, None, "NVRM: _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP"),
    ("ecc", "gpu-ecc", "0000:41:00.0", 48, XID.format("48, pid=1, An uncorrectable double bit error")),
    ("remap", "gpu-ecc", "0000:41:00.0", 64, XID.format("64, Row remapping failure")),
    ("contained", "gpu-ecc", "0000:41:00.0", 95, XID.format("95, Uncontained")),
    ("nvlink", "gpu-nvlink", "0000:41:00.0", 74, XID.format("74, NVLink: fatal error detected on link 3")),
    ("nvswitch", "gpu-nvlink", "0000:aa:00.0", None, "nvidia-nvswitch1: SXid (PCI:0000:aa:00.0): 24007, Fatal, Link 14"),
    ("exception", "gpu-application", "0000:41:00.0", 13, XID.format("13, Graphics Exception: ESR 0x404490")),
    ("channel", "gpu-application", "0000:41:00.0", 43, XID.format("43, pid=4, name=python3, Ch 00000008")),
    ("pmu", "gpu-xid", "0000:41:00.0", 62, XID.format("62, 0a3f(2db4) 00000000")),
    ("page-fault", "io-page-fault", "0000:07:00.0", None, "nvidia 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80000040 flags=0x0020]"),
    ("page-fault-old", "io-page-fault", "0000:07:00.0", None, "AMD-Vi: Event logged [IO_PAGE_FAULT device=07:00.0 domain=0x0003 address=0x80000040 flags=0x0020]"),
    ("dmar", "io-page-fault", "0000:03:00.0", None, "DMAR: [DMA Read NO_PASID] Request device [03:00.0] fault addr 0xffff0000 [fault reason 0x06] PTE Read access is not set"),
    ("flr", "vfio-reset-failed", "0000:01:00.0", None, "vfio-pci 0000:01:00.0: not ready 65535ms after FLR; giving up"),
    ("d3cold", "pci-inaccessible", "0000:01:00.0", None, "vfio-pci 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible"),
    ("config-space", "pci-inaccessible", "0000:01:00.0", None, "vfio-pci 0000:01:00.0: invalid power transition (from D3cold to D3hot)"),
    ("aer", "pci-aer", "0000:61:00.0", None, "pcieport 0000:60:01.1: AER: Uncorrectable (Fatal) error message received from 0000:61:00.0"),
    ("oom", "kernel-oom", None, None, "Out of memory: Killed process 7481 (sglang::schedul) total-vm:290110112kB, anon-rss:201114020kB"),
    ("short-address", "gpu-application", "0000:41:00.0", 31, "NVRM: Xid (PCI:41:00): 31, pid=1, name=x, MMU Fault: ENGINE GRAPHICS"),
    ("gfw-boot", "gpu-init-failed", None, None, "NVRM: GPU0 kgspWaitForGfwBootOk_TU102: failed to wait for GFW_BOOT: (progress 0xff)"),
    ("oom-cgroup", "kernel-oom", None, None, "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=sglang.service,mems_allowed=0-1"),
)  # fmt: skip
FAULTS_BY_NAME = {name: text for name, _, _, _, text in FAULTS}
PREFIXES = (
    "Sep 30 04:11:02 gpu-a kernel: ",
    "[  123.456789] ",
    "<4>[  123.456789] ",
    "2026-09-30T04:11:02+00:00 gpu-a kernel: ",
    "[Wed Sep 30 04:11:02 2026] ",
    "kern  :err   : [  123.456789] ",
    "[  +0.000012] ",
    "[Sep30 04:11] ",
    "2026-09-30T04:11:02,123456+02:00 ",
    "\x1b[32m[  123.456789] \x1b[0m",
    "",
)


@pytest.mark.parametrize(("code", "device", "xid", "text"), [pytest.param(*rest, id=name) for name, *rest in FAULTS])
def test_a_fault_is_named(code: str, device: str | None, xid: int | None, text: str) -> None:
    wanted = "0000:60:01.1" if code == "pci-aer" else device
    for prefix in PREFIXES:
        (fault,) = read_kernel([f"{prefix}{text}\n".encode()]).faults
        assert (fault.code, fault.device, fault.xid, fault.line, fault.count) == (code, wanted, xid, 1, 1)


DECOYS = (
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  585.21.07  Release Build",
    "NVRM: GPU at PCI:0000:41:00: GPU-00000000-0000-0000-0000-000000000041",
    "vfio-pci 0000:21:00.0: enabling device (0000 -> 0003)",
    "vfio-pci 0000:21:00.0: resetting",
    "vfio-pci 0000:21:00.0: reset done",
    "vfio-pci 0000:21:00.0: not ready 1023ms after FLR; waiting",
    "pcieport 0000:20:01.1: AER: enabled with IRQ 61",
    "DMAR: IOMMU enabled",
    "AMD-Vi: Interrupt remapping enabled",
    "pci 0000:41:00.0: Adding to iommu group 31",
    "nvidia 0000:41:00.0: enabling device (0000 -> 0003)",
    "nvidia-nvlink: Nvlink Core is being initialized, major device number 235",
    "systemd[1]: Starting nvidia-persistenced.service...",
    "pci 0000:00:1f.2: PME# supported from D3hot D3cold",
)


@pytest.mark.parametrize("text", [pytest.param(t, id=t[:40]) for t in DECOYS])
def test_a_line_that_only_mentions_a_driver_is_no_fault(text: str) -> None:
    assert read_kernel([f"Sep 30 04:11:02 gpu-a kernel: {text}\n".encode()]).faults == ()


def test_faults_merge_by_code_device_and_xid() -> None:
    lines = [
        XID.format("31, MMU Fault"),
        XID.format("31, MMU Fault"),
        XID.format("13, Exception"),
        XID.replace("41", "42").format("31, MMU Fault"),
    ]
    faults = read_kernel(f"Sep 30 04:11:02 gpu-a kernel: {line}\n".encode() for line in lines).faults
    assert [(f.xid, f.device, f.line, f.count) for f in faults] == [
        (31, "0000:41:00.0", 1, 2),
        (13, "0000:41:00.0", 3, 1),
        (31, "0000:42:00.0", 4, 1),
    ]


def test_kernel_records_in_json_are_read() -> None:
    record = {
        "__CURSOR": "s",
        "_TRANSPORT": "kernel",
        "SYSLOG_IDENTIFIER": "kernel",
        "MESSAGE": XID.format("79, GPU has fallen off the bus."),
    }
    other = {
        "__CURSOR": "s",
        "_TRANSPORT": "stdout",
        "SYSLOG_IDENTIFIER": "python3",
        "MESSAGE": XID.format("79, GPU has fallen off the bus."),
    }
    assert [f.code for f in read_kernel(json.dumps(r).encode() for r in (record, other)).faults] == ["gpu-lost"]


def test_a_message_over_several_lines_is_about_the_gpu_that_its_first_line_names() -> None:
    lines = (
        b"Nov 30 10:00:00 h kernel: NVRM: The NVIDIA GPU 0000:41:00.0",
        b"Nov 30 10:00:00 h kernel: NVRM: (PCI ID: 10de:2bb1) installed in this system has",
        b"Nov 30 10:00:00 h kernel: audit: type=1400 something else",
        b"Nov 30 10:00:00 h kernel: NVRM: fallen off the bus and is not responding to commands.",
    )
    (fault,) = read_kernel(lines).faults
    assert (fault.code, fault.device, fault.line) == ("gpu-lost", "0000:41:00.0", 4)


def test_a_gpu_that_was_named_long_before_is_not_blamed() -> None:
    lines = (
        b"NVRM: The NVIDIA GPU 0000:41:00.0 is supported",
        *[b"NVRM: x"] * 20,
        b"NVRM: GPU has fallen off the bus.",
    )
    assert [fault.device for fault in read_kernel(lines).faults] == [None]


def test_the_two_lines_of_a_dmar_fault_are_one_fault() -> None:
    preface, device = b"DMAR: DRHD: handling fault status reg 2\n", FAULTS_BY_NAME["dmar"].encode() + b"\n"
    (fault,) = read_kernel([preface, device, preface, device]).faults
    assert (fault.code, fault.device, fault.line, fault.count) == ("io-page-fault", "0000:03:00.0", 2, 2)
    (alone,) = read_kernel([preface]).faults
    assert (alone.code, alone.device, alone.line, alone.count) == ("io-page-fault", None, 1, 1)


@pytest.mark.parametrize("prefix", [p for p in PREFIXES if p])
def test_a_kernel_log_is_known_by_its_clock(prefix: str) -> None:
    assert kind_of(f"{prefix}{FAULTS_BY_NAME['pmu']}\n".encode()) == "kernel"
