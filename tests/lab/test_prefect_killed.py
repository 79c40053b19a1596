"""The command's own Prefect server killed in the middle of a rollout on real systemd: the end is the same, and soon."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.prefect_run import ENDING_S
from tasks.lab.layer import Furnishing
from tests.lab.by_command import QUICK, begun, held, is_new, left, manifest_of, newest, replayed
from tests.lab.contained import prepare, stages

pytestmark = [pytest.mark.lab, pytest.mark.prefect]


def server_of(pid: int) -> int:
    """The PID of the Prefect server that the process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    (server,) = [int(child) for child in children if b"server" in Path(f"/proc/{child}/cmdline").read_bytes()]
    return server


async def test_a_rollout_whose_prefect_server_is_killed_is_promoted_and_the_command_ends_soon(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    await prepare(tmp_path)
    async with stages(tmp_path, Furnishing(settings=QUICK)) as (made,):
        before = await made.state()
        async with begun(made, "apply", manifest_of(made)) as command:
            await command.until("stop-service")
            os.killpg(server_of(command.process.pid), signal.SIGKILL)
            await command.until("release")
            released = time.monotonic()
            code, out, err = await command.ended()
        took_s = time.monotonic() - released
        record_property("ended_after_s", round(took_s, 1))
        assert (code, err) == (0, ""), (out, err)
        assert took_s < ENDING_S + 10
        rollout, now = await newest(made), await made.state()
        assert (rollout.ended, await held(made, rollout)) == (True, [])
        assert is_new(now, before, rollout)
        assert (now.units, await left(made)) == ((), "")
        await replayed(made)
