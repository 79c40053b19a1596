"""The API behind a real uvicorn on a loopback socket, with a resident runner and a practice scene in memory."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from deployments.api.app import create_app, end_streams
from deployments.api.ports import Api, CataloguedService
from deployments.api.server import Server
from deployments.api.settings import ApiSettings
from deployments.serve.marks import Marks
from deployments.serve.resident import Resident
from flows.history import History
from flows.ports import Ports, utc_now
from state.errors import NotFound
from state.manifest.load import load_manifest
from state.manifest.model import Manifest
from state.store.connect import Stores, open_stores
from state.store.tokens import SCOPES, Scope, TokenStore
from tasks.practice.scene import Scene, scene
from tests.practice.quick import QUICK

_TLS = ssl.create_default_context()
"""Made once: each client of httpx would read all of the authorities anew, for a server without TLS."""

GENEROUS = ApiSettings(rate=10_000, burst=10_000, heartbeat_s=1.0, tail_s=0.02)


@dataclass
class Shelf:
    """A catalogue in memory: (service, revision) -> YAML text."""

    texts: dict[tuple[str, str], str] = field(default_factory=dict)

    async def services(self) -> Sequence[CataloguedService]:
        names = sorted({service for service, _ in self.texts})
        return [CataloguedService(n, tuple(r for s, r in sorted(self.texts) if s == n)) for n in names]

    async def manifest(self, service: str, revision: str) -> Manifest:
        if (service, revision) not in self.texts:
            raise NotFound("manifest", f"{service}/{revision}")
        return load_manifest(self.texts[service, revision], f"{revision}.yaml")


@dataclass
class Served:
    """A server that answers at `url`; `tokens` holds a token's text for each name that was asked for."""

    url: str
    app: FastAPI
    server: Server
    api: Api
    scene: Scene
    shelf: Shelf
    resident: Resident
    tokens: dict[str, str]

    def client(self, token: str = "all", **headers: str) -> httpx.AsyncClient:
        given = {"Authorization": f"Bearer {self.tokens[token]}"} if token else {}
        asked = {**given, **headers}
        return httpx.AsyncClient(base_url=self.url, headers=asked, timeout=60, trust_env=False, verify=_TLS)

    async def ended(self, rollout: str) -> str:
        folded = await self.resident.ended(rollout)
        assert folded.concluded is not None
        return folded.concluded.outcome

    async def events(self) -> int:
        """How many events there are: what a refusal must leave alone."""
        return len(await self.api.stores.events.read_all(0, 100_000))

    async def requested_by(self, rollout: str) -> str:
        requested = (await History(self.api.ports, rollout).load()).requested
        assert requested is not None
        return requested.actor


SCOPED: Mapping[str, tuple[Scope, ...]] = {
    "all": SCOPES,
    "reader": ("read",),
    "roller": ("rollout",),
    "on-call": ("rollback",),
}


async def made_tokens(stores: Stores) -> dict[str, str]:
    """A token for each of SCOPED, one that was revoked, and one that has expired."""
    kept, now = TokenStore(stores.engine), utc_now()
    made = {name: (await kept.make(name, scopes, now))[1] for name, scopes in SCOPED.items()}
    made["revoked"] = (await kept.make("revoked", SCOPES, now))[1]
    await kept.revoke("revoked", now)
    past = now - timedelta(days=2)
    made["expired"] = (await kept.make("expired", SCOPES, past, past + timedelta(days=1)))[1]
    return made


@asynccontextmanager
async def served(
    store_url: str, marks: Path, settings: ApiSettings = GENEROUS, *, on: Scene | None = None, **given: Any
) -> AsyncIterator[Served]:
    """`given` goes to the scene, which is made here unless there is one to go on with."""
    async with open_stores(store_url, utc_now) as stores:
        if on is None:
            async with scene(None, over_ssh=False, **{"settings": QUICK, **given}) as made:
                if given.get("started", True):
                    await made.until_it_answers()
                async with _served(stores, made, marks, settings) as ready:
                    yield ready
        else:
            async with _served(stores, on, marks, settings) as ready:
                yield ready


@asynccontextmanager
async def _served(stores: Stores, made: Scene, marks: Path, settings: ApiSettings) -> AsyncIterator[Served]:
    ports = Ports(stores.events, stores.evidence, made.open_host, holder="interlock@server (PID 1)")
    resident, shelf = Resident(ports, Marks(marks)), Shelf()
    api = Api(ports, stores, resident, shelf, settings)
    app = create_app(api)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=5)
    server = Server(config, lambda: end_streams(app))
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await server.answering.wait()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        existing = await TokenStore(stores.engine).all()
        tokens = {} if existing else await made_tokens(stores)
        yield Served(url, app, server, api, made, shelf, resident, tokens)
    finally:
        await resident.stop(0)
        server.should_exit = True
        await running
        listening.close()


async def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for what another task does. Raises AssertionError when it does not come."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")
