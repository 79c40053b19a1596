"""Gathering the evidence of one verification: traffic first, then everything that can be read about the same start."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from state.engines.engine import Engine, engine_for
from state.target import Target, started_by
from state.traffic import GENERATIONS, LOAD, QUIZ, Order
from tasks import argv
from tasks.endpoint import Clock, Endpoint
from tasks.hosts.port import Argv, Completed, Host
from tasks.load import measure, quiz
from tasks.observe import observe_gpus
from tasks.processes import members, older, topmost
from tasks.properties import listeners_of, pids_of, properties, variables_of, words_of
from tasks.sequence import READ_TIMEOUT_S
from tasks.traffic import checkable_answers, contracts, generations, model_name

PROBE_TIMEOUT_S = 25.0
"""A hung scheduler lets `/health` wait 20 s before it says so (seen with SGLang 0.5.17)."""

Items = dict[str, tuple[bytes, str]]
"""Raw evidence by name, with its media type."""


@dataclass(frozen=True, slots=True)
class Started:
    """The start that evidence is bound to: invocation, main process, where the journal stood, who was there before."""

    invocation: str
    main_pid: int
    cursor: str
    restarts: int = 0
    old_pids: tuple[int, ...] = ()
    kernel_cursor: str = ""
    gpu_cursor: str = ""

    def context(self) -> bytes:
        known = {
            "invocation": self.invocation,
            "main_pid": self.main_pid,
            "restarts": self.restarts,
            "old_pids": list(self.old_pids),
        }
        return _json(known)


async def gather(
    host: Host,
    gpu_host: Host | None,
    engine: Engine,
    target: Target,
    started: Started,
    order: Order,
    clock: Clock = time.monotonic,
) -> Items:
    """Everything that claims are judged by. What cannot be read is left out: a missing item is unknown, never zero."""
    items: Items = {"context": (started.context(), "application/json")}
    async with Endpoint(host, target.endpoint, clock) as endpoint:
        items |= await _probed(endpoint, engine)
        if "metrics" in items:
            items["metrics-before"] = items["metrics"]
        model = model_of(target, items.get("models", (b"", ""))[0])
        items |= await _traffic(endpoint, engine, model, target, order, clock)
        items |= await _probed(endpoint, engine)
    items |= await read_start(host, engine, target, started)
    if gpu_host is not None and target.drivers:
        seen = await observe_gpus(gpu_host, sorted(target.drivers))
        items["drivers"] = (_json({gpu.address: gpu.driver for gpu in seen}), "application/json")
    if gpu_host is not None and gpu_host is not host and started.gpu_cursor:
        (log,) = await gpu_host.run_all([argv.kernel_log(after=started.gpu_cursor)], timeout_s=READ_TIMEOUT_S)
        items["kernel-gpu"] = (log.stdout, "text/plain")
    return items


async def read_start(host: Host, engine: Engine, target: Target, started: Started) -> Items:
    """Journal, unit, process, port and kernel log, in two round trips."""
    port = int(target.endpoint.rpartition(":")[2].strip("/"))
    shown, listening, journal, kernel = await host.run_all(
        [
            argv.show(target.unit),
            argv.listeners(port),
            argv.journal(target.unit, after=started.cursor, invocation="" if started.cursor else started.invocation),
            argv.kernel_log(after=started.kernel_cursor or started.cursor),
        ],
        timeout_s=READ_TIMEOUT_S,
    )
    facts = properties(shown.text)
    items: Items = {"unit": (shown.stdout, "text/plain")} if shown.ok else {}
    if journal.ok:
        items["journal"] = (_of_start(journal.stdout), "application/x-journal")
    if listening.ok:
        items["listeners"] = (_json([pid for _, pid in listeners_of(listening.text)]), "application/json")
    if kernel.ok:
        items["kernel"] = (kernel.stdout, "text/plain")
    return items | await _read_process(host, target, facts)


async def _read_process(host: Host, target: Target, facts: Mapping[str, str]) -> Items:
    pid, group = int(facts.get("MainPID") or 0), facts.get("ControlGroup", "")
    questions: list[Argv] = [argv.control_group(group), argv.memory_events(group)] if group else []
    questions += [argv.cmdline(pid), argv.environ(pid)] if pid else []
    answers: Sequence[Completed] = await host.run_all(questions, timeout_s=READ_TIMEOUT_S) if questions else ()
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
    (shown,) = await host.run_all([argv.show(unit)], timeout_s=READ_TIMEOUT_S)
    there = await members(host, properties(shown.text).get("ControlGroup", ""))
    old = older(there, started.main_pid, started.invocation)
    return replace(started, old_pids=tuple(sorted({*started.old_pids, *old})))


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
    further: tuple[tuple[str, Callable[[], Awaitable[list[dict[str, Any]]]]], ...] = (
        ("contracts", lambda: contracts(endpoint, engine, model, target.offers)),
        (GENERATIONS, lambda: generations(endpoint, engine, order.generations, order.traffic.prompts, least_s)),
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
