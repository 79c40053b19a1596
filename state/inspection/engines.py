"""The engines whose artefacts can be read: those of the registry that have a `reading`.

They are loaded when something is to be read: their patterns take 40 ms to compile.
"""

from functools import cache

from state.engines.registry import NAMES, part
from state.inspection.reading import Reading


@cache
def readings(engine: str = "auto") -> tuple[Reading, ...]:
    """All of them for `auto`, else the one of that name; none for an unknown name."""
    return tuple(
        reading for name in NAMES if engine in ("auto", name) and (reading := part(name, "reading", "READING"))
    )


def remedy(engine: str | None, code: str) -> str:
    """What to do about a failure code, as that engine knows it, in one sentence."""
    return (readings(engine or "auto") or readings())[0].remedy(code)
