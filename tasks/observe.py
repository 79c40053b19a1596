"""Looking at a service's hosts and changing nothing: two round trips for the serving host, four for the GPU host."""

import re
from collections.abc import Mapping, Sequence

from state.boot_rules import path_of
from state.engines.rendering import engine_started_by
from state.errors import Refused
from state.observation import Observation, ObservedFile, ObservedGpu, ObservedMember, ObservedUnit
from state.revision import Revision
from state.target import started_by
from tasks import argv
from tasks.hosts.port import Argv, Completed, Host
from tasks.processes import members, older, topmost
from tasks.properties import properties, words_of
from tasks.sequence import READ_TIMEOUT_S


async def observe(host: Host, gpu_host: Host | None, revision: Revision) -> Observation:
    """Files, unit, running argv and GPUs as they are now. Raises what the Host port raises, and Refused for a unit file
    that cannot be read."""
    unit, files, text = await _serving(host, revision)
    running = await _argv(host, unit, revision)
    if not gpu_host or not revision.drivers:
        return Observation(unit=unit, files=files, argv=running, unit_text=text)
    gpus = await observe_gpus(gpu_host, sorted(revision.drivers))
    (boot,) = await observe_files(gpu_host, [path_of(revision.service)])
    return Observation(unit=unit, files=files, argv=running, unit_text=text, gpus=gpus, boot=boot)


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


async def observe_files(host: Host, paths: Sequence[str]) -> tuple[ObservedFile, ...]:
    return files_from(paths, await host.run_all(file_questions(paths), timeout_s=READ_TIMEOUT_S), host.name)


def file_questions(paths: Sequence[str]) -> list[Argv]:
    return [question for path in paths for question in (argv.sha256(path), argv.stat(path))]


def files_from(paths: Sequence[str], answers: Sequence[Completed], host: str) -> tuple[ObservedFile, ...]:
    """The files that the answers to `file_questions` describe. Raises Refused for one that cannot be read."""
    return tuple(_file(path, answers[2 * i], answers[2 * i + 1], host) for i, path in enumerate(paths))


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


async def _serving(host: Host, revision: Revision) -> tuple[ObservedUnit, tuple[ObservedFile, ...], str | None]:
    paths = [file.path for file in revision.files]
    questions: list[Argv] = [argv.show(revision.unit), argv.unit_text(revision.unit)]
    shown, text, *rest = await host.run_all([*questions, *file_questions(paths)], timeout_s=READ_TIMEOUT_S)
    files = files_from(paths, rest, host.name)
    return unit_from(revision.unit, shown.text), files, text.text if text.ok else None


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


def _file(path: str, digest: Completed, stat: Completed, host: str) -> ObservedFile:
    if not digest.ok:
        said = digest.stderr.decode("utf-8", "replace").strip()
        if "No such file" in said:
            return ObservedFile(path=path, digest=None)
        raise Refused(f"{path} on {host} cannot be read: {said or 'no reason given'}", hint="check it by hand")
    mode, owner, group = [*stat.text.split(), "", "", ""][:3]
    return ObservedFile(
        path=path,
        digest=digest.text.split()[0].lstrip("\\"),
        mode=int(mode, 8) if re.fullmatch(r"[0-7]+", mode) else None,
        owner=owner or None,
        group=group or None,
    )


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
