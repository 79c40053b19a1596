"""nvidia-smi's queries as comma-separated values (driver 580)."""

from tasks.hosts.port import Completed
from tasks.practice.commands.call import Call, Table, ok, options
from tasks.practice.gpus import Use, uses
from tasks.practice.pci import Function

_IDLE_MIB = 4
_DRIVER = "580.95.05"


async def nvidia_smi(call: Call) -> Completed:
    given, _ = options(call, "", ["query-compute-apps=", "query-gpu=", "format="])
    form = given.get("format", "csv").split(",")
    gpus = call.machine.pci.bound_gpus()
    if not gpus:
        return Completed(6, b"No devices were found\n")
    used = uses(call.machine.pci, call.machine.kernel_groups())
    if "query-compute-apps" in given:
        rows = [_app(use) for use in used]
        return ok(_csv(given["query-compute-apps"], rows, form))
    if "query-gpu" in given:
        rows = [_gpu(index, gpu, used) for index, gpu in enumerate(gpus)]
        return ok(_csv(given["query-gpu"], rows, form))
    return Completed(2, b"ERROR: only --query-compute-apps and --query-gpu are known here\n")


def bus_id(address: str) -> str:
    """The driver's way to write a PCI address: an eight-digit domain, capitals."""
    domain, _, rest = address.partition(":")
    return f"{domain:0>8}:{rest}".upper()


def _app(use: Use) -> dict[str, str]:
    return {
        "pid": str(use.pid),
        "used_memory": f"{use.used_mib} MiB",
        "used_gpu_memory": f"{use.used_mib} MiB",
        "gpu_bus_id": bus_id(use.function.address),
        "gpu_uuid": use.function.uuid,
        "process_name": "python3",
    }


def _gpu(index: int, gpu: Function, used: list[Use]) -> dict[str, str]:
    taken = sum(use.used_mib for use in used if use.function is gpu) or _IDLE_MIB
    return {
        "index": str(index),
        "pci.bus_id": bus_id(gpu.address),
        "gpu_bus_id": bus_id(gpu.address),
        "uuid": gpu.uuid,
        "serial": gpu.serial,
        "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "memory.used": f"{taken} MiB",
        "memory.total": f"{gpu.memory_mib} MiB",
        "memory.free": f"{gpu.memory_mib - taken} MiB",
        "driver_version": _DRIVER,
    }


def _csv(asked: str, rows: list[dict[str, str]], form: list[str]) -> str:
    fields = [name.strip() for name in asked.split(",")]
    strip = " MiB" if "nounits" in form else ""
    lines = [", ".join(row.get(f, "[N/A]").removesuffix(strip) for f in fields) for row in rows]
    head = [] if "noheader" in form else [", ".join(fields)]
    return "".join(f"{line}\n" for line in [*head, *lines])


PROGRAMS: Table = {"nvidia-smi": nvidia_smi}
