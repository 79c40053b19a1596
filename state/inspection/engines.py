"""The engines whose artefacts can be read: those of the registry that have a `reading`."""

from state.engines.registry import NAMES, part
from state.inspection.reading import Reading

READINGS: tuple[Reading, ...] = tuple(reading for name in NAMES if (reading := part(name, "reading", "READING")))


def readings(engine: str = "auto") -> tuple[Reading, ...]:
    """All of them for `auto`, else the one of that name; none for an unknown name."""
    return tuple(reading for reading in READINGS if engine in ("auto", reading.name))


def remedy(engine: str | None, code: str) -> str:
    """What to do about a failure code, as that engine knows it, in one sentence."""
    chosen = [reading for reading in READINGS if reading.name == engine] or list(READINGS)
    return chosen[0].remedy(code)
