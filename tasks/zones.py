"""The time zones that this machine knows: the system's database, or else that of the `tzdata` package."""

from zoneinfo import ZoneInfo, available_timezones

from state.manifest.zones import unknown_zone


def zone_mistake(zone: str) -> str | None:
    """What is wrong with a time zone's name, as one clause. None where there is such a zone, and where this machine
    has no database that could tell. Listing the database opens its 600 files, so only an unknown zone pays for it."""
    if is_zone(zone):
        return None
    known = available_timezones()
    return unknown_zone(zone, known) if known else None


def is_zone(zone: str) -> bool:
    """Whether the database has it; ZoneInfo raises OSError for a folder of zones, ValueError for what is no name."""
    try:
        ZoneInfo(zone)
    except (OSError, ValueError, KeyError):
        return False
    return True
