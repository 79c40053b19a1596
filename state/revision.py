"""A revision: a manifest rendered to what reaches the hosts, immutable, and named by the digest of it."""

from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from state.canonical import digest_of, sha256_hex
from state.claims import Doubt
from state.engines.registry import NAMES
from state.engines.rendering import rendering_for
from state.errors import UsageInvalid
from state.manifest.claim_specs import ClaimSpec
from state.manifest.model import EngineSpec, Manifest, UnitSpec
from state.model import Value
from state.traffic import Traffic, resolved
from state.unit_file import ServiceUnit, render_unit

UNIT_FOLDER = "/etc/systemd/system"


class FileContent(Value):
    """A file as it shall be on the unit's host. `mode` is octal as an int."""

    path: str
    content: str
    mode: int = 0o644
    owner: str = "root"
    group: str = "root"

    @property
    def data(self) -> bytes:
        return self.content.encode()

    @property
    def digest(self) -> str:
        """SHA-256 of the content's bytes, as `sha256sum` on the host gives it."""
        return sha256_hex(self.data)


class StopPolicy(Value):
    """How the service is stopped; seconds."""

    drain_s: float = 0.0
    timeout_s: float = 90.0
    leftovers: Literal["refuse", "kill"] = "refuse"


class Policy(Value):
    """What follows from doubt; how long to soak, until the host heals itself, and how often a step is tried.

    `hold_deadline_s` is how long a person is waited for under `hold`, `hold_default` what follows when nobody answers.
    """

    inconclusive: Doubt = "rollback"
    hold_deadline_s: float = 7200.0
    hold_default: Literal["rollback", "accept"] = "rollback"
    soak_s: float = 0.0
    timer_s: float = 300.0
    attempts: int = 3


class Revision(Value):
    """What a service shall be. `arguments` are under the engine's canonical names, with the values as asked.

    `drivers` maps PCI addresses to drivers on `gpu_host`; `persist` says whether a boot of it shall find them so.
    `secrets` are paths of files on the unit's host, `key_file` that of one with the API key that `endpoint` asks for.
    `files` are in the order in which they are written; the first is the unit.
    """

    service: str
    unit: str
    unit_host: str
    files: tuple[FileContent, ...]
    argv: tuple[str, ...]
    environment: dict[str, str] = Field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    user: str
    engine: str
    engine_version: str | None = None
    offers: tuple[str, ...] = ()
    endpoint: str
    key_file: str | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    drivers: dict[str, str] = Field(default_factory=dict)
    gpu_host: str | None = None
    persist: Literal["none", "boot"] = "none"
    stop: StopPolicy = StopPolicy()
    readiness_timeout_s: float = 600.0
    claims: tuple[ClaimSpec, ...] = ()
    traffic: Traffic = Traffic()
    policy: Policy = Policy()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON of what reaches the hosts: service, unit, files, argv, environment, secrets'
        paths, drivers and whether a boot finds them, and the names of the hosts. How it is proven and what follows
        (endpoint, key file, expected version, claims, traffic, policy, drain, readiness) does not count, since
        changing these changes no host."""
        counted = _COUNTED if self.persist == "none" else _COUNTED | {"persist"}  # older revisions keep their names
        return digest_of(self.model_dump(mode="json", include=counted))

    @property
    def port(self) -> int:
        """Where the engine listens, by its endpoint."""
        return int(self.endpoint.rpartition(":")[2].strip("/"))

    @property
    def short(self) -> str:
        """The first 12 hex digits of the digest, for people."""
        return self.digest[:12]


_COUNTED = {"service", "unit", "unit_host", "files", "argv", "environment", "secrets", "drivers", "gpu_host"}


def render(manifest: Manifest) -> Revision:
    """The revision that a manifest stands for. Raises UsageInvalid for an engine whose command line is not known."""
    rendering = rendering_for(manifest.engine.kind)
    if rendering is None:
        known = ", ".join(name for name in NAMES if rendering_for(name))
        raise UsageInvalid(f"No rendering for engine `{manifest.engine.kind}`", hint=f"`engine.kind` can be {known}")
    _refuse_other_engine(manifest.engine)
    unit, engine, gpus, policy = manifest.unit, manifest.engine, manifest.gpus, manifest.policy
    argv = (*engine.command, *rendering.render_arguments(engine.arguments, engine.command))
    return Revision(
        service=manifest.service,
        unit=unit.name,
        unit_host=unit.host,
        files=(_unit_file(manifest.service, unit, argv),),
        argv=argv,
        environment=unit.environment,
        secrets=unit.secrets,
        user=unit.user,
        engine=engine.kind,
        engine_version=engine.version,
        offers=engine.offers,
        endpoint=engine.endpoint,
        key_file=engine.key_file,
        arguments=rendering.canonical_arguments(engine.arguments),
        drivers={a: d for d, addresses in gpus.drivers.items() for a in addresses} if gpus else {},
        gpu_host=gpus.host if gpus else None,
        persist=gpus.persist if gpus else "none",
        stop=StopPolicy(drain_s=unit.stop.drain, timeout_s=unit.stop.timeout, leftovers=unit.stop.leftovers),
        readiness_timeout_s=manifest.readiness.timeout,
        claims=manifest.claims,
        traffic=resolved(manifest.traffic),
        policy=Policy(
            inconclusive=policy.inconclusive,
            hold_deadline_s=policy.hold.deadline,
            hold_default=policy.hold.default,
            soak_s=policy.soak,
            timer_s=policy.timer,
            attempts=policy.attempts,
        ),
    )


def _refuse_other_engine(engine: EngineSpec) -> None:
    """A command that is known to start another engine than the one named; a wrapper may start any."""
    for name in NAMES:
        known = rendering_for(name)
        if name != engine.kind and known is not None and known.has_entry_point(engine.command):
            raise UsageInvalid(
                f"engine.kind is {engine.kind}, but engine.command starts {name}", hint=f"set `engine.kind` to {name}"
            )


def _unit_file(service: str, unit: UnitSpec, argv: tuple[str, ...]) -> FileContent:
    text = render_unit(
        ServiceUnit(
            description=unit.description or f"{service} (managed by interlock)",
            argv=argv,
            user=unit.user,
            group=unit.group,
            working_directory=unit.working_directory,
            environment=unit.environment,
            environment_files=unit.secrets,
            stop_timeout_s=unit.stop.drain + unit.stop.timeout,
            restart=unit.restart,
            properties={name: str(value) for name, value in unit.limits.items()},
            labels={"X-Interlock-Service": service},
        )
    )
    return FileContent(path=f"{UNIT_FOLDER}/{unit.name}", content=text)
