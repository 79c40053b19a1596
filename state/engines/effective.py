"""The value of an argument that is in effect, from all places where the engine shows it."""

from collections.abc import Mapping
from typing import Any

from state.claims import Fact


def effective(metric: str, name: str, sources: Mapping[str, Mapping[str, Any]], cite: tuple[str, ...]) -> Fact:
    """The effective value, `none` where the engine shows that it has none; None, with a sentence, where the sources do
    not have it or contradict each other."""
    seen = {source: values[name] for source, values in sources.items() if name in values}
    if not seen:
        return Fact(metric=metric, text=f"no source shows {name} as it is in effect", sample=0, evidence=cite)
    values = list(seen.values())
    if any(value != values[0] for value in values):
        said = ", ".join(f"{source} says {value!r}" for source, value in seen.items())
        return Fact(metric=metric, text=f"{name}: {said}", evidence=cite)
    text = f"{values[0]!r} ({', '.join(seen)})"
    value = "none" if values[0] is None else values[0]
    return Fact(metric=metric, value=value, sample=len(seen), text=text, evidence=cite)
