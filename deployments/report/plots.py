"""Plots as SVG text, without a script or a font of their own: intervals, samples over time, times beside each other."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import accumulate

from deployments.report.words import number
from state.outage import Phase
from state.rollout_report import Level

WIDTH, LEFT, RIGHT = 720, 96, 96


def samples_plot(level: Level) -> str:
    """Every sample in its order, the baseline's before the new ones, with the interval and the bound of a mean."""
    before, after = list(level.baseline), list(level.samples)
    marks = [] if level.change else [v for v in (level.low, level.high, level.bound) if v is not None]
    scale = _Scale([*before, *after, *marks], 24.0, 176.0)
    count = len(before) + len(after)
    step = (WIDTH - LEFT - RIGHT) / max(1, count)
    parts = [*_grid(scale, level.unit)]
    if not level.change and level.low is not None and level.high is not None:
        top, bottom = scale.y(level.high), scale.y(level.low)
        begin = LEFT + step * len(before)
        parts.append(f'<rect class="interval" x="{begin:.1f}" y="{top:.1f}" width="{step * len(after):.1f}" '
                     f'height="{max(1.0, bottom - top):.1f}"><title>interval {number(level.low)} to '
                     f"{number(level.high)}</title></rect>")  # fmt: skip
    if not level.change and level.bound is not None:
        y = scale.y(level.bound)
        parts.append(f'<line class="bound" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(WIDTH - RIGHT + 6, y + 4, f"bound {number(level.bound)}"))
    for index, value in enumerate([*before, *after]):
        kind = "old" if index < len(before) else "new"
        x = LEFT + step * (index + 0.5)
        parts.append(_dot(kind, x, scale.y(value), number(value)))
    parts += [_text(LEFT + step * len(before) / 2, 194, "before", "middle")] if before else []
    parts.append(_text(LEFT + step * (len(before) + len(after) / 2), 194, "after" if before else "in order", "middle"))
    return _svg(204, parts, level.statement)


def change_plot(levels: Sequence[Level]) -> str:
    """One line for each change: estimate, interval, the bound as a bar; zero is no change."""
    spans = [_span(level) for level in levels]
    bounds = [level.bound for level in levels if level.bound is not None]
    scale = _Scale([0.0, *bounds, *(end for span in spans for end in span)], LEFT + 130, WIDTH - 24, rising=True)
    parts, height = [], 28 + 30 * len(levels)
    parts.append(f'<line class="axis" x1="{scale.y(0):.1f}" x2="{scale.y(0):.1f}" y1="8" y2="{height - 18}"/>')
    parts.append(_text(scale.y(0), height - 4, "no change", "middle"))
    for row, (level, (low, high)) in enumerate(zip(levels, spans, strict=True)):
        y = 22 + 30 * row
        told = f"{number(low, change=True)} to {number(high, change=True)}"
        parts.append(_text(4, y + 4, level.claim))
        parts.append(f'<line class="span {level.outcome}" x1="{scale.y(low):.1f}" x2="{scale.y(high):.1f}" '
                     f'y1="{y}" y2="{y}"><title>{told}</title></line>')  # fmt: skip
        parts.append(_dot("new", scale.y(level.value), y, number(level.value, change=True)))
        if level.bound is not None:
            at, said = scale.y(level.bound), number(level.bound, change=True)
            parts.append(f'<line class="bound" x1="{at:.1f}" x2="{at:.1f}" y1="{y - 10}" y2="{y + 10}"><title>bound '
                         f"{said}</title></line>")  # fmt: skip
    return _svg(height, parts, "changes with their intervals")


def _span(level: Level) -> tuple[float, float]:
    """The interval; the estimate alone where too few samples gave none."""
    known = level.low is not None and level.high is not None
    return (level.low or 0.0, level.high or 0.0) if known else (level.value, level.value)


def phases_plot(phases: Sequence[Phase]) -> str:
    """The phases of an outage as one bar, in seconds."""
    spans = [(f"{'back: ' if p.side == 'old' else ''}{p.name}", p.seconds) for p in phases]
    return bar(spans, "from the stop to the proof")


def bar(spans: Sequence[tuple[str, float]], title: str) -> str:
    """Spans of seconds one after the other; narrow ones are named in the list below the bar alone."""
    whole = sum(seconds for _, seconds in spans) or 1.0
    begins = [0.0, *accumulate(seconds for _, seconds in spans)]
    parts, width = [], WIDTH - 8
    for index, ((name, seconds), begin) in enumerate(zip(spans, begins, strict=False)):
        x, wide = 4 + width * begin / whole, width * seconds / whole
        parts.append(f'<rect class="phase p{index % 7}" x="{x:.1f}" y="8" width="{max(0.5, wide):.1f}" height="30">'
                     f"<title>{escape(name)} {seconds:.2f} s</title></rect>")  # fmt: skip
        if wide > 7.0 * len(name) + 8:
            parts.append(_text(x + wide / 2, 28, name, "middle", "on"))
    for index, (name, seconds) in enumerate(spans):
        x, y = 4 + 178 * (index % 4), 58 + 20 * (index // 4)
        parts.append(f'<rect class="phase p{index % 7}" x="{x}" y="{y - 9}" width="10" height="10"/>')
        parts.append(_text(x + 16, y, f"{name} {seconds:.2f} s"))
    return _svg(66 + 20 * ((len(spans) + 3) // 4), parts, title)


class _Scale:
    """Values to places between two ends; upwards, unless `rising` goes the other way (to the right)."""

    def __init__(self, values: Sequence[float], near: float, far: float, *, rising: bool = False) -> None:
        low, high = min(values), max(values)
        margin = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
        self.low, self.high = low - margin, high + margin
        self._near, self._far, self._rising = near, far, rising

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self._near + (share if self._rising else 1 - share) * (self._far - self._near)


def _grid(scale: _Scale, unit: str) -> Iterator[str]:
    for part in range(5):
        value = scale.low + (scale.high - scale.low) * part / 4
        y = scale.y(value)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(LEFT - 8, y + 4, number(round(value, 4)), "end")
    if unit:
        yield _text(LEFT, 14, unit)


def _dot(kind: str, x: float, y: float, told: str) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{escape(told)}</title></circle>'


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
