"""The embedded Prefect server lives no longer than the process that started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.practice.children import lives

STARTER = """
import asyncio, os, signal, sys
from pathlib import Path
from flows.prefect_home import PrefectHome

async def main():
    home = PrefectHome(Path(sys.argv[1]))
    await home.start()
    print(home.server_pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_killed_orchestrator_leaves_no_prefect_server_behind(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    assert starter.stdout is not None
    with starter.stdout:
        server = int(starter.stdout.readline())
    deadline = time.monotonic() + 30
    while b"prefect" not in Path(f"/proc/{server}/cmdline").read_bytes() and time.monotonic() < deadline:
        time.sleep(0.05)  # until the exec of the server is done
    starter.send_signal(signal.SIGKILL)
    starter.wait(10)
    while lives(server) and time.monotonic() < deadline:
        time.sleep(0.05)  # it is nobody's child here: its end cannot be awaited
    assert not lives(server)
