"""Drop-ins, files of variables and links: what stands beside a unit file.

Each test runs on a simulated host over SSH and, with INTERLOCK_LAB=1, on a container host with a systemd of its own.
"""

import json
import re
from pathlib import Path

import pytest

from state.drop_ins import drop_in_folders, in_force
from state.store.export import export_lines
from tasks import argv
from tasks.practice.scene import UNIT, UNIT_FILE
from tests.lab.orchestrated import Orchestrated
from tests.lab.rehearsed import KINDS, rehearsed
from tests.lab.shapes import FOLDER, IGNORED, end, plain, refused, unit_text

pytestmark = pytest.mark.parametrize("kind", KINDS)


async def test_a_drop_in_that_adds_to_the_unit_stays_in_force(kind: str, tmp_path: Path) -> None:
    async with rehearsed(kind, tmp_path, IGNORED) as made:
        path = f"{UNIT_FILE}.d/10-limits.conf"
        text = "# of the operators\n[Service]\nNice=5\nLimitNOFILE=65000\nEnvironment=HF_HOME=/shared/hf\n"
        await made.begin(plain(made) | {path: text})
        before = await made.state()
        outcome, summary = end(await made.roll_out())
        assert outcome == "rolled-back", summary
        assert await made.state() == before
        made.script_faults()
        outcome, summary = end(await made.roll_out())
        assert outcome == "promoted", summary
        assert made.path(path).read_text() == text
        facts = await made.show("DropInPaths", "LimitNOFILE", "MainPID")
        assert (facts["DropInPaths"], facts["LimitNOFILE"]) == (path, "65000")
        assert b"HF_HOME=/shared/hf\0" in made.environ(int(facts["MainPID"]))


OVERRIDES = [
    ("ExecStart", f"{UNIT}.d/a.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/true\n", "ExecStart"),
    ("spaces-around-the-sign", f"{UNIT}.d/a.conf", "[Service]\nExecStart =\nExecStart = /usr/bin/true\n", "ExecStart"),
    ("behind-a-comment-like-a-header", f"{UNIT}.d/a.conf", "[Service]\n# /x\nUser=nobody\n", "User"),
    (
        "variable",
        f"{UNIT}.d/a.conf",
        '[Service]\nEnvironment="A=1" NCCL_P2P_DISABLE=0\n',
        "Environment=NCCL_P2P_DISABLE",
    ),
    ("variable-taken-away", f"{UNIT}.d/a.conf", "[Service]\nUnsetEnvironment=NCCL_P2P_DISABLE\n", "Environment=NCCL_"),
    ("all-variables-taken-away", f"{UNIT}.d/a.conf", "[Service]\nEnvironment=\n", "Environment;"),
    ("file-of-variables", f"{UNIT}.d/a.conf", "[Service]\nEnvironmentFile=-/etc/x.env\n", "EnvironmentFile"),
    ("KillMode", f"{UNIT}.d/a.conf", "[Service]\nKillMode=process\n", "KillMode"),
    ("of-a-shortened-name", "sglang-.service.d/a.conf", "[Service]\nRestart=no\n", "Restart"),
    ("of-all-services", "service.d/a.conf", "[Service]\nTimeoutStopSec=1\n", "TimeoutStopSec"),
]


@pytest.mark.parametrize("reload", [pytest.param(True, id="read-by-systemd"), pytest.param(False, id="not-yet-read")])
async def test_a_drop_in_that_overrides_is_told_before_the_stop(kind: str, tmp_path: Path, reload: bool) -> None:
    """systemd does not notice a new drop-in by itself, not even with NeedDaemonReload=; the new unit brings it in."""
    async with rehearsed(kind, tmp_path) as made:
        await made.begin(plain(made))
        for _, name, text, told in OVERRIDES if reload else OVERRIDES[::3]:
            path = f"{FOLDER}/{name}"
            made.put(path, text)
            if reload:
                await made.run("systemctl", "daemon-reload")
            await refused(made, rf"the drop-in {re.escape(path)} overrides {re.escape(told)}")
            made.path(path).unlink()
            made.path(path).parent.rmdir()
        await made.run("systemctl", "daemon-reload")
        assert (await made.show("DropInPaths"))["DropInPaths"] == ""


NAMES = ["sglang-qwen.service", "sglang-qwen-a@b-c.service", "sglang@1.service"]
DECOYS = ["sglang-qwen-.service", "sglang-qwen@.service", "sglang-qwen-a@b-.service", "sglang.service", "-.service"]


async def test_drop_ins_are_looked_for_where_systemd_reads_them(kind: str, tmp_path: Path) -> None:
    """One in every folder, of a name of its own; of those of one name the stronger folder's alone counts."""
    async with rehearsed(kind, tmp_path) as made:
        folders = {folder for name in (*NAMES, *DECOYS) for folder in drop_in_folders(name)}
        folders = {folder for folder in folders if folder.startswith(("/etc/systemd/system/", "/run/systemd/system/"))}
        for number, folder in enumerate(sorted(folders)):
            made.put(f"{folder}/{number:03}.conf", "[Service]\nNice=1\n")
            made.put(f"{folder}/same.conf", "[Service]\nNice=2\n")
        for name in NAMES:
            made.put(f"{FOLDER}/{name}", unit_text("/usr/bin/true"))
        await made.run("systemctl", "daemon-reload")
        for name in NAMES:
            made.unit = name
            there = (await made.run(*argv.drop_ins(name).words)).splitlines()
            assert list(in_force(there)) == (await made.show("DropInPaths"))["DropInPaths"].split(), name


async def test_a_unit_file_that_is_a_link_is_told_before_the_stop(kind: str, tmp_path: Path) -> None:
    """As `systemctl link` makes it."""
    async with rehearsed(kind, tmp_path) as made:
        made.put("/opt/units/qwen.service", plain(made)[UNIT_FILE])
        await made.run("ln", "-s", "--", "/opt/units/qwen.service", UNIT_FILE)
        await made.begin({})
        await refused(made, rf"{UNIT_FILE} is a link, which a rollback would not give back")


SECRETS = {
    "HF_TOKEN": "hf-9d1c77aa-token",
    "SGLANG_LICENCE": "l1c3nce-0af3-77",
    "MODEL_NOTE": "n0te-of-nobodys-business",
}


async def test_secrets_of_a_file_reach_the_process_and_nothing_else(kind: str, tmp_path: Path) -> None:
    async with rehearsed(kind, tmp_path, IGNORED) as made:
        await made.begin(plain(made))
        path = "/etc/interlock/qwen.env"
        made.put(path, "".join(f"{name}={value}\n" for name, value in SECRETS.items()), 0o600)
        assert end(await made.roll_out(unit={"secrets": [path]}))[0] == "rolled-back"
        made.script_faults()
        ended = await made.roll_out(unit={"secrets": [path]})
        assert end(ended)[0] == "promoted", end(ended)
        environ = made.environ(int((await made.show("MainPID"))["MainPID"])).split(b"\0")
        assert {f"{name}={value}".encode() for name, value in SECRETS.items()} <= set(environ)
        kept = await everything_kept(made)
        assert b'"SGLANG_LICENCE": null' in kept, "the names are evidence"
        assert [value for value in SECRETS.values() if value.encode() in kept] == []


async def everything_kept(made: Orchestrated) -> bytes:
    """All that the store holds: every event, every piece of evidence, and the database's own bytes."""
    kept = [path.read_bytes() for path in sorted(made.folder.iterdir()) if path.is_file()]
    async with made.ports() as ports:
        for stream in await ports.events.streams():
            async for line in export_lines(ports.events, stream, ports.evidence):
                kept.append(line.encode())
                if digest := json.loads(line).get("evidence"):
                    kept.append(await ports.evidence.get(digest))
    return b"\n".join(kept)


async def test_a_file_of_variables_that_will_not_do_is_told_before_the_stop(kind: str, tmp_path: Path) -> None:
    async with rehearsed(kind, tmp_path) as made:
        await made.begin(plain(made))
        path = "/etc/interlock/qwen.env"
        wanted = {"unit": {"secrets": [path]}}
        await refused(made, rf"unit\.secrets: {path} does not exist on serving, or is no file", **wanted)
        made.put(f"{path}/inside", "A=1\n")
        await refused(made, rf"unit\.secrets: {path} does not exist on serving, or is no file", **wanted)
        made.path(f"{path}/inside").unlink()
        made.path(path).rmdir()
        made.put(path, "HF_TOKEN=hf-9d1c77aa\n  NCCL_P2P_DISABLE = 0123456789\n", 0o600)
        told = rf"unit\.secrets: {path} on serving sets NCCL_P2P_DISABLE, as `unit\.environment` does"
        await refused(made, told, **wanted)
        assert b"0123456789" not in await everything_kept(made)
