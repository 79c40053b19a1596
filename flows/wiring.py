"""Wiring: settings to ports. The one place where adapters are chosen."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from flows.ports import Ports, Watch, utc_now
from flows.settings import Settings
from flows.spooled import flush_left, tell_left
from state.errors import StoreUnavailable
from state.manifest.model import HostSpec
from state.store.connect import Stores, open_stores
from state.store.spool_file import SpoolFolder
from tasks.hosts.port import Host
from tasks.hosts.ssh import SshHost
from tasks.hosts.ssh_options import Login


def open_host(settings: Settings, name: str, spec: HostSpec) -> Host:
    """The SSH adapter for a host of a manifest."""
    login = Login(
        address=spec.address,
        user=spec.user,
        host_key=spec.host_key,
        client_keys=(settings.ssh_key,) if settings.ssh_key else (),
        port=spec.port if spec.port != 22 else None,
        become=spec.become,
        config=None if settings.ssh_config is None else tuple(filter(None, [settings.ssh_config])),
    )
    return SshHost(name, login)


def ports_of(settings: Settings, stores: Stores, watch: Watch | None = None) -> Ports:
    return Ports(
        events=stores.events,
        evidence=stores.evidence,
        open_host=lambda name, spec: open_host(settings, name, spec),
        holder=settings.holder,
        watch=watch or Watch(),
        lease_s=settings.lease_s,
        generation_s=settings.generation_s,
        spools=spools_of(settings),
    )


def spools_of(settings: Settings) -> SpoolFolder:
    return SpoolFolder(settings.data_dir / "spool")


@asynccontextmanager
async def wired(settings: Settings, watch: Watch | None = None) -> AsyncIterator[tuple[Ports, Stores]]:
    """Ports on the configured store, which has what this machine had spooled by then. Raises StoreUnavailable,
    StoreOutdated."""
    async with AsyncExitStack() as stack:
        try:
            stores = await stack.enter_async_context(open_stores(settings.store_url, utc_now))
        except StoreUnavailable:
            tell_left(spools_of(settings), watch or Watch())
            raise
        ports = ports_of(settings, stores, watch)
        await flush_left(ports)
        yield ports, stores
