"""The Prometheus text format, as far as engines use it."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from state.inspection.reading import Sample

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>[^\s#]+)(?:\s+-?\d+)?\s*(?:#.*)?$"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r'\\([\\"n])')
_SAME_SERVER = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "ep_rank", "attn_cp_rank", "moe_dp_rank"})
"""Labels of ranks that work on the same batch."""


def parse_samples(text: str) -> list[Sample]:
    """All samples with a finite value. `_created` series are time stamps and `_bucket` series are left out."""
    return list(_samples(text.splitlines()))


def _samples(lines: Iterable[str]) -> Iterator[Sample]:
    for line in lines:
        found = _SAMPLE.match(line.strip()) if line[:1] not in ("#", "") else None
        if found is None or found["name"].endswith(("_created", "_bucket")):
            continue
        try:
            value = float(found["value"])
        except ValueError:
            continue
        if math.isfinite(value):
            labels = {name: _unescaped(shown) for name, shown in _LABEL.findall(found["labels"] or "")}
            yield Sample(found["name"], labels, value)


def _unescaped(label: str) -> str:
    r"""The value of a label, of which `\\`, `\"` and `\n` are written with a backslash."""
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], label)


@dataclass(frozen=True, slots=True)
class Series:
    """Samples by name, and by the server that they are of: labels of ranks of one batch do not tell servers apart."""

    by_name: Mapping[str, Sequence[Sample]] = field(default_factory=dict)

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> "Series":
        names: dict[str, list[Sample]] = {}
        for sample in samples:
            names.setdefault(sample.name, []).append(sample)
        return cls(names)

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def gauges(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """One value for each server: the highest over the ranks that share a batch."""
        values: dict[tuple[tuple[str, str], ...], float] = {}
        samples = self.by_name.get(name, ())
        without = [sample for sample in samples if not sample.labels.get("priority")]
        for sample in without or samples:
            key = server_of(sample.labels)
            values[key] = max(values.get(key, sample.value), sample.value)
        return values

    def total(self, name: str) -> float | None:
        """The sum over servers; None where there is no such series."""
        values = self.gauges(name)
        return sum(values.values()) if values else None


def server_of(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((k, v) for k, v in labels.items() if k not in _SAME_SERVER and k != "priority"))
