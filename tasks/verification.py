"""Gathering the evidence of one verification: traffic first, then everything that can be read about the same start.

What cannot be read is left out: a missing item is unknown, never zero.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from state.engines.engine import Engine, engine_for
from state.errors import StepFailed
from state.keyless import KEYLESS
from state.target import Target, started_by
from state.traffic import GENERATIONS, LOAD, QUIZ, Order
from tasks import argv
from tasks.endpoint import Clock, Endpoint
from tasks.hosts.port import Completed, Host
from tasks.load import measure, quiz
from tasks.observe import observe_drivers
from tasks.processes import earlier, members, older, topmost
from tasks.properties import listeners_of, pids_of, properties, variables_of, words_of
from tasks.sequence import READ_TIMEOUT_S
from tasks.service import default_group
from tasks.together import together
from tasks.traffic import checkable_answers, contracts, generations, model_name, without_key

PROBE_TIMEOUT_S = 25.0
"""A hung scheduler lets `/health` wait 20 s before it says so (seen with SGLang 0.5.17)."""

Items = dict[str, tuple[bytes, str]]
"""Raw evidence by name, with its media type."""


@dataclass(frozen=True, slots=True)
class Started:
    """The start that evidence is bound to: invocation, main process, where the journal stood, who was there before.
    `group` is its control group where that is known: what is read of it then needs no question before."""

    invocation: str
    main_pid: int
    cursor: str
    restarts: int = 0
    old_pids: tuple[int, ...] = ()
    kernel_cursor: str = ""
    gpu_cursor: str = ""
    group: str = ""

    def context(self) -> bytes:
        known = {
            "invocation": self.invocation,
            "main_pid": self.main_pid,
            "restarts": self.restarts,
            "old_pids": list(self.old_pids),
        }
        return _json(known)


async def ask(host: Host, engine: Engine, target: Target, order: Order, clock: Clock = time.monotonic) -> Items:
    """What the service says of itself before the traffic of the order, and what it answers to that. Raises StepFailed
    where it asks for a key that is not the one at hand: nothing that follows could be proven."""
    async with Endpoint.of(host, target, clock) as endpoint:
        said = await _probed(endpoint, engine)
        model = model_of(target, said.get("models", (b"", ""))[0])
        before = {"metrics-before": said["metrics"]} if "metrics" in said else {}
        return {**said, **before, **await _traffic(endpoint, engine, model, target, order, clock)}


async def read(host: Host, gpu_host: Host | None, engine: Engine, target: Target, started: Started) -> Items:
    """What the service says of itself after its traffic, and what the hosts say of its start, at the same time."""
    async with together() as group:
        said = group.create_task(_said(host, engine, target))
        start = group.create_task(read_start(host, target, started))
        devices = group.create_task(_read_devices(host, gpu_host, target, started))
    return {"context": (started.context(), "application/json"), **said.result(), **start.result(), **devices.result()}


async def _said(host: Host, engine: Engine, target: Target) -> Items:
    async with Endpoint.of(host, target) as endpoint:
        return await _probed(endpoint, engine)


async def _read_devices(host: Host, gpu_host: Host | None, target: Target, started: Started) -> Items:
    """The GPU host's drivers, and its kernel log where that is not the serving host's."""
    items: Items = {}
    if gpu_host is not None and target.drivers:
        drivers = await observe_drivers(gpu_host, sorted(target.drivers))
        items["drivers"] = (_json(drivers), "application/json")
    if gpu_host is not None and gpu_host is not host and started.gpu_cursor:
        (log,) = await gpu_host.run_all([argv.kernel_log(after=started.gpu_cursor)], timeout_s=READ_TIMEOUT_S)
        items["kernel-gpu"] = (log.stdout, "text/plain")
    return items


async def read_start(host: Host, target: Target, started: Started, *, journal: bool = True) -> Items:
    """Journal (where it is wanted), unit, process, port and kernel log, all asked at the same time."""
    questions = {
        "listeners": argv.listeners(int(target.endpoint.rpartition(":")[2].strip("/"))),
        "kernel": argv.kernel_log(after=started.kernel_cursor or started.cursor),
    }
    if journal:
        invocation = "" if started.cursor else started.invocation
        questions["journal"] = argv.journal(target.unit, after=started.cursor, invocation=invocation)
    async with together() as group:
        of_unit = group.create_task(_read_unit(host, target, started))
        asked = {
            name: group.create_task(host.run_all([question], timeout_s=READ_TIMEOUT_S))
            for name, question in questions.items()
        }
    items = of_unit.result()
    for name, task in asked.items():
        (read,) = task.result()
        if read.ok:
            items[name] = _KEPT[name](read)
    return items


_KEPT: Mapping[str, Callable[[Completed], tuple[bytes, str]]] = {
    "journal": lambda read: (_of_start(read.stdout), "application/x-journal"),
    "listeners": lambda read: (_json([pid for _, pid in listeners_of(read.text)]), "application/json"),
    "kernel": lambda read: (read.stdout, "text/plain"),
}


async def _read_unit(host: Host, target: Target, started: Started) -> Items:
    """systemd's word, and what /proc has of the processes: of those that are known, at the same time; of those that
    systemd names, where they are others."""
    known = started.main_pid, started.group
    async with together() as group:
        showing = group.create_task(host.run_all([argv.show(target.unit)], timeout_s=READ_TIMEOUT_S))
        reading = group.create_task(_answers_of(host, *known))
    (shown,) = showing.result()
    facts = properties(shown.text)
    said = int(facts.get("MainPID") or 0), facts.get("ControlGroup", "")
    answers = reading.result() if said == known else await _answers_of(host, *said)
    items: Items = {"unit": (shown.stdout, "text/plain")} if shown.ok else {}
    return items | await _of_processes(host, target, facts, answers)


async def _answers_of(host: Host, pid: int, group: str) -> Sequence[Completed]:
    """The members and the memory events of a control group, the argv and the environment of a process."""
    of_group = [argv.control_group(group), argv.memory_events(group)] if group else []
    of_process = [argv.cmdline(pid), argv.environ(pid)] if pid else []
    batches = [batch for batch in (of_group, of_process) if batch]
    async with together() as tasks:
        asked = [tasks.create_task(host.run_all(batch, timeout_s=READ_TIMEOUT_S)) for batch in batches]
    return [answer for task in asked for answer in task.result()]


async def _of_processes(host: Host, target: Target, facts: Mapping[str, str], answers: Sequence[Completed]) -> Items:
    pid, group = int(facts.get("MainPID") or 0), facts.get("ControlGroup", "")
    items: Items = {}
    if group and answers[0].ok:
        items["processes"] = (_json(sorted(pids_of(answers[0].text))), "application/json")
    if group and answers[1].ok:
        items["memory-events"] = (answers[1].stdout, "text/plain")
    if pid and answers[-2].ok and not started_by(words_of(answers[-2].stdout), target.argv):
        answers = await _behind_wrapper(host, facts, target) or answers
    if pid and answers[-1].ok and answers[-2].ok:
        items["cmdline"] = (answers[-2].stdout, "text/x-cmdline")
        items["environ"] = (_json(_known(target, variables_of(answers[-1].stdout))), "application/json")
    return items


async def _behind_wrapper(host: Host, facts: Mapping[str, str], target: Target) -> Sequence[Completed]:
    """Command line and environment of the unit's process that was started by the target's argv; empty without one."""
    there = await members(host, facts.get("ControlGroup", ""))
    old = older(there, int(facts.get("MainPID") or 0), facts.get("InvocationID", ""))
    engine = topmost([p for p in there if p.pid not in old], lambda words: started_by(words, target.argv))
    if engine is None:
        return ()
    return await host.run_all([argv.cmdline(engine.pid), argv.environ(engine.pid)], timeout_s=READ_TIMEOUT_S)


async def with_older(host: Host, unit: str, started: Started) -> Started:
    """The start, with every process of its control group that began before it among the old ones: after a stop with
    KillMode=process journald stamps their lines with the new start's InvocationID."""
    usual = default_group(unit)
    asked = [argv.show(unit), argv.control_group(usual)]
    shown, living = await host.run_all(asked, timeout_s=READ_TIMEOUT_S)
    group = properties(shown.text).get("ControlGroup", "")
    known = living if group == usual else None
    old = await earlier(host, group, started.main_pid, started.invocation, known)
    return replace(started, old_pids=tuple(sorted({*started.old_pids, *old})), group=group)


async def _probed(endpoint: Endpoint, engine: Engine) -> Items:
    questions = engine.probes()
    answers = await asyncio.gather(*(endpoint.ask(q, timeout_s=PROBE_TIMEOUT_S) for q in questions.values()))
    items: Items = {}
    for name, answer in zip(questions, answers, strict=True):
        evidence = name.partition("-before-")[0]
        if answer.ok and evidence not in items:
            items[evidence] = (answer.body, "text/plain" if evidence == "metrics" else "application/json")
    return items


async def _traffic(endpoint: Endpoint, engine: Engine, model: str, target: Target, order: Order, clock: Clock) -> Items:
    """Answers first; a server that is silent is asked no more."""
    least_s = engine.record_interval_s(target)
    found = {"answers": await checkable_answers(endpoint, engine, model)}
    if lacking := next(filter(None, (endpoint.lacking_key(one["status"]) for one in found["answers"])), None):
        raise StepFailed("verify", lacking.sentence, hint=lacking.hint)
    further: tuple[tuple[str, Callable[[], Awaitable[list[dict[str, Any]]]]], ...] = (
        (KEYLESS, lambda: without_key(endpoint, engine, target)),
        ("contracts", lambda: contracts(endpoint, engine, model, target.offers)),
        (GENERATIONS, lambda: generations(endpoint, engine, order, least_s)),
        (LOAD, lambda: measure(endpoint, engine, model, order, clock)),
        (QUIZ, lambda: quiz(endpoint, engine, model, order, clock)),
    )
    for name, ask in further:
        silent = any(one.get("status") == 0 for one in found["answers"] + found.get(GENERATIONS, []))
        found[name] = [] if silent else await ask()
    kept = {name: records for name, records in found.items() if records or name in ("answers", GENERATIONS)}
    return {name: (_json(records), "application/json") for name, records in kept.items()}


def model_of(target: Target, models: bytes) -> str:
    """The name to ask for: what `/v1/models` says, else what the target's arguments do."""
    return model_name(models, engine_for(target.engine).model_name(target))


def _of_start(journal: bytes) -> bytes:
    """Records since the start's cursor; without a cursor journalctl gives all, and the facts tell them apart."""
    return b"\n".join(line for line in journal.splitlines() if line.startswith(b"{"))


def _known(target: Target, variables: Mapping[str, str]) -> dict[str, Any]:
    """Values of the variables that the manifest itself sets. Of all others the name alone: an EnvironmentFile= may have
    set them, and nothing of such a file's values is kept, however they are called."""
    return {name: value if name in target.environment else None for name, value in sorted(variables.items())}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
