"""The engines whose artefacts can be read. A new engine is its own folder and one line here."""

from state.engines.sglang.reading import READING as SGLANG
from state.engines.vllm.reading import READING as VLLM
from state.inspection.reading import Reading

READINGS: tuple[Reading, ...] = (SGLANG, VLLM)


def readings(engine: str = "auto") -> tuple[Reading, ...]:
    """All of them for `auto`, else the one of that name; none for an unknown name."""
    return tuple(reading for reading in READINGS if engine in ("auto", reading.name))


def remedy(engine: str | None, code: str) -> str:
    """What to do about a failure code, as that engine knows it, in one sentence."""
    chosen = [reading for reading in READINGS if reading.name == engine] or list(READINGS)
    return chosen[0].remedy(code)
