"""Where and how an SSH session is opened: addresses, keys, ~/.ssh/config, and host keys that are always checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh
from asyncssh.encryption import get_default_encryption_algs

from tasks.hosts.privilege import Become

KEEPALIVE_S = 5.0
"""With three unanswered keepalives a silent connection is given up after 20 s."""

_FIRST_CIPHERS = "^aes256-gcm@openssh.com,aes128-gcm@openssh.com"
_USUAL_KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")


@dataclass(frozen=True, slots=True)
class Login:
    """How one host is reached.

    `address` is `host`, `host:port`, an IPv6 address or `[IPv6]:port`. `host_key` is an OpenSSH public key line;
    without it the file `known_hosts`, those of ~/.ssh/config, or the usual two decide. `client_keys` are paths of
    private keys; without them IdentityFile, the agent and the usual files are tried. `config` are ssh client
    configuration files: ~/.ssh/config if None, none if empty. A `UserKnownHostsFile none` there is overruled.
    """

    address: str
    user: str
    host_key: str | None = None
    known_hosts: str | None = None
    client_keys: Sequence[str] = ()
    port: int | None = None
    become: Become = None
    config: Sequence[str] | None = None
    connect_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        self.pinned()
        endpoint(self.address)

    @property
    def where(self) -> str:
        """The address as people are told it."""
        return self.address if self.port is None else f"{endpoint(self.address)[0]}:{self.port}"

    def pinned(self) -> asyncssh.SSHKey | None:
        """The pinned host key; ValueError if its text is no public key."""
        if self.host_key is None:
            return None
        try:
            return asyncssh.import_public_key(self.host_key)
        except asyncssh.KeyImportError as error:
            raise ValueError(f"The host key of {self.address} is no OpenSSH public key line: {error}") from error


def endpoint(address: str, port: int | None = None) -> tuple[str, int | None]:
    """Host and port of an address, `port` coming first; ValueError if it has no form that is known here."""
    host, given = _split(address)
    odd = host.startswith("-") or any(char.isspace() or char == "@" for char in host)
    if not host or odd or (given and not (given.isdecimal() and 0 < int(given) < 1 << 16)):
        raise ValueError(f"Not an address: `{address}` (want `host` or `host:port`)")
    return host, port or (int(given) if given else None)


def _split(address: str) -> tuple[str, str]:
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        return host, port.removeprefix(":")
    host, colon, port = address.partition(":")
    return (address, "") if ":" in port else (host, port if colon else "")


@dataclass(frozen=True, slots=True)
class Target:
    """`arguments` for `asyncssh.connect`, and the hosts of ProxyJump to go through first."""

    arguments: dict[str, object]
    hops: tuple[str, ...] = ()


def target(login: Login) -> Target:
    """The host itself. ValueError where a configuration or known_hosts file cannot be used."""
    given = _given(login, login.address, login.user, login.port)
    found = _configured(given)
    if login.client_keys:
        given["client_keys"] = [_readable("client key", path) for path in login.client_keys]
    if (pinned := login.pinned()) is not None:
        # No certificate, and no other key of the same host, is what was pinned.
        given |= {"known_hosts": ([pinned], [], []), "x509_trusted_certs": None}
    else:
        given["known_hosts"] = _known_hosts(login.known_hosts, found)
    hops = found.tunnel.split(",") if isinstance(found.tunnel, str) and found.tunnel else ()
    return Target(given | _ciphers(found) | {"tunnel": None}, tuple(hops))


def hop_target(login: Login, hop: str) -> Target:
    """One host of ProxyJump, `[user@]host[:port]`. Its own ProxyJump is not followed; its host key is checked."""
    user, _, address = hop.rpartition("@")
    given = _given(login, address, user, None)
    found = _configured(given)
    return Target(given | _ciphers(found) | {"known_hosts": _known_hosts(None, found), "tunnel": None})


def _given(login: Login, address: str, user: str, port: int | None) -> dict[str, object]:
    """No terminal, no forwarded agent or display, nothing of this side's environment."""
    host, port = endpoint(address, port)
    given: dict[str, object] = {
        "host": host,
        "config": () if login.config is None else list(login.config),
        "connect_timeout": login.connect_timeout_s,
        "login_timeout": login.connect_timeout_s,
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": 3,
        "request_pty": False,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "env": None,
        "send_env": None,
    }
    return given | ({"port": port} if port else {}) | ({"username": user} if user else {})


def _configured(given: dict[str, object]) -> asyncssh.SSHClientConnectionOptions:
    """What the configuration files add to `given`, read without the keys."""
    return asyncssh.SSHClientConnectionOptions(**given, client_keys=None)


def _ciphers(configured: asyncssh.SSHClientConnectionOptions) -> dict[str, object]:
    """AES-GCM before the others, unless a configuration file says which: of the usual packets, asyncssh (2.24) encrypts
    five in the time that ChaCha20-Poly1305, its own first choice, takes for one (measured)."""
    is_said = list(configured.encryption_algs) != get_default_encryption_algs()
    return {} if is_said else {"encryption_algs": _FIRST_CIPHERS}


def _known_hosts(
    path: str | None, configured: asyncssh.SSHClientConnectionOptions
) -> list[str] | tuple[list[str], ...]:
    """Files to look host keys up in. Never None, the value by which asyncssh (2.24) would stop to check."""
    if path is not None:
        return [_readable("known_hosts file", path)]
    listed = configured.known_hosts if isinstance(configured.known_hosts, list) else []
    files = [Path(str(name)).expanduser() for name in listed or _USUAL_KNOWN_HOSTS]
    found = [str(name) for name in files if name.is_file()]
    return found or ([], [], [])


def _readable(kind: str, path: str) -> str:
    try:
        Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ValueError(f"the {kind} `{path}` cannot be read: {error.strerror}") from error
    return str(Path(path).expanduser())
