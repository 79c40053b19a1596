"""`interlock serve`: one process with the event store, the resident runner, the HTTP API, and Prefect as its child."""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import uvicorn

from deployments.api.app import create_app, end_streams
from deployments.api.ports import Api
from deployments.api.server import Server
from deployments.serve import log as logs
from deployments.serve.catalogue import FolderCatalogue
from deployments.serve.home import ServeHome
from deployments.serve.lock import only_server
from deployments.serve.reach import forget_reach, is_local, tell_reach
from deployments.serve.signals import Asked, run_beside
from flows.ports import Watch, utc_now
from flows.prefect_home import PrefectHome
from flows.settings import Settings
from flows.wiring import wired
from state.errors import Refused, UsageInvalid
from state.store import migrate
from state.store.connect import Stores
from state.store.tokens import TokenStore

log = logging.getLogger("interlock.serve")

LEAVE_S = 10
"""Seconds that open connections may take once everything else has ended."""


@dataclass(frozen=True, slots=True)
class Options:
    """`prefect_port` 0 is any that is free."""

    host: str
    port: int
    prefect_port: int


def serve(options: Options, manifests: Path | None) -> int:
    """Serve until a signal; 0 after a clean stop. Raises Refused, UsageInvalid, StoreOutdated, StoreUnavailable."""
    settings = Settings(**({"manifests": manifests.resolve()} if manifests else {}))
    logs.set_up()
    with only_server(settings.data_dir):
        forget_reach(settings.data_dir)
        return run_beside(partial(_serve, options, settings))


async def _serve(options: Options, settings: Settings, asked: Asked) -> int:
    await migrate.upgrade(settings.store_url)
    prefect = PrefectHome(settings.data_dir / "prefect", options.prefect_port)
    if not prefect.given:
        _bound("127.0.0.1", prefect.port, "--prefect-port").close()
    listening = _bound(options.host, options.port, "--port")
    try:
        async with wired(settings, Watch(said=log.warning)) as (ports, stores):
            await _refuse_open_doors(options.host, stores)
            catalogue = FolderCatalogue(settings.manifest_folder)
            url = f"http://{_local(options.host)}:{listening.getsockname()[1]}"
            home = ServeHome(ports, catalogue, prefect, settings, url)
            app = create_app(Api(ports, stores, home.resident, catalogue))
            config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=LEAVE_S)
            server = Server(config, partial(end_streams, app))
            async with _listening(server, listening), home.at_work() as working:
                await tell_reach(settings, stores, url)
                _announce(url, prefect, settings)
                code = await _until(asked, working)
                await _stop(home, settings.stop_grace_s, asked)
    finally:
        listening.close()
        forget_reach(settings.data_dir)
    log.info("stopped")
    return code


async def _until(asked: Asked, working: "asyncio.Future[None]") -> int:
    """Wait for a signal; 1 if the work ended by itself, which it never should."""
    stopping = asyncio.ensure_future(asked.to_stop.wait())
    await asyncio.wait((stopping, working), return_when=asyncio.FIRST_COMPLETED)
    if not working.done():
        return 0
    stopping.cancel()
    log.critical("a part of the server failed; it stops", exc_info=working.exception())
    return 1


async def _stop(home: ServeHome, grace_s: float, asked: Asked) -> None:
    async def hurry() -> None:
        await asked.at_once.wait()
        home.resident.hurry()

    hurrying = asyncio.create_task(hurry())
    await home.stop(grace_s)
    hurrying.cancel()


@asynccontextmanager
async def _listening(server: Server, listening: socket.socket) -> AsyncIterator[None]:
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


def _bound(host: str, port: int, option: str) -> socket.socket:
    """A socket that listens there. Raises Refused for a port that is taken, UsageInvalid for no address of ours."""
    try:
        return socket.create_server((host, port), family=_family(host), backlog=128)
    except OSError as error:
        said = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)
        where = f"Cannot listen at {host}:{port}: {said}"
        if error.errno != errno.EADDRINUSE:
            hint = "name an address of this machine, and a port that you may use"
            raise UsageInvalid(where, hint=hint) from error
        raise Refused(where, hint=f"stop what has it, or choose another by {option}") from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


async def _refuse_open_doors(host: str, stores: Stores) -> None:
    """Raises Refused for an address that others can reach while nobody was given a token: a mistake more likely than a
    wish."""
    if _is_loopback(host):
        return
    given = [t for t in await TokenStore(stores.engine).all() if t.valid(utc_now()) and not is_local(t)]
    if not given:
        raise Refused(
            f"{host} can be reached from elsewhere, and there is no token to ask with",
            hint="make one by `interlock token make NAME --scope read`, or leave --host out; "
            "nothing here speaks TLS: put a reverse proxy in front",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _local(host: str) -> str:
    """The address as this machine's own programs use it."""
    try:
        found = ip_address(host)
    except ValueError:
        return host
    if found.is_unspecified:
        return "127.0.0.1" if found.version == 4 else "[::1]"
    return host if found.version == 4 else f"[{host}]"


def _announce(url: str, prefect: PrefectHome, settings: Settings) -> None:
    log.info("the HTTP API listens; /api/v1/openapi.json describes it", extra={"url": url})
    log.info("Prefect's pages come up", extra={"url": prefect.api_url.removesuffix("/api")})
    log.info("manifests are read from %s", settings.manifest_folder)
