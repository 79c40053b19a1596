"""What both pages say alike: outcomes, sides, figures."""

from state.claims import Estimate, Verdict
from state.rollout_report import Level, Proof

OUTCOMES = {"held": "✓ held", "refuted": "✗ refuted", "inconclusive": "? open"}
SIDES = {"new": "the new revision", "old": "the old revision"}


def figure(estimate: Estimate | None) -> str:
    """`3.12, 2.98 to 3.26; bound 2` as far as it is known; empty without a figure."""
    if estimate is None:
        return ""
    change = estimate.unit == "%"
    told = number(estimate.value, change=change)
    if estimate.low is not None and estimate.high is not None:
        told += f", {number(estimate.low, change=change)} to {number(estimate.high, change=change)}"
    if estimate.bound is not None:
        told += f"; bound {number(estimate.bound, change=change)}"
    unit = "" if change or not estimate.unit else f" {estimate.unit}"
    return f"{told}{unit} ({estimate.sample} samples)" if estimate.low is not None else f"{told}{unit}"


def number(value: float, *, change: bool = False) -> str:
    if change:
        return f"{value:+.1%}"
    if value == int(value) and abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.4f}"


def remedies(proof: Proof) -> list[tuple[str, tuple[Verdict, ...]]]:
    """What to do about what is not held: each remedy once, with the claims that it is for."""
    found: dict[str, list[Verdict]] = {}
    for _, verdicts in proof.planes:
        for verdict in verdicts:
            if verdict.outcome != "held" and verdict.remedy:
                found.setdefault(verdict.remedy, []).append(verdict)
    return [(remedy, tuple(verdicts)) for remedy, verdicts in found.items()]


def level_title(level: Level) -> str:
    return f"{level.statement} – {OUTCOMES[level.outcome]}"
