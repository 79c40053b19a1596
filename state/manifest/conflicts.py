"""What two fields of a manifest say against each other, and what must not stand in it at all.

Works on the raw mapping, so that these mistakes are told together with those of single fields.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticCustomError

from state.engines.rendering import Rendering, rendering_for
from state.manifest.quantities import endpoint_port, parse_duration, parse_pci_address, show
from state.redaction import REDACTED, redact

_SECRET_NAME = re.compile(r"(?:.*_)?TOKEN|.*(?:KEY|SECRET|PASSWORD|PASSWD)", re.I)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A mistake at a field: `what is wrong; what was expected`."""

    path: tuple[str | int, ...]
    sentence: str


def conflicts(raw: Mapping[str, Any]) -> list[Conflict]:
    """All conflicts of a manifest's raw mapping; parts of the wrong shape are passed over, since others judge them."""
    unit, engine, gpus = (_mapping(raw.get(name)) for name in ("unit", "engine", "gpus"))
    return [
        *_hosts(raw, unit, gpus),
        *_stop(_mapping(unit.get("stop"))),
        *_environment(_mapping(unit.get("environment"))),
        *_addresses(_mapping(gpus.get("drivers"))),
        *_engine(engine),
        *_key_file(engine.get("key_file"), _sequence(unit.get("secrets"))),
        *_claims(_sequence(raw.get("claims"))),
    ]


def _hosts(raw: Mapping[str, Any], unit: Mapping[str, Any], gpus: Mapping[str, Any]) -> Iterator[Conflict]:
    hosts = _mapping(raw.get("hosts"))
    for section, place in (("unit", unit), ("gpus", gpus)):
        name = place.get("host")
        if isinstance(name, str) and hosts and name not in hosts:
            yield Conflict(
                (section, "host"), f"{show(name)} is not among the hosts; expected one of {', '.join(map(str, hosts))}"
            )


def _stop(stop: Mapping[str, Any]) -> Iterator[Conflict]:
    """TimeoutStopSec= is drain and timeout together, and 0 is no time at all only to people: to systemd it is for
    ever (config_parse_sec_fix_0)."""
    drain, timeout = (_seconds(stop.get(name, default)) for name, default in (("drain", 0), ("timeout", None)))
    if drain is not None and timeout is not None and drain + timeout < 0.001:
        yield Conflict(
            ("unit", "stop", "timeout"),
            f"{show(stop['timeout'])} without a `drain` would have systemd wait for ever, which takes 0 for no limit;"
            " expected a duration such as 90s",
        )


def _environment(environment: Mapping[str, Any]) -> Iterator[Conflict]:
    for name, value in environment.items():
        if value in ("", None):
            continue
        if _SECRET_NAME.fullmatch(str(name)) or REDACTED in redact(str(value)):
            yield Conflict(
                ("unit", "environment", name),
                "holds a secret; expected it in a root-only file on the host that is named under `unit.secrets`",
            )


def _addresses(drivers: Mapping[str, Any]) -> Iterator[Conflict]:
    seen: dict[str, str] = {}
    for driver, addresses in drivers.items():
        for index, address in enumerate(_sequence(addresses)):
            known = _known_address(address)
            if known is None:
                continue
            if known in seen:
                yield Conflict(
                    ("gpus", "drivers", driver, index),
                    f"{show(known)} is listed under {show(seen[known])} already; expected each GPU once",
                )
            seen.setdefault(known, driver)


def _claims(claims: Sequence[Any]) -> Iterator[Conflict]:
    """Two claims of one name would be one verdict."""
    seen: dict[tuple[Any, ...], int] = {}
    for index, claim in enumerate(map(_mapping, claims)):
        bound = claim.get("at_least", claim.get("at_most"))
        change = isinstance(bound, str) and bound.endswith("%") and bound[:1] in ("+", "-")
        for level in _sequence(claim.get("concurrency", (1,))):
            key = (claim.get("claim"), change, level)
            if isinstance(level, int) and isinstance(key[0], str) and seen.setdefault(key, index) != index:
                before = f"claims[{seen[key]}]"
                yield Conflict(
                    ("claims", index),
                    f"claims {key[0]} at concurrency {level} as {before} does; expected each kind once at each level",
                )


def _seconds(duration: Any) -> float | None:
    try:
        return parse_duration(duration)
    except PydanticCustomError:
        return None


def _known_address(address: Any) -> str | None:
    try:
        return parse_pci_address(address)
    except PydanticCustomError:
        return None


def _engine(engine: Mapping[str, Any]) -> Iterator[Conflict]:
    kind, command = engine.get("kind"), [word for word in _sequence(engine.get("command")) if isinstance(word, str)]
    if command and not re.fullmatch(r"(?:/[A-Za-z0-9._@+:,=-]+)+", command[0]):
        yield Conflict(
            ("engine", "command", 0), f"{show(command[0])} is no plain absolute path; expected the program's full path"
        )
    for index, word in enumerate(command):
        if not word.isprintable():
            yield Conflict(("engine", "command", index), "has a control character in it; expected text on one line")
    if REDACTED in redact(" ".join(command)):
        yield Conflict(
            ("engine", "command"), "holds a secret, and every user of the host can read an argv; expected none"
        )
    rendering = rendering_for(kind) if isinstance(kind, str) else None
    if rendering is not None:
        yield from _arguments(rendering, engine, command)


def _key_file(path: Any, secrets: Sequence[Any]) -> Iterator[Conflict]:
    """A file of variables is no key: `VLLM_API_KEY=...` would be sent as it stands."""
    if path is not None and path in secrets:
        yield Conflict(
            ("engine", "key_file"),
            f"{show(path)} is under `unit.secrets` as well, which sets variables; expected a file with the key alone",
        )


def _arguments(rendering: Rendering, engine: Mapping[str, Any], command: Sequence[str]) -> Iterator[Conflict]:
    arguments = {name: value for name, value in _mapping(engine.get("arguments")).items() if isinstance(name, str)}
    version = engine.get("version")
    for flag in rendering.parse_arguments(command) if rendering.has_entry_point(command) else ():
        yield Conflict(("engine", "command"), f"has the engine's flag `{flag}`; expected it under `engine.arguments`")
    for name, value in arguments.items():
        if REDACTED in redact(f"{value}"):
            yield Conflict(("engine", "arguments", name), "holds a secret; expected it outside of every argv")
    for name, sentence in rendering.argument_mistakes(arguments, version if isinstance(version, str) else None):
        yield Conflict(("engine", "arguments", name) if name else ("engine", "arguments"), sentence)
    port, listened = endpoint_port(engine.get("endpoint")), arguments.get("port", rendering.default_port)
    if port is None or type(listened) is not int or port == listened or "config" in arguments:
        return
    source = "`engine.arguments.port`" if "port" in arguments else "the engine's default"
    yield Conflict(("engine", "endpoint"), f"names port {port}, but {source} is {listened}; expected the same port")


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()
