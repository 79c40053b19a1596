"""A host's disk that is really full while a rollout writes to it: it ends as the table says, nothing half-written."""

from io import FileIO
from pathlib import Path

import pytest

from flows.session import recover
from tasks.lab.layer import Furnishing
from tasks.practice.scene import UNIT_FILE
from tests.lab.by_command import QUICK, held, is_old, left, newest, replayed
from tests.lab.contained import Stage, prepare, stages
from tests.lab.test_outages import at

pytestmark = pytest.mark.lab
UNITS, OWN = "/etc/systemd/system", "/var/lib/interlock"


async def small_disk(made: Stage, folder: str, kilobytes: int) -> None:
    """Give the folder a disk of its own, with what is in it."""
    script = (
        'set -e; mkdir -p "$1" /root/kept; cp -a "$1/." /root/kept; '
        'mount -t tmpfs -o "size=$2k,mode=755" small "$1"; cp -a /root/kept/. "$1"; rm -r /root/kept; '
        "systemctl daemon-reload"
    )
    await made.run("sh", "-c", script, "sh", folder, str(kilobytes))


def filled(made: Stage, folder: str) -> None:
    """Write until the kernel refuses (ENOSPC), to the last byte."""
    with made.path(f"{folder}/filler").open("ab", buffering=0) as filler:
        for size in (4096, 1):
            with pytest.raises(OSError, match="No space left on device"):
                _for_ever(filler, b"x" * size)


def _for_ever(filler: FileIO, data: bytes) -> None:
    while True:
        filler.write(data)


def freed(made: Stage, folder: str) -> None:
    made.path(f"{folder}/filler").unlink()


async def test_full_before_the_stop_the_service_is_not_touched(tmp_path: Path) -> None:
    await prepare(tmp_path)
    async with stages(tmp_path, Furnishing(settings=QUICK)) as (made,):
        await small_disk(made, OWN, 64)
        before = await made.state()
        ended = await made.roll_out(watch=at("action-started", "do:0:stage-files", lambda: filled(made, OWN)))
        assert ended.concluded is not None
        assert ended.concluded.outcome == "aborted", ended.concluded.summary
        assert "No space left on device" in ended.concluded.summary
        assert await made.state() == before
        assert (await held(made, ended), ended.released) == ([], True)
        freed(made, OWN)
        again = await made.roll_out()
        assert again.concluded is not None
        assert again.concluded.outcome == "promoted", again.concluded.summary
        await replayed(made)


async def test_full_when_the_files_are_to_be_replaced_nothing_is_half_written_and_the_lease_kept(
    tmp_path: Path,
) -> None:
    """Neither the new files nor the old ones can be written; with room again, the old state is proven."""
    await prepare(tmp_path)
    async with stages(tmp_path, Furnishing(settings=QUICK)) as (made,):
        await small_disk(made, UNITS, 256)
        before, unit = await made.state(), made.path(UNIT_FILE).read_bytes()
        ended = await made.roll_out(
            watch=at("action-started", "do:3:install-files", lambda: filled(made, UNITS)), policy={"timer": "5m"}
        )
        assert ended.concluded is not None
        assert "No space left on device" in ended.concluded.summary
        assert made.path(UNIT_FILE).read_bytes() == unit
        assert ended.concluded.outcome == "stranded", ended.concluded.summary
        assert await held(made, ended) != []
        freed(made, UNITS)
        assert ended.requested is not None
        async with made.ports() as ports:
            ended = await recover(ports, ended.requested.rollout)
        assert ended.concluded is not None
        assert ended.concluded.outcome == "rolled-back", ended.concluded.summary
        assert await is_old(made, before)
        assert (await left(made), await held(made, await newest(made))) == ("", [])
        await replayed(made)
