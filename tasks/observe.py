"""Looking at a service's hosts and changing nothing: two round trips for the serving host; meanwhile three for the GPU
host."""

from collections.abc import Mapping, Sequence

from state.boot_rules import path_of
from state.engines.rendering import engine_started_by
from state.observation import Observation, ObservedFile, ObservedGpu, ObservedMember, ObservedUnit
from state.revision import Revision
from state.target import started_by
from tasks import argv
from tasks.hosts.port import Argv, Completed, Host
from tasks.observed_files import file_questions, files_from, observe_files
from tasks.processes import members, older, topmost
from tasks.properties import properties, words_of
from tasks.sequence import READ_TIMEOUT_S
from tasks.together import together


async def observe(host: Host, gpu_host: Host | None, revision: Revision) -> Observation:
    """Files, unit, running argv and GPUs as they are now. Raises what the Host port raises, and Refused for a unit file
    that cannot be read."""
    return (await observe_beside(host, gpu_host, revision, ()))[0]


async def observe_beside(
    host: Host, gpu_host: Host | None, revision: Revision, questions: Sequence[Argv]
) -> tuple[Observation, Sequence[Completed]]:
    """The same, and the answers to questions that the serving host is asked in the first of its round trips."""
    if not gpu_host or not revision.drivers:
        return await _running(host, revision, questions)
    async with together() as group:
        running = group.create_task(_running(host, revision, questions))
        gpus = group.create_task(observe_gpus(gpu_host, sorted(revision.drivers)))
        rules = group.create_task(observe_files(gpu_host, [path_of(revision.service)]))
    seen, answers = running.result()
    return seen.model_copy(update={"gpus": gpus.result(), "boot": rules.result()[0]}), answers


async def _running(
    host: Host, revision: Revision, questions: Sequence[Argv]
) -> tuple[Observation, Sequence[Completed]]:
    (unit, files, text), answers = await _serving(host, revision, questions)
    running = await _argv(host, unit, revision)
    return Observation(unit=unit, files=files, argv=running, unit_text=text), answers


async def observe_unit(host: Host, unit: str) -> ObservedUnit:
    (shown,) = await host.run_all([argv.show(unit)], timeout_s=READ_TIMEOUT_S)
    return unit_from(unit, shown.text)


def unit_from(name: str, text: str) -> ObservedUnit:
    """The unit that `systemctl show` describes."""
    facts = properties(text)
    return ObservedUnit(
        name=name,
        load_state=facts.get("LoadState", "not-found"),
        active_state=facts.get("ActiveState", "inactive"),
        sub_state=facts.get("SubState", ""),
        result=facts.get("Result", ""),
        invocation=facts.get("InvocationID", ""),
        main_pid=int(facts.get("MainPID") or 0),
        restarts=int(facts.get("NRestarts") or 0),
        fragment=facts.get("FragmentPath", ""),
        drop_ins=tuple(facts.get("DropInPaths", "").split()),
        need_daemon_reload=facts.get("NeedDaemonReload") == "yes",
        control_group=facts.get("ControlGroup", ""),
    )


async def observe_drivers(host: Host, addresses: Sequence[str]) -> dict[str, str | None]:
    """The driver of each PCI function; None for one without any, or that is absent."""
    links = await host.run_all([argv.driver_link(address) for address in addresses], timeout_s=READ_TIMEOUT_S)
    return {address: _last_part(link) for address, link in zip(addresses, links, strict=True)}


async def observe_gpus(host: Host, addresses: Sequence[str]) -> tuple[ObservedGpu, ...]:
    """Driver, IOMMU group with its members and type, and class of each PCI function; absent ones are told as such."""
    first = [
        question
        for address in addresses
        for question in (
            argv.exists(f"/sys/bus/pci/devices/{address}"),
            argv.driver_link(address),
            argv.group_link(address),
            argv.device_class(address),
        )
    ]
    answers = await host.run_all(first, timeout_s=READ_TIMEOUT_S)
    groups = [_last_part(answers[4 * i + 2]) for i in range(len(addresses))]
    details = await _groups(host, sorted({g for g in groups if g}))
    members = await _members(host, sorted({m for _, addresses in details.values() for m in addresses}))
    return tuple(
        _gpu(address, answers[4 * i : 4 * i + 4], groups[i], details.get(groups[i] or ""), members)
        for i, address in enumerate(addresses)
    )


_Serving = tuple[ObservedUnit, tuple[ObservedFile, ...], str | None]


async def _serving(host: Host, revision: Revision, beside: Sequence[Argv]) -> tuple[_Serving, Sequence[Completed]]:
    paths = [file.path for file in revision.files]
    questions: list[Argv] = [*beside, argv.show(revision.unit), argv.unit_text(revision.unit)]
    answers = await host.run_all([*questions, *file_questions(paths)], timeout_s=READ_TIMEOUT_S)
    answered, (shown, text, *rest) = answers[: len(beside)], answers[len(beside) :]
    files = files_from(paths, rest, host.name)
    return (unit_from(revision.unit, shown.text), files, text.text if text.ok else None), answered


async def _argv(host: Host, unit: ObservedUnit, revision: Revision) -> tuple[str, ...] | None:
    """The engine's own: the main process's, or that of the engine below a wrapper that stays (`bash -c`, a script)."""
    if not unit.main_pid:
        return None
    (read,) = await host.run_all([argv.cmdline(unit.main_pid)], timeout_s=READ_TIMEOUT_S)
    words = words_of(read.stdout)

    def is_engine(words: Sequence[str]) -> bool:
        return started_by(words, revision.argv) or engine_started_by(words) is not None

    if not words or is_engine(words):
        return words or None
    there = await members(host, unit.control_group)
    old = older(there, unit.main_pid, unit.invocation)
    engine = topmost([p for p in there if p.pid not in old], is_engine)
    return engine.argv if engine else words


async def _groups(host: Host, groups: Sequence[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    if not groups:
        return {}
    answers = await host.run_all(
        [q for group in groups for q in (argv.group_type(group), argv.group_members(group))], timeout_s=READ_TIMEOUT_S
    )
    return {
        group: (answers[2 * i].text.strip(), tuple(answers[2 * i + 1].text.split())) for i, group in enumerate(groups)
    }


async def _members(host: Host, addresses: Sequence[str]) -> dict[str, ObservedMember]:
    if not addresses:
        return {}
    answers = await host.run_all(
        [q for a in addresses for q in (argv.driver_link(a), argv.device_class(a))], timeout_s=READ_TIMEOUT_S
    )
    return {
        address: ObservedMember(
            address=address, driver=_last_part(answers[2 * i]), pci_class=answers[2 * i + 1].text.strip() or None
        )
        for i, address in enumerate(addresses)
    }


def _gpu(
    address: str,
    answers: Sequence[Completed],
    group: str | None,
    detail: tuple[str, tuple[str, ...]] | None,
    members: Mapping[str, ObservedMember],
) -> ObservedGpu:
    present, driver, _, pci_class = answers
    return ObservedGpu(
        address=address,
        present=present.ok,
        driver=_last_part(driver),
        group=group,
        group_type=detail[0] if detail else None,
        group_members=detail[1] if detail else (),
        pci_class=pci_class.text.strip() or None,
        members=tuple(members[m] for m in detail[1] if m != address) if detail else (),
    )


def _last_part(link: Completed) -> str | None:
    return link.text.strip().rpartition("/")[2] or None if link.ok else None
