"""A service that fails at each start, and that systemd starts again each time: a rollout to what mends it."""

import asyncio
from dataclasses import replace

import pytest

from flows import requests
from flows.session import begin
from state.manifest.load import load_manifest
from tasks.practice.scene import UNIT, UNIT_FILE, service_unit
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.flows.test_waits import Far
from tests.practice.virtual_time import in_virtual_time

DYING = {"fault": "graph-capture-failed", "when": {"mem_fraction_static": 0.85}}
PAUSE_S, TRIP_S = 4.0, 0.3
"""Each start takes some two seconds until it fails; between plan and preflight pass several round trips."""


async def comes_and_goes(stage: Rehearsal) -> None:
    text = service_unit(stage.scene.port).replace("KillMode=", f"Restart=always\nRestartSec={PAUSE_S:g}\nKillMode=")
    serving = stage.scene.serving
    serving.files.write(UNIT_FILE, text.encode())
    stage.scene.script_faults(DYING)
    for verb in (("daemon-reload",), ("restart", "--", UNIT)):
        await serving.execute(("sudo", "-n", "--", "systemctl", *verb), user="interlock")
    while serving.systemd.services[UNIT].status.n_restarts < 2:  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("later_s", [0.0, 0.7, 1.4, 2.1, 2.8, 3.5, 4.2, 4.9])
@in_virtual_time
async def test_the_plan_stands_wherever_between_two_starts_it_was_made(later_s: float) -> None:
    async with rehearsal() as stage:
        await comes_and_goes(stage)
        await asyncio.sleep(later_s)
        ports = stage.ports()
        slow = replace(ports, open_host=lambda name, spec: Far(ports.open_host(name, spec), TRIP_S))
        wanted = load_manifest(stage.scene.manifest(), "manifest.yaml")
        ended = await begin(slow, requests.from_manifest(slow, wanted, "rollout", "rehearsal"))
        assert ended.concluded is not None
        assert ended.concluded.outcome == "promoted", ended.concluded.summary
