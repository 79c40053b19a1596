"""Commands about GPUs: taking one out of quarantine."""

from rich.console import Console

from deployments.run import print_json
from flows import quarantine
from flows.history import full_id
from flows.settings import Settings
from flows.wiring import wired


async def clear(console: Console, rollout: str, address: str, *, reason: str, as_json: bool) -> int:
    """Say that a device which a rollout quarantined is well again."""
    async with wired(Settings()) as (ports, _):
        name = await full_id(ports, rollout)
        cleared = await quarantine.clear(ports, name, address.lower(), reason)
    if as_json:
        print_json({"rollout": name, **cleared.as_json()})
    else:
        console.print(f"{cleared.address} on {cleared.host} is quarantined no longer", highlight=False)
    return 0
