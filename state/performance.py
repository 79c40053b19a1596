"""Facts about speed, latency, goodput and stated answers, from passes under load before and after.

A pass is a JSON object: `concurrency`, `pass` (its name), `warm_up`, `cut` (its time ran out), `seconds`, `tokens`,
`held_back` (the share of the requests' time that the rate limit took), `requests` (`state.load_record`). A request
that failed, or brought degenerate text, improves no figure: its pass is a sample of neither throughput nor latency, and
it is no good one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from state.claims import Claim, Fact
from state.evidence import Evidence
from state.traffic import BASELINE, GENERATIONS, LOAD, QUIZ

MOST_HELD_BACK = 0.02
"""Share of a pass's time beyond which the rate limit, and not the service, set its pace."""

Pass = Mapping[str, Any]
Figure = Callable[[Pass], float | None]


def performance_facts(claims: Sequence[Claim], evidence: Evidence) -> tuple[Fact, ...]:
    """One fact for each metric of the claims that this evidence is about. Of claims about one figure the one that
    compares it makes the fact: it alone tells of the baseline, and the others do not mind."""
    comparing_last = sorted(claims, key=lambda claim: claim.estimator == "change")
    return tuple({fact.metric: fact for claim in comparing_last for fact in _facts(claim, evidence)}.values())


def _facts(claim: Claim, evidence: Evidence) -> Iterator[Fact]:
    plane, _, rest = claim.metric.partition(".")
    if plane == LOAD and rest.partition(".")[0] in FIGURES:
        yield _figure(claim, evidence, FIGURES[rest.partition(".")[0]])
    elif plane == LOAD:
        yield _goodput(claim, evidence)
    elif plane == QUIZ:
        yield _quiz(claim, evidence)
    elif claim.metric == f"{GENERATIONS}.accept_length":
        yield _accept_length(claim, evidence)


def _figure(claim: Claim, evidence: Evidence, figure: Figure) -> Fact:
    level = claim.conditions.get("concurrency")
    passes, before = (_measured(evidence, name, level) for name in (LOAD, BASELINE + LOAD))
    samples, baseline = _samples(passes, figure), _samples(before, figure)
    compares = claim.estimator == "change"
    text = _text(samples, passes, figure, claim.unit)
    if compares:
        text += f"; before: {_text(baseline, before, figure, claim.unit)}"
    return Fact(
        metric=claim.metric,
        value=fmean(samples) if samples else None,
        sample=len(samples),
        samples=samples,
        baseline=baseline if compares else (),
        text=text,
        evidence=evidence.cite(LOAD, *([BASELINE + LOAD] if compares else [])),
    )


def _measured(evidence: Evidence, name: str, level: Any) -> list[Pass]:
    """The passes at a level that are no warm-up."""
    return [p for p in evidence.records(name) if p.get("concurrency") == level and p.get("warm_up") is False]


def _samples(passes: Sequence[Pass], figure: Figure) -> tuple[float, ...]:
    found = (figure(p) for p in passes if not _unsound(p))
    return tuple(value for value in found if value is not None and value > 0)


def _unsound(pass_: Pass) -> str:
    """Why a pass is no sample of anything; empty for a whole one."""
    if pass_.get("cut"):
        return "cut off by the budget"
    requests = _requests(pass_)
    failed = [request for request in requests if _failed(request)]
    if failed:
        return f"{len(failed)} of {len(requests)} requests failed ({failed[0].get('error') or 'no status'})"
    degenerate = sum(map(_degenerate, requests))
    if degenerate:
        return f"{degenerate} of {len(requests)} answers are degenerate"
    return "" if requests else "without a request"


def _requests(pass_: Pass) -> list[Mapping[str, Any]]:
    listed = pass_.get("requests")
    return [request for request in listed if isinstance(request, dict)] if isinstance(listed, list) else []


def _failed(request: Mapping[str, Any]) -> bool:
    return request.get("status") != 200 or request.get("error") != ""


def _degenerate(request: Mapping[str, Any]) -> bool:
    """Records of before texts were judged say nothing of it."""
    return request.get("degenerate") is True


def _throughput(pass_: Pass) -> float | None:
    seconds, tokens = _number(pass_.get("seconds")), _number(pass_.get("tokens"))
    held_back = _number(pass_.get("held_back")) or 0.0
    return tokens / seconds if seconds and tokens and held_back <= MOST_HELD_BACK else None


def _median(name: str) -> Figure:
    def figure(pass_: Pass) -> float | None:
        values = [_number(request.get(name)) for request in _requests(pass_)]
        known = [value for value in values if value is not None]
        return median(known) if known and len(known) == len(values) else None

    return figure


FIGURES: Mapping[str, Figure] = {
    "throughput": _throughput,
    "first_token": _median("first_token_s"),
    "inter_token": _median("inter_token_s"),
}


def _text(samples: Sequence[float], passes: Sequence[Pass], figure: Figure, unit: str) -> str:
    """The mean, over how many passes, and why others were left out."""
    why = Counter(_unsound(p) or _figureless(p, figure) for p in passes)
    out = "; ".join(f"{count} left out: {reason}" for reason, count in why.most_common() if reason)
    if not passes:
        return "no pass under load was measured"
    shown = (
        f"{fmean(samples):.4g} {unit} over {len(samples)} passes" if samples else f"none of {len(passes)} passes counts"
    )
    return f"{shown}; {out}" if out else shown


def _figureless(pass_: Pass, figure: Figure) -> str:
    if figure(pass_) is not None:
        return ""
    slow = (_number(pass_.get("held_back")) or 0.0) > MOST_HELD_BACK
    return "held back by the rate limit" if slow else "without the figure"


def _goodput(claim: Claim, evidence: Evidence) -> Fact:
    """Every request of every measured pass; those that the budget cut off said nothing yet."""
    passes = [p for p in _measured(evidence, LOAD, claim.conditions.get("concurrency")) if not p.get("cut")]
    requests = [request for p in passes for request in _requests(p)]
    samples = tuple(float(_good(request, claim.conditions)) for request in requests)
    failed, degenerate = sum(map(_failed, requests)), sum(map(_degenerate, requests))
    text = f"{sum(samples):.0f} of {len(samples)} requests within the bounds, {failed} failed"
    text += f", {degenerate} degenerate" if degenerate else ""
    return Fact(
        metric=claim.metric,
        value=fmean(samples) if samples else None,
        sample=len(samples),
        samples=samples,
        text=text if samples else "no pass under load was measured",
        evidence=evidence.cite(LOAD),
    )


def _good(request: Mapping[str, Any], bounds: Mapping[str, Any]) -> bool:
    first, between = _number(request.get("first_token_s")), _number(request.get("inter_token_s"))
    if _failed(request) or _degenerate(request) or first is None or between is None:
        return False
    return bool(first <= bounds["first_token"] and between <= bounds["inter_token"])


def _quiz(claim: Claim, evidence: Evidence) -> Fact:
    asked = [a for a in evidence.records(QUIZ) if a.get("claim") == claim.name]
    samples = tuple(float(a.get("status") == 200 and a.get("right") is True) for a in asked)
    wrong = next((a for a, right in zip(asked, samples, strict=True) if not right), None)
    text = f"{sum(samples):.0f} of {len(samples)} right"
    text += f"; {wrong.get('prompt', '')!r} got {wrong.get('shown', '')!r}" if wrong else ""
    return Fact(
        metric=claim.metric,
        value=fmean(samples) if samples else None,
        sample=len(samples),
        samples=samples,
        text=text if samples else "no question was asked",
        evidence=evidence.cite(QUIZ),
    )


def _accept_length(claim: Claim, evidence: Evidence) -> Fact:
    samples, baseline = (accept_lengths(evidence.records(name)) for name in (GENERATIONS, BASELINE + GENERATIONS))
    shown = f"accept length {fmean(samples):.2f} over {len(samples)} requests" if samples else "no accept length"
    before = f"{fmean(baseline):.2f} over {len(baseline)}" if baseline else "none"
    return Fact(
        metric=claim.metric,
        value=fmean(samples) if samples else None,
        sample=len(samples),
        samples=tuple(samples),
        baseline=tuple(baseline),
        text=f"{shown}; before: {before}",
        evidence=evidence.cite(GENERATIONS, BASELINE + GENERATIONS),
    )


def accept_lengths(generations: Sequence[Mapping[str, Any]]) -> list[float]:
    """(completion tokens - 1) / verify calls of each request: the first token comes from prefill, not from a verify
    step, so this matches SGLang's logged accept len (0.4.6 to 0.5.23). Where the engine tells no figures of single
    requests: 1 + accepted / drafts as counted while a pair of them ran, which is vLLM's own mean acceptance length.

    An engine that tells drafts and accepted drafts of a request alone (llama.cpp) gave one token of its own at each
    step beside the accepted ones, so the steps are known."""
    lengths = []
    for generation in generations:
        verified, tokens = _steps(generation), _number(generation.get("tokens"))
        counted = generation.get("counted")
        if verified and verified > 0 and tokens and tokens > 1:
            lengths.append((tokens - 1) / verified)
        elif isinstance(counted, Mapping):
            drafts, accepted = _number(counted.get("drafts")), _number(counted.get("accepted"))
            lengths += [1 + accepted / drafts] if drafts and accepted is not None else []
    return lengths


def _steps(generation: Mapping[str, Any]) -> float | None:
    told, tokens = _number(generation.get("verify_calls")), _number(generation.get("tokens"))
    drafted, accepted = _number(generation.get("drafted")), _number(generation.get("accepted"))
    if told is not None or not drafted or accepted is None or tokens is None:
        return told
    return tokens - 1 - accepted


def _number(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
    return float(value) if usable else None
