"""The baseline: what runs now, and whether it answers, so that a rollback knows what it must prove."""

import json
from dataclasses import dataclass
from typing import Any

from state.engines.engine import Engine
from state.errors import PreflightRefused
from state.key_source import told_the_same
from state.keyless import KEYLESS
from state.observation import ObservedUnit
from state.revision import Revision
from state.target import Target
from state.traffic import GENERATIONS, LOAD, Order
from tasks import argv
from tasks.endpoint import Answer, Clock, Endpoint
from tasks.hosts.port import Host
from tasks.load import measure
from tasks.properties import cursor_of
from tasks.sequence import READ_TIMEOUT_S
from tasks.service import processes
from tasks.together import together
from tasks.traffic import checkable_answers, generations, short_generation, without_key
from tasks.verification import Items, Started, model_of, read_start

GENERATION_TIMEOUT_S = 30.0

Asked = dict[str, list[dict[str, Any]]]
"""Records by the name of their evidence."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """`good` means active and generating; `summary` is a sentence for people."""

    good: bool
    summary: str
    invocation: str
    main_pid: int
    pids: tuple[int, ...]
    items: Items


async def take(host: Host, engine: Engine, target: Target | None, unit: ObservedUnit) -> Baseline:
    """Read the running start, and ask it for one generation meanwhile. A service that is down, or does not generate, is
    no error: it is recorded as such. Raises PreflightRefused for one that asks for another key than the one at
    hand."""
    if target is None or not unit.active:
        return Baseline(
            False, f"{unit.name} is {unit.active_state}: there is no good state to go back to", "", 0, (), {}
        )
    started = Started(unit.invocation, unit.main_pid, "", unit.restarts, group=unit.control_group)
    async with together() as group:
        living = group.create_task(processes(host, unit.control_group, unit.main_pid))
        reading = group.create_task(read_start(host, target, started, journal=False))
        asking = group.create_task(_asked(host, engine, target))
    answer, good, asked = asking.result()
    summary = f"{unit.name} runs as PID {unit.main_pid} and generates" if good else (
        f"{unit.name} is active, but does not generate ({answer.error or f'HTTP {answer.status}'})"
    )  # fmt: skip
    items = reading.result()
    items["generation"] = (
        json.dumps({"status": answer.status, "seconds": round(answer.seconds, 3)}).encode(),
        "application/json",
    )
    items |= {name: (json.dumps(records).encode(), "application/json") for name, records in asked.items() if records}
    pids = tuple(sorted(living.result()))
    return Baseline(good, summary, unit.invocation, unit.main_pid, pids, items)


async def _asked(host: Host, engine: Engine, target: Target) -> tuple[Answer, bool, Asked]:
    """The answer to one generation, and whether it is a good one; then what is told afterwards from what it is now: the
    answers to the checkable questions, and to one who has no key."""
    async with Endpoint.of(host, target) as endpoint:
        answer = await endpoint.ask(short_generation(engine), timeout_s=GENERATION_TIMEOUT_S)
        if lacking := endpoint.lacking_key(answer.status):
            raise PreflightRefused([f"{lacking.sentence}: no way back could be proven"], hint=lacking.hint)
        if not answer.ok or engine.reply(answer.body) is None:
            return answer, False, {}
        (asked,) = [q for name, q in engine.probes().items() if name == "models"]
        models = await endpoint.ask(asked, timeout_s=GENERATION_TIMEOUT_S)
        model = model_of(target, models.body if models.ok else b"")
        open_to_all = await without_key(endpoint, engine, target)
        return answer, True, {"answers": await checkable_answers(endpoint, engine, model), KEYLESS: open_to_all}


async def refuse_other_key(host: Host, engine: Engine, running: Target, wanted: Revision) -> None:
    """Raises PreflightRefused where the running service does not take the key that the new start will be asked with,
    although that is told its key as this one was: it would be stopped for nothing. Asks nothing where both are asked
    with the same file."""
    if running.key_file == wanted.key_file:
        return
    (unit,) = await host.run_all([argv.unit_text(running.unit)], timeout_s=READ_TIMEOUT_S)
    if not told_the_same(running, unit.text, wanted):
        return
    async with Endpoint(host, running.endpoint, key_file=wanted.key_file) as endpoint:
        answer = await endpoint.ask(short_generation(engine), timeout_s=GENERATION_TIMEOUT_S)
        if lacking := endpoint.lacking_key(answer.status):
            raise PreflightRefused([f"engine.key_file: {lacking.sentence}{LIKEWISE}"], hint=lacking.hint)


LIKEWISE = ": the new start, which is told its key as the one that runs was, would answer likewise"


async def measured(host: Host, engine: Engine, target: Target, order: Order, clock: Clock) -> Items:
    """Passes under load, and generations, that the new side is held against; only what its claims compare. What could
    not be measured is recorded as it was: the claims stay open for want of samples."""
    async with Endpoint.of(host, target, clock) as endpoint:
        (asked,) = [q for name, q in engine.probes().items() if name == "models"]
        models = await endpoint.ask(asked, timeout_s=GENERATION_TIMEOUT_S)
        model = model_of(target, models.body if models.ok else b"")
        long = await generations(endpoint, engine, order) if order.generations else []
        silent = any(one["status"] == 0 for one in long)
        passes = [] if silent else await measure(endpoint, engine, model, order, clock)
    found = {GENERATIONS: long, LOAD: passes}
    return {name: (json.dumps(records).encode(), "application/json") for name, records in found.items() if records}


async def cursor(host: Host) -> str:
    """Where the host's journal ends now."""
    (end,) = await host.run_all([argv.journal_end()], timeout_s=READ_TIMEOUT_S)
    return cursor_of(end.text)


async def freeze(host: Host, unit: str, since: str) -> Items:
    """The journal since the start and the unit's state, before anything of it is undone."""
    questions = (argv.show(unit), argv.journal(unit, after=since), argv.kernel_log(after=since))
    async with together() as group:
        asked = [group.create_task(host.run_all([one], timeout_s=READ_TIMEOUT_S)) for one in questions]
    shown, journal, kernel = (task.result()[0] for task in asked)
    items: Items = {"unit": (shown.stdout, "text/plain")}
    if journal.ok:
        items["journal"] = (journal.stdout[-FROZEN_BYTES:], "application/x-journal")
    if kernel.ok:
        items["kernel"] = (kernel.stdout[-FROZEN_BYTES:], "text/plain")
    return items


FROZEN_BYTES = 8 * 1024 * 1024
"""The newest bytes that are kept of a frozen log; a start that failed says why at its end."""
