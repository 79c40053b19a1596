"""How often a plan goes to the hosts: each time is a round trip over SSH, with a session that sshd sets up."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from flows import requests
from flows.looking import look
from flows.ports import Ports, opened
from state.manifest.load import load_manifest
from state.manifest.model import HostSpec
from state.revision import FileContent
from tasks.hosts.port import Argv, Completed, Host
from tests.flows.rehearsal import Fuse, MortalHost, rehearsal
from tests.practice.virtual_time import in_virtual_time


@dataclass
class Told(MortalHost):
    """Says how often it was gone to."""

    trips: Counter[str]

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        self.trips[self.name] += 1
        return await super().run_all(argvs, timeout_s=timeout_s)


def counting(ports: Ports, trips: Counter[str]) -> Ports:
    def open_host(name: str, spec: HostSpec) -> Host:
        return Told(ports.open_host(name, spec), Fuse(), trips)

    return replace(ports, open_host=open_host)


@pytest.mark.parametrize(
    ("arguments", "trips"),
    [
        pytest.param({}, 2, id="the-model-that-runs"),
        pytest.param({"model_path": "/models/another"}, 3, id="another-model"),
        pytest.param({"model_path": "qwen/by-name"}, 3, id="a-model-of-no-folder-beside-one-that-runs"),
    ],
)
def test_the_serving_host_is_gone_to_twice_for_all_facts(arguments: dict[str, Any], trips: int) -> None:
    """For twenty files as for one; a third time for the architecture of a model that runs and is not wanted."""

    @in_virtual_time
    async def run() -> None:
        async with rehearsal() as stage:
            counted = Counter[str]()
            ports = counting(stage.ports(), counted)
            wanted = load_manifest(stage.scene.manifest(arguments), "manifest.yaml")
            requested = requests.from_manifest(ports, wanted, "rollout", "rehearsal")
            more = [FileContent(path=f"/etc/more/{number}.conf", content="x") for number in range(20)]
            revision = requested.revision.model_copy(update={"files": (*requested.revision.files, *more)})
            async with opened(ports, requested.hosts) as hosts:
                plan, observed = await look(hosts, revision, ports)
            assert counted[revision.unit_host] == trips
            assert len(observed.files) == 21
            assert plan.target.engine_version

    run()
