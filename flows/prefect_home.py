"""An embedded Prefect server in the data directory: started beside the work, fast, quiet, never waited for in vain."""

import asyncio
import os
import queue
import socket
import sys
from asyncio.subprocess import DEVNULL, STDOUT, Process
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import httpx
from tenacity import AsyncRetrying, RetryError, retry_if_result, stop_after_delay, wait_fixed

START_S = 60.0
"""A new database takes 15 to 21 s (measured with Prefect 3.9.1 on 2 cores), an existing one 8 s."""

STOP_S = 15.0

_SERVER = "from flows.prefect_server import main; main()"
DRAIN_S = 5.0
OWN_LOGGING = {"PREFECT_LOGGING_LEVEL": "CRITICAL", "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL"}
"""This process tells its own story: Prefect's words on failed tasks, and on a server that is gone, only repeat it."""

LONGEST_LOG = 8 << 20
"""Bytes of the server's log, of which one older file is kept."""


def environment(home: Path, port: int) -> dict[str, str]:
    """Settings that make Prefect 3.9 fast and quiet: batched writes, no telemetry, no advertisements, loopback only."""
    return {
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home / 'prefect.db'}",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "500",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "100",
        "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "100",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",  # it keeps all of them for ever otherwise
        "PREFECT_CLIENT_MAX_RETRIES": "2",  # the default is a minute of waiting for a server that is gone
    }


class PrefectHome:
    """The server as a child process. A server that the environment names already (PREFECT_API_URL) is used instead."""

    def __init__(self, home: Path, port: int = 0) -> None:
        """`port` 0 is any that is free."""
        self.home = home
        self.given = os.environ.get("PREFECT_API_URL", "")
        self.port = 0 if self.given else port or _free_port()
        self._process: Process | None = None

    @property
    def api_url(self) -> str:
        return self.given or f"http://127.0.0.1:{self.port}/api"

    @property
    def server_pid(self) -> int | None:
        """The server's, if it was started here."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the server and return at once; sets this process's own Prefect settings as well, before its import."""
        if self.given:
            os.environ.update(OWN_LOGGING | os.environ)
            return
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings = environment(self.home, self.port)
        os.environ.update(settings | OWN_LOGGING)
        with _log(self.home / "server.log") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _SERVER, str(os.getpid()), "127.0.0.1", str(self.port),
                stdin=DEVNULL, stdout=log, stderr=STDOUT, start_new_session=True, env={**os.environ, **settings},
            )  # fmt: skip

    async def answers(self, timeout_s: float = START_S) -> bool:
        """Wait until the API answers; False if it has not within `timeout_s` seconds, or the server ended."""
        patience = AsyncRetrying(
            retry=retry_if_result(lambda up: up is None), wait=wait_fixed(0.2), stop=stop_after_delay(timeout_s)
        )
        async with httpx.AsyncClient(trust_env=False) as client:
            try:
                return bool(await patience(self._up, client))
            except RetryError:
                return False

    async def ended(self) -> int:
        """Wait until the server that was started here has ended; its exit status, negative for a signal."""
        assert self._process is not None  # asked after `start`
        return await self._process.wait()

    async def _up(self, client: httpx.AsyncClient) -> bool | None:
        """True or False once it is known, None while it may still come."""
        if self._process is not None and self._process.returncode is not None:
            return False
        try:
            return True if (await client.get(f"{self.api_url}/health", timeout=2.0)).status_code == 200 else None
        except httpx.TransportError:
            return None

    async def _refuses(self) -> bool:
        """Whether nothing listens at the API's address; a server that is slow to answer does."""
        async with httpx.AsyncClient(trust_env=False) as client:
            try:
                await client.get(f"{self.api_url}/health", timeout=2.0)
            except httpx.ConnectError:
                return True
            except httpx.TransportError:
                return False
        return False

    async def stop(self) -> None:
        """Let Prefect tell what it still has to, then end the server that was started here: SIGTERM, then SIGKILL."""
        is_gone = self._process is not None and self._process.returncode is not None
        await _events_sent(0.0 if is_gone or await self._refuses() else DRAIN_S)
        if self._process is None or is_gone:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


async def _events_sent(timeout_s: float) -> None:
    """Wait for the events that this process has for Prefect's server, and drop those not sent by then.

    Left to itself, Prefect 3.9 waits at the process's end, 7 s for each event that no server takes (measured).
    """
    loaded = sys.modules.get("prefect.events.worker")
    workers = tuple(loaded.EventsWorker._instances.values()) if loaded else ()
    if not workers:
        return
    await asyncio.wait([asyncio.ensure_future(worker.drain(at_exit=True)) for worker in workers], timeout=timeout_s)
    for worker in workers:
        with suppress(queue.Empty):
            while True:
                worker._queue.get_nowait()
        worker._queue.put_nowait(None)


def _log(path: Path) -> BinaryIO:
    """Appends; what was written before goes aside once it is long."""
    if path.exists() and path.stat().st_size > LONGEST_LOG:
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
