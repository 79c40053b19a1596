"""An instance of a template as the service.

Each test runs on a simulated host over SSH and, with INTERLOCK_LAB=1, on a container host with a systemd of its own.
"""

from pathlib import Path

import pytest

from state.inspection.log import LogReader
from state.inspection.unit import read_unit
from tasks import service
from tasks.practice.scene import free_port
from tests.lab.orchestrated import Orchestrated
from tests.lab.rehearsed import KINDS, rehearsed
from tests.lab.shapes import FOLDER, IGNORED, command, end, refused, unit_text

pytestmark = pytest.mark.parametrize("kind", KINDS)


async def test_an_instance_of_a_template_is_rolled_out_alone(kind: str, tmp_path: Path) -> None:
    """It gets a unit file of its own; a rollback takes that away again. The template and its other instances stay."""
    async with rehearsed(kind, tmp_path, IGNORED) as made:
        for path, text in template(free_port(), 2).items():
            made.put(path, text)
        await made.run("systemctl", "daemon-reload")
        await made.run("systemctl", "start", "--", "sglang@2.service")
        await made.begin(template(made.port, 1), "sglang@1.service")
        wanted = {"unit": {"name": "sglang@1.service", "stop": {"timeout": "20s"}}}
        before, second = await made.state(), await instance(made, 2)
        outcome, summary = end(await made.roll_out(**wanted))
        assert outcome == "rolled-back", summary
        assert await made.state() == before
        made.script_faults()
        ended = await made.roll_out(**wanted)
        assert end(ended)[0] == "promoted", end(ended)
        assert ended.plan is not None
        assert [c for c in ended.plan.changes if "sglang@.service and its other instances stay as they are" in c]
        facts = await made.show("FragmentPath", "DropInPaths", "ControlGroup")
        assert facts["FragmentPath"] == f"{FOLDER}/sglang@1.service"
        assert facts["DropInPaths"].split() == [
            f"{FOLDER}/sglang@.service.d/10.conf",
            f"{FOLDER}/sglang@1.service.d/20.conf",
        ]
        assert facts["ControlGroup"] == service.default_group(made.unit)
        assert end(await made.roll_out(purpose="verify", **wanted))[0] == "verified"
        assert end(await made.roll_out(**wanted))[0] == "unchanged"
        assert await instance(made, 2) == second
        await inspected(made)
        made.put(f"{FOLDER}/sglang@.service.d/30.conf", "[Service]\nUser=nobody\n")
        changed = wanted | {"arguments": {"speculative_num_steps": 3, "speculative_num_draft_tokens": 4}}
        await refused(made, r"the drop-in \S+/sglang@\.service\.d/30\.conf overrides User", **changed)


def template(port: int, number: int) -> dict[str, str]:
    return {
        f"{FOLDER}/sglang@.service": unit_text(command("${PORT}"), "User=sglang", "EnvironmentFile=/etc/sglang/%i.env"),
        f"{FOLDER}/sglang@.service.d/10.conf": "[Service]\nNice=3\n",
        f"{FOLDER}/sglang@{number}.service.d/20.conf": "[Service]\nLimitNOFILE=64000\n",
        f"/etc/sglang/{number}.env": f"PORT={port}\n",
    }


async def instance(made: Orchestrated, number: int) -> str:
    names = "ActiveState,MainPID,InvocationID,FragmentPath,NRestarts,NeedDaemonReload"
    return await made.run("systemctl", "show", f"--property={names}", "--", f"sglang@{number}.service")


async def inspected(made: Orchestrated) -> None:
    """What inspection reads of the instance's journal and unit."""
    reader = LogReader()
    for line in (
        await made.run("journalctl", "--output=json", "--all", "--no-pager", f"--unit={made.unit}")
    ).splitlines():
        reader.feed_line(line.encode())
    assert [boot.outcome for boot in reader.report().boots][-1] == "ready"
    report = read_unit(await made.run("systemctl", "cat", "--", made.unit), made.unit)
    assert report.arguments["speculative_algorithm"] == "NEXTN"
