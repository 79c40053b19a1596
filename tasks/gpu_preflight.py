"""What can refuse the rebinding of GPUs before the service is stopped."""

from collections.abc import Collection, Iterator, Sequence

from state.boot_rules import FOLDER, is_ours, kept_by, path_of
from state.observation import ObservedGpu
from state.plan import Plan
from state.revision import Revision
from state.steps import NATIVE, VFIO, DriverMove, RebindGpus, StageFiles
from tasks import argv
from tasks.holders import holders_of
from tasks.hosts.port import Host
from tasks.observe import observe_gpus
from tasks.quarantine import quarantined, refusal
from tasks.sequence import READ_TIMEOUT_S
from tasks.together import together


async def gpu_refusals(host: Host, plan: Plan) -> list[str]:
    """Absent devices, groups with strangers, drivers that are not loaded, quarantine, and guests that hold a device."""
    moves = [move for step in plan.steps if isinstance(step, RebindGpus) for move in step.moves]
    async with together() as group:
        observing = group.create_task(observe_gpus(host, plan.gpus))
        others = [
            group.create_task(_drivers(host, moves)),
            group.create_task(quarantine_refusals(host, plan)),
            group.create_task(_guests(host, [move for move in moves if move.before == VFIO])),
        ]
    return [
        *(sentence for gpu in observing.result() for sentence in group_refusals(gpu, plan.gpus, host.name)),
        *(sentence for found in others for sentence in found.result()),
    ]


async def boot_refusals(host: Host, plan: Plan) -> list[str]:
    """There is no udev whose rules could keep the map over a boot."""
    if not any(step.texts for step in plan.steps if isinstance(step, StageFiles)):
        return []
    (found,) = await host.run_all([argv.exists(FOLDER)], timeout_s=READ_TIMEOUT_S)
    return [] if found.ok else [f"gpus.persist: no udev on {host.name} would read rules at a boot: no {FOLDER} there"]


async def boot_doubts(host: Host, revision: Revision) -> list[str]:
    """Functions of the map that another service's rules keep for a guest at a boot, whatever this map says."""
    (listed,) = await host.run_all([argv.listing(FOLDER)], timeout_s=READ_TIMEOUT_S)
    own = path_of(revision.service)
    paths = [path for name in listed.text.split() if is_ours(path := f"{FOLDER}/{name}") and path != own]
    texts = await host.run_all([argv.cat(path) for path in paths], timeout_s=READ_TIMEOUT_S) if paths else ()
    return [
        f"gpus: at a boot {path} on {host.name} keeps {address} for {VFIO}; this map has it on {driver}"
        for path, read in zip(paths, texts, strict=True)
        for address, driver in revision.drivers.items()
        if address in kept_by(read.text) and driver != VFIO
    ]


def group_refusals(gpu: ObservedGpu, moved: Collection[str], host: str) -> Iterator[str]:
    """It is absent, or its IOMMU group holds another device, which the host would lose with it. Bridges stay, and the
    device's other functions go along."""
    if not gpu.present:
        yield f"gpus: there is no device {gpu.address} on {host}"
    if others := [member.name for member in gpu.strangers() if member.address not in moved]:
        yield f"gpus: IOMMU group {gpu.group} of {gpu.address} also holds {', '.join(others)}, which {host} would lose"


async def _drivers(host: Host, moves: Sequence[DriverMove]) -> list[str]:
    """A probe for a driver that is not loaded leaves the device without any."""
    names = sorted({move.after for move in moves if move.after not in (None, NATIVE)} - {None})
    asked = [argv.exists(f"/sys/bus/pci/drivers/{name}") for name in names]
    answers = await host.run_all(asked, timeout_s=READ_TIMEOUT_S) if asked else ()
    return [
        f"gpus: the driver {name} is not loaded on {host.name}; `modprobe {name}` there loads it"
        for name, answer in zip(names, answers, strict=True)
        if not answer.ok
    ]


async def quarantine_refusals(host: Host, plan: Plan) -> list[str]:
    """A sentence for each function that the plan moves and that is in quarantine."""
    moved = [move.address for step in plan.steps if isinstance(step, RebindGpus) for move in step.moves]
    return [refusal(host.name, address, text) for address, text in (await quarantined(host, moved)).items()]


async def _guests(host: Host, moves: Sequence[DriverMove]) -> list[str]:
    """What holds a device through vfio is no part of the service, and does not go with its stop."""
    held = await holders_of(host, moves)
    return [f"gpus: {h.address} on {host.name} is in use: {h.sentence}" for h in held]
