"""What the preflight refuses, each in its own sentence and all of them at once; the host stays as it was."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flows import requests
from flows.looking import look
from flows.ports import opened
from flows.session import begin
from state.errors import UsageInvalid
from state.events import RolloutRequested
from state.manifest.load import load_manifest
from state.rollout import Rollout
from tasks.practice.pci import Function
from tasks.practice.scene import GUEST_GPUS, UNIT, UNIT_FILE
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

Preparing = Callable[[Rehearsal], Awaitable[None]]


async def as_it_is(_stage: Rehearsal) -> None:
    """Nothing is wrong with the host."""


async def a_stranger_on_the_port(stage: Rehearsal) -> None:
    await stage._run("systemctl", "stop", "--", UNIT)
    stage.scene.serving.add_stranger("python3", "-m", "http.server", ports=[stage.scene.port])


async def masked(stage: Rehearsal) -> None:
    await stage._run("systemctl", "stop", "--", UNIT)
    stage.scene.serving.files.remove(UNIT_FILE)
    await stage._run("ln", "-s", "--", "/dev/null", UNIT_FILE)
    await stage._run("systemctl", "daemon-reload")


async def a_drop_in(stage: Rehearsal) -> None:
    stage.scene.serving.files.put(f"{UNIT_FILE}.d/override.conf", "[Service]\nExecStart=\nExecStart=/bin/true\n")
    await stage._run("systemctl", "daemon-reload")


async def another_device_in_the_group(stage: Rehearsal) -> None:
    group = stage.scene.hypervisor.pci.functions[GUEST_GPUS[0]].group
    nvme = Function("0000:82:00.0", group, "0x010802", "0x144d", "0xa80a", native="nvme", driver="pcieport")
    stage.scene.hypervisor.pci.add([nvme])


async def no_gpu(stage: Rehearsal) -> None:
    del stage.scene.hypervisor.pci.functions[GUEST_GPUS[1]]
    stage.scene.hypervisor.pci.probes.remove(GUEST_GPUS[1])


async def no_engine(stage: Rehearsal) -> None:
    stage.scene.serving.files.remove("/opt/sglang/bin/python")


REFUSALS = [
    pytest.param(
        as_it_is,
        {"model_path": "/shared/models/none"},
        {},
        r"engine\.arguments\.model_path: /shared/models/none does not exist on serving",
        id="no-model",
    ),
    pytest.param(
        as_it_is,
        {"speculative_draft_model_path": "/shared/models/none"},
        {},
        r"engine\.arguments\.speculative_draft_model_path: /shared/models/none does not exist on serving",
        id="no-draft",
    ),
    pytest.param(
        as_it_is,
        {},
        {"engine": {"command": ["/opt/none/bin/python", "-m", "sglang.launch_server"]}},
        r"engine\.command: /opt/none/bin/python is not an executable file on serving",
        id="another-engine-s-command",
    ),
    pytest.param(
        no_engine,
        {},
        {},
        r"engine\.command: /opt/sglang/bin/python is not an executable file on serving",
        id="no-engine",
    ),
    pytest.param(
        as_it_is,
        {},
        {"unit": {"secrets": ["/etc/interlock/none.env"]}},
        r"unit\.secrets: /etc/interlock/none\.env does not exist on serving",
        id="no-file-of-secrets",
    ),
    pytest.param(
        as_it_is,
        {"mem_fraction_statik": 0.5},
        {},
        r"does not accept --mem-fraction-statik; .*--mem-fraction-static",
        id="misspelt-flag",
    ),
    pytest.param(
        as_it_is,
        {},
        {"engine": {"version": "0.4.0"}},
        r"engine\.version: 0\.4\.0 is expected, .* is installed",
        id="another-version",
    ),
    pytest.param(
        a_stranger_on_the_port,
        {},
        {},
        r"port 30000 on serving is held by .*PID \d+.*, which is not of sglang-qwen\.service",
        id="a-stranger-holds-the-port",
    ),
    pytest.param(masked, {}, {}, r"sglang-qwen\.service is masked; unmask it first", id="masked"),
    pytest.param(
        a_drop_in,
        {},
        {},
        r"the drop-in .*override\.conf overrides ExecStart; remove it, or put its contents into the manifest",
        id="a-drop-in-overrides",
    ),
    pytest.param(
        no_gpu, {}, {}, rf"gpus: there is no device {re.escape(GUEST_GPUS[1])} on hypervisor", id="no-such-gpu"
    ),
    pytest.param(
        another_device_in_the_group,
        {},
        {},
        r"gpus: IOMMU group \d+ of 0000:81:00\.0 also holds 0000:82:00\.0.*, which hypervisor would lose",
        id="a-disk-in-the-gpu-s-group",
    ),
]


@pytest.mark.parametrize(("prepare", "arguments", "changes", "sentence"), REFUSALS)
def test_a_precondition_that_does_not_hold_refuses(
    prepare: Preparing, arguments: dict[str, Any], changes: dict[str, Any], sentence: str
) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            await prepare(stage)
            before = await snapshot(stage)
            ended = await stage.roll_out(arguments, **changes)
            refused(ended, sentence)
            assert await snapshot(stage) == before
            assert ended.released, "the next rollout need not wait"

    run()


def refused(ended: Rollout, sentence: str) -> None:
    assert ended.concluded is not None
    assert (ended.concluded.outcome, ended.concluded.exit_code) == ("refused", 3), ended.concluded.summary
    assert re.search(sentence, ended.concluded.summary), ended.concluded.summary
    assert ended.concluded.summary.count("; ") <= sentence.count("; "), "this one, and no other"


async def snapshot(stage: Rehearsal) -> tuple[object, ...]:
    """Files, unit and drivers; all that a refused rollout must leave alone."""
    files = stage.scene.serving.files
    shown = await stage._run("systemctl", "show", "--property=ActiveState,MainPID,LoadState", "--", UNIT)
    unit_file = files.read(UNIT_FILE) if files.exists(UNIT_FILE) else None
    drivers = tuple(f.driver for f in stage.scene.hypervisor.pci.functions.values())
    return shown, unit_file, drivers, files.exists("/var/lib/interlock/qwen35-122b")


def test_all_refusals_are_told_at_once() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            for prepare in (a_stranger_on_the_port, a_drop_in, another_device_in_the_group):
                await prepare(stage)
            before = await snapshot(stage)
            ended = await stage.roll_out(
                {"model_path": "/none", "mem_fraction_statik": 0.5}, unit={"secrets": ["/etc/none.env"]}
            )
            assert ended.concluded is not None
            assert ended.concluded.exit_code == 3
            named = (
                "model_path", "secrets", "--mem-fraction-statik", "port 30000", "drop-in", "IOMMU group",
            )  # fmt: skip
            assert [word for word in named if word not in ended.concluded.summary] == []
            assert await snapshot(stage) == before

    run()


def test_a_flag_that_was_renamed_is_refused_by_the_installed_version() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            ended = await stage.roll_out({"mamba_scheduler_strategy": "no_buffer"})
            assert ended.concluded is not None
            assert ended.concluded.exit_code == 3
            assert "does not accept --mamba-scheduler-strategy" in ended.concluded.summary
            assert "it is `--mamba-radix-cache-strategy` since 0.5.14" in ended.concluded.summary

    run()


def test_a_change_against_a_service_that_is_down_is_refused_by_the_plan() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(started=False) as stage:
            ended = await stage.roll_out(claims=[{"claim": "throughput", "at_least": "+12%"}])
            refused(ended, "throughput-change-1: nothing to compare with")
            assert not ended.leased

    run()


def test_a_service_that_another_rollout_has_is_not_touched() -> None:
    """The refusal names who holds it, and why."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            first = asyncio.create_task(stage.roll_out())
            await until_recorded(stage, "subject-leased")
            second = await stage.roll_out({"speculative_num_steps": 3, "speculative_num_draft_tokens": 4})
            refused(second, r"(host|service-lease)-\S+ is held by first until \S+ \(rollout [0-9a-f]{12}: rehearsal\)")
            assert (await first).concluded.outcome == "promoted"  # type: ignore[union-attr]  # it has ended

    run()


def test_what_another_rollout_is_still_proving_is_not_called_unchanged() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal(settings={"stage_seconds": {"weights": 5.0}}) as stage:
            await asyncio.sleep(30)
            first = asyncio.create_task(stage.roll_out())
            await until_recorded(stage, "action-started", "await-readiness:new")
            refused(await stage.roll_out(), "is held by first")
            assert (await first).concluded.outcome == "promoted"  # type: ignore[union-attr]  # it has ended
            assert (await stage.roll_out()).concluded.outcome == "unchanged"  # type: ignore[union-attr]

    run()


@pytest.mark.parametrize("digest", [pytest.param("0" * 7, id="seven-digits"), pytest.param("x" * 12, id="no-digits")])
def test_a_reviewed_plan_is_named_by_at_least_eight_digits(digest: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            with pytest.raises(UsageInvalid, match="at least 8 hex digits"):
                request(stage, digest)

    run()


def test_a_reviewed_plan_is_carried_out_or_refused_when_the_host_has_changed() -> None:
    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            requested = request(stage, None)
            async with opened(stage.ports(), requested.hosts) as hosts:
                plan, _ = await look(hosts, requested.revision, stage.ports())
            refused(await begin(stage.ports(), request(stage, "0" * 8)), "The host changed since the plan was made")
            ended = await begin(stage.ports(), request(stage, plan.digest[:8]))
            assert ended.concluded is not None
            assert ended.concluded.outcome == "promoted"
            refused(await begin(stage.ports(), request(stage, plan.digest)), "The host changed since the plan was made")

    run()


async def until_recorded(stage: Rehearsal, kind: str, action: str | None = None) -> None:
    for _ in range(100_000):
        if any(e.type == kind and action in (None, e.data.get("action")) for e in await stage.store.read_all()):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"no {kind} in a thousand seconds")


def request(stage: Rehearsal, digest: str | None) -> RolloutRequested:
    manifest = load_manifest(stage.scene.manifest(), "manifest.yaml")
    return requests.from_manifest(stage.ports(), manifest, "rollout", "rehearsal", digest)
