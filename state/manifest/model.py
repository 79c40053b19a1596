"""The manifest: the desired state of one service, as a person writes it. Field descriptions say what is expected."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StringConstraints, model_validator

from state.manifest.claim_specs import ClaimSpec, Seconds, TrafficSpec
from state.manifest.conflicts import conflicts
from state.manifest.quantities import (
    check_argument,
    check_engine,
    check_limit,
    mistake,
    parse_address,
    parse_endpoint,
    parse_path,
    parse_pci_address,
    parse_secret_path,
)
from state.manifest.words import ArgumentName, CronLine, Limit, Name, UnitName, UserName, VariableName
from state.model import Value

PciAddress = Annotated[str, BeforeValidator(parse_pci_address)]
AbsolutePath = Annotated[str, BeforeValidator(parse_path)]
SecretPath = Annotated[str, BeforeValidator(parse_secret_path)]
_PROSE = r"^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\\\s\x00-\x1f\x7f])?$"
OneLine = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$")]
Word = StrictInt | StrictFloat | str
ArgumentValue = Annotated[
    StrictBool | StrictInt | StrictFloat | str | tuple[Word, ...] | dict[str, Any] | None,
    BeforeValidator(check_argument),
]
LimitValue = Annotated[StrictInt | str, BeforeValidator(check_limit)]


class HostSpec(Value):
    """A machine, reached by SSH."""

    address: Annotated[str, BeforeValidator(parse_address)] = Field(description="a host name or an IP address")
    user: UserName = Field(description="the user to log in as")
    become: Literal["sudo"] | None = Field(None, description="`sudo`, or null where the user needs no more rights")
    host_key: (
        Annotated[
            str, StringConstraints(pattern=r"^(ssh-(ed25519|rsa)|ecdsa-sha2-nistp\d{3}) [A-Za-z0-9+/]+={0,2}( .*)?$")
        ]
        | None
    ) = Field(None, description='a public key line such as "ssh-ed25519 AAAA...", or nothing for known_hosts')
    port: StrictInt = Field(22, ge=1, le=65535, description="a port from 1 to 65535")


class StopSpec(Value):
    """How the service is stopped."""

    drain: Seconds = Field(0.0, description="a duration such as 60s")
    timeout: Seconds = Field(90.0, description="a duration such as 90s")
    leftovers: Literal["refuse", "kill"] = Field("refuse", description="`refuse` or `kill`")


class UnitSpec(Value):
    """The systemd unit."""

    host: str = Field(description="one of the names under `hosts`")
    name: UnitName = Field(description="a unit name such as sglang-qwen.service")
    user: UserName = Field(description="the user that the engine runs as")
    group: UserName | None = Field(None, description="a group name")
    environment: dict[VariableName, OneLine] = Field({}, description="a mapping of variable names to text on one line")
    secrets: tuple[SecretPath, ...] = Field((), description="a list of absolute paths of files on the host")
    stop: StopSpec = Field(StopSpec(), description="a mapping of drain, timeout and leftovers")
    working_directory: AbsolutePath | None = Field(None, description="an absolute path")
    limits: dict[Limit, LimitValue] = Field(
        {}, description="systemd's limits, such as LimitMEMLOCK: infinity or MemoryMax: 512G"
    )
    description: Annotated[str, StringConstraints(pattern=_PROSE)] | None = Field(
        None, description="text on one line that ends with neither a space nor a backslash"
    )
    restart: Literal["no", "on-failure", "always"] = Field(
        "on-failure", description='"no" (in quotes), on-failure or always'
    )


class EngineSpec(Value):
    """The inference engine and its arguments, under the engine's own names."""

    kind: Annotated[str, BeforeValidator(check_engine)] = Field(description="an engine, such as `sglang`")
    command: tuple[OneLine, ...] = Field(min_length=1, description="a list of words, the first an absolute path")
    endpoint: Annotated[str, BeforeValidator(parse_endpoint)] = Field(description="http://HOST:PORT")
    arguments: dict[ArgumentName, ArgumentValue] = Field(
        {},
        description="the engine's own names with a number, text, a list or a mapping of these, true, false or null",
    )
    version: Annotated[str, StringConstraints(pattern=r"^\d+(\.\w+)+$")] | None = Field(
        None, description='a version in quotes, such as "0.5.23"'
    )
    key_file: SecretPath | None = Field(None, description="an absolute path of a file on the unit's host")
    offers: tuple[Literal["json-schema", "tool-calls"], ...] = Field(
        (), description="a list of what else the service offers: json-schema, tool-calls"
    )


class GpuSpec(Value):
    """Which driver each GPU is bound to."""

    host: str = Field(description="one of the names under `hosts`")
    drivers: dict[Name, tuple[PciAddress, ...]] = Field(
        description='a mapping of kernel drivers to lists of PCI addresses such as "0000:01:00.0"'
    )
    persist: Literal["none", "boot"] = Field("none", description="`none` or `boot`")


class ReadinessSpec(Value):
    """How long a start may take."""

    timeout: Seconds = Field(600.0, ge=1.0, description="a duration of at least 1s, such as 10m")


class HoldSpec(Value):
    """How long a person is waited for, and what follows when nobody answers."""

    deadline: Seconds = Field(7200.0, ge=1.0, le=604_800.0, description="a duration from 1s to 7d, such as 2h")
    default: Literal["rollback", "accept"] = Field("rollback", description="`rollback` or `accept`")


class PolicySpec(Value):
    """What follows from doubt, and how patient a rollout is."""

    inconclusive: Literal["rollback", "hold", "accept"] = Field(
        "rollback", description="`rollback`, `hold` or `accept`"
    )
    hold: HoldSpec = Field(HoldSpec(), description="a mapping of deadline and default")
    soak: Seconds = Field(0.0, description="a duration such as 2m")
    timer: Seconds = Field(300.0, ge=10.0, description="a duration of at least 10s, such as 5m")
    attempts: StrictInt = Field(3, ge=1, le=10, description="a whole number from 1 to 10")


class ScheduleSpec(Value):
    """When a named revision is applied."""

    cron: CronLine = Field(description='five cron fields in quotes, such as "0 7 * * 1-5"')
    revision: Name = Field(description="the name of a manifest beside this one, without .yaml")
    timezone: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$")] = Field(
        "UTC", description="a time zone such as Europe/Berlin"
    )


class Manifest(Value):
    """The desired state of one service."""

    interlock: Literal[1] = Field(description="1, the version of the manifest's format")
    service: Name = Field(description="a name of lower-case letters, digits, - and .")
    hosts: dict[Name, HostSpec] = Field(min_length=1, description="a mapping of names to hosts")
    unit: UnitSpec = Field(description="a mapping that describes the systemd unit")
    engine: EngineSpec = Field(description="a mapping that describes the engine")
    gpus: GpuSpec | None = Field(None, description="a mapping of host, drivers and persist")
    readiness: ReadinessSpec = Field(ReadinessSpec(), description="a mapping of timeout")
    claims: tuple[ClaimSpec, ...] = Field((), description="a list of claims, each a mapping with `claim`")
    traffic: TrafficSpec = Field(TrafficSpec(), description="a mapping of prompts, tokens, budget and rate")
    policy: PolicySpec = Field(PolicySpec(), description="a mapping of inconclusive, hold, soak, timer and attempts")
    schedule: tuple[ScheduleSpec, ...] = Field((), description="a list of mappings of cron and revision")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "Manifest":
        if found := conflicts(self.model_dump()):
            raise mistake("; ".join(f"{path_text(c.path)}: {c.sentence}" for c in found))
        return self


def path_text(path: tuple[Any, ...]) -> str:
    """A field's path as people write it: `claims[1].at_least`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
