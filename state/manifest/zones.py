"""The time zones that a manifest's schedule names. Which there are, the machine knows that reads it; not this room."""

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from state.manifest.conflicts import Conflict
from state.manifest.quantities import show

ZoneJudge = Callable[[str], str | None]
"""What is wrong with a time zone's name, as one clause; None where nothing is, or where nobody can say."""


def zone_conflicts(raw: Mapping[str, Any], judge: ZoneJudge) -> Iterator[Conflict]:
    """The mistakes of a manifest's raw mapping. UTC, which is the default, is never asked for."""
    schedule = raw.get("schedule")
    for index, switch in enumerate(schedule if isinstance(schedule, (list, tuple)) else ()):
        zone = switch.get("timezone") if isinstance(switch, Mapping) else None
        if isinstance(zone, str) and zone != "UTC" and (wrong := judge(zone)):
            yield Conflict(("schedule", index, "timezone"), wrong)


def unknown_zone(zone: str, known: Collection[str]) -> str:
    """The clause for a zone that is none of `known`: with the one that was probably meant, or with an example."""
    near = _near(zone, known)
    asked = f"did you mean `{near}`?" if near else "expected one such as Europe/Berlin"
    return f"{show(zone)} is not in this machine's time zone database; {asked}"


def _near(zone: str, known: Collection[str]) -> str | None:
    """The zone of that city, however it is written, or else one that is spelled much alike."""
    city = zone.rpartition("/")[2].lower()
    same = sorted(name for name in known if name.rpartition("/")[2].lower() == city)
    long = sorted(name for name in known if len(name) > 4)  # CEST is no misspelt EST: seven hours lie between them
    alike = difflib.get_close_matches(zone, long, n=1, cutoff=0.75)
    return next(iter(difflib.get_close_matches(zone, same, n=1, cutoff=0.0) or alike), None)
