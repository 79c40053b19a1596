"""The domain type of an IOMMU group: read when a plan is made, switched only where somebody insists."""

from state.errors import Refused
from tasks.argv import write
from tasks.hosts.port import Host
from tasks.script import must
from tasks.sequence import Fence, run_sequence


async def switch_domain(host: Host, group: str, kind: str, fence: Fence, *, forced: bool = False) -> None:
    """Switch a group to `identity`, `DMA`, `DMA-FQ` or `auto`. No step of a rollout does this.

    `identity` is refused unless forced: the firmware of some GPUs (Blackwell: FSP error 0x177) boots only behind a
    domain that translates. Raises Refused, and ArgvFailed with the kernel's words: EBUSY as long as any function of the
    group has a driver.
    """
    if kind == "identity" and not forced:
        raise Refused(
            f"IOMMU group {group} on {host.name} is not switched to identity: firmware may need translation to boot",
            hint="GPUs of the Blackwell generation have been seen to fail with FSP error 0x177",
        )
    await run_sequence(host, fence, [must(*write(f"/sys/kernel/iommu_groups/{group}/type", kind))])
