"""What the simulation replaces: the proofs of an engine, by proofs in miniature that read the same hosts.

Real engines' logs, requests and claims take nine tenths of a rehearsal's time and have tests of their own. Here a start
is ready when its port is open, evidence is what `read_start` reads, and the claims are those of who the process is.
Everything that changes a host, decides, or records, is the product's own.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from flows import looking
from state.engines.engine import Engine
from state.errors import DeadlineExceeded, EngineFailed
from state.observation import Observation, ObservedUnit
from state.plan import Plan
from state.target import Target
from tasks import argv
from tasks.baseline import Baseline
from tasks.boarding import Boarding
from tasks.hosts.port import Host
from tasks.observe import observe_gpus, observe_unit
from tasks.preflight import Preflight
from tasks.properties import listeners_of
from tasks.sequence import READ_TIMEOUT_S
from tasks.service import processes
from tasks.verification import Items, Started, read_start
from tests.simulation.small_engine import PORT

KEPT = ("active", "one-start", "no-restart", "argv", "port-ours", "gpu-drivers")
"""The claims that can be decided without an engine's own words."""

LOOK_EVERY_S = 1.0


@dataclass
class Proofs:
    """`verdict` is what the new side's evidence shall say: `held`, `refuted`, or `open` (nothing can be read)."""

    verdict: str = "held"


async def look(hosts: Any, revision: Any, ports: Any, purpose: str = "rollout") -> tuple[Plan, Observation]:
    plan, observed = await _look(hosts, revision, ports, purpose)
    kept = {name: tuple(c for c in getattr(plan, name) if c.name in KEPT) for name in ("claims", "previous_claims")}
    return plan.model_copy(update=kept), observed


_look = looking.look


async def preflight(host: Host, *_: object) -> Preflight:
    """One round trip, which may fail."""
    await observe_unit(host, "none.service")
    return Preflight(("it answers",), (), (), None)


async def take(host: Host, _engine: Engine, target: Target | None, unit: ObservedUnit) -> Baseline:
    if target is None or not unit.active:
        return Baseline(False, f"{unit.name} is {unit.active_state}", "", 0, (), {})
    pids = tuple(sorted(await processes(host, unit.control_group, unit.main_pid)))
    good = await _answers(host)
    return Baseline(good, f"{unit.name} runs", unit.invocation, unit.main_pid, pids, {})


async def _answers(host: Host) -> bool:
    (read,) = await host.run_all([argv.listeners(PORT)], timeout_s=READ_TIMEOUT_S)
    return bool(listeners_of(read.text))


async def await_readiness(
    host: Host,
    _engine: Engine,
    target: Target,
    started: Started,
    *,
    timeout_s: float,
    clock: Callable[[], float],
    **_: Any,
) -> Boarding:
    boarding = Boarding(clock())
    try:
        async with asyncio.timeout(timeout_s):
            while not await _answers(host):
                await _refuse_lost(host, target, started)
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        raise DeadlineExceeded(f"The start of {target.unit}", timeout_s) from None
    await _refuse_lost(host, target, started)
    boarding.reach("ready", clock(), lambda _stage, _seconds: None)
    return boarding


async def ready_for_traffic(host: Host, _engine: Engine, target: Target, started: Started, **_: Any) -> None:
    await _refuse_lost(host, target, started)


async def _refuse_lost(host: Host, target: Target, started: Started) -> None:
    unit = await observe_unit(host, target.unit)
    if not unit.active or unit.invocation != started.invocation or unit.restarts != started.restarts:
        raise EngineFailed("process-exited", f"{target.unit} is {unit.active_state}", "read its journal")


async def soak(host: Host, _engine: Engine, target: Target, started: Started, *, soak_s: float) -> None:
    await asyncio.sleep(soak_s)
    await _refuse_lost(host, target, started)


async def ask(*_: object) -> Items:
    return {}


def reading(proofs: Proofs) -> Callable[..., Any]:
    async def read(host: Host, gpu_host: Host | None, _engine: Engine, target: Target, started: Started) -> Items:
        items: Items = {"context": (started.context(), "application/json")}
        items |= await read_start(host, target, started)
        if gpu_host is not None and target.drivers:
            seen = await observe_gpus(gpu_host, sorted(target.drivers))
            items["drivers"] = (json.dumps({gpu.address: gpu.driver for gpu in seen}).encode(), "application/json")
        new = any(word.startswith("--speculative") for word in target.argv)
        if new and proofs.verdict == "open":
            items.pop("unit", None)
        if new and proofs.verdict == "refuted":
            items["cmdline"] = (b"/usr/bin/other\0", "text/x-cmdline")
        return items

    return read


@contextmanager
def small_proofs(proofs: Proofs) -> Iterator[None]:
    """The product with its proofs replaced, until the block ends."""
    replaced: dict[str, Any] = {
        "flows.looking.look": look,
        "flows.perform.preflight": preflight,
        "flows.perform.baseline.take": take,
        "flows.prove.readiness.await_readiness": await_readiness,
        "flows.prove.readiness.ready_for_traffic": ready_for_traffic,
        "flows.prove.readiness.soak": soak,
        "flows.prove.ask": ask,
        "flows.prove.read": reading(proofs),
    }
    with ExitStack() as stack:
        for name, replacement in replaced.items():
            stack.enter_context(mock.patch(name, replacement))
        yield
