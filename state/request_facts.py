"""What our own requests say of a service, whichever engine it is: answered, rightly, in sound text, by the model."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from state.claims import Fact
from state.evidence import Evidence
from state.traffic import LOAD

MODELS, ANSWERS, GENERATIONS = "models", "answers", "generations"
BEFORE = "baseline-answers"


def same_as_before(evidence: Evidence) -> Iterator[Fact]:
    """How many answers at temperature 0 are, word for word, those of the service as it was before. No claim is about
    it: two starts of the same configuration differ too (reference/operators.md, A2)."""
    before = {(a.get("prompt"), a.get("stream")): a.get("shown") for a in evidence.records(BEFORE)}
    asked = [a for a in evidence.records(ANSWERS) if (a.get("prompt"), a.get("stream")) in before]
    if asked:
        same = sum(a.get("shown") == before[a.get("prompt"), a.get("stream")] for a in asked)
        told = "all" if same == len(asked) else f"{same} of {len(asked)}"
        text = f"{told} answers at temperature 0 are, word for word, those of before; nothing is decided by that"
        yield Fact(
            metric="answers.same", value=same, sample=len(asked), text=text, evidence=evidence.cite(ANSWERS, BEFORE)
        )


def request_facts(evidence: Evidence, name: str) -> Iterator[Fact]:
    """What our own requests brought; `name` is what the models endpoint should list."""
    yield from same_as_before(evidence)
    answers = evidence.records(ANSWERS)
    requests = [*answers, *evidence.records(GENERATIONS)]
    if requests:
        failed = [a for a in requests if a.get("status") != 200]
        text = f"{len(requests) - len(failed)} of {len(requests)} requests answered"
        text += f"; {failed[0].get('shown', '')}" if failed else ""
        cite = evidence.cite(ANSWERS, GENERATIONS)
        yield Fact(metric="requests.failed", value=len(failed), sample=len(requests), text=text, evidence=cite)
    if answers:
        cite, count = evidence.cite(ANSWERS), len(answers)
        right = sum(bool(a.get("right")) for a in answers)
        wrong = next((a for a in answers if not a.get("right")), None)
        text = f"{right} of {count} right" + (
            f"; {wrong.get('prompt', '')!r} got {wrong.get('shown', '')!r}" if wrong else ""
        )
        yield Fact(metric="answers.right", value=right / count, sample=count, text=text, evidence=cite)
    loaded = _judged(_under_load(evidence))
    judged = _judged(requests) + loaded
    if judged:
        bad = [a for a in judged if a["degenerate"]]
        text = f"{len(bad)} of {len(judged)} degenerate" + (f": {bad[0].get('shown', '')!r}" if bad else "")
        yield Fact(
            metric="answers.degenerate",
            value=len(bad),
            sample=len(judged),
            text=text,
            evidence=evidence.cite(ANSWERS, GENERATIONS, *([LOAD] if loaded else [])),
        )
    models = evidence.json(MODELS)
    if isinstance(models, dict) and isinstance(models.get("data"), list):
        ids = [str(m.get("id")) for m in models["data"] if isinstance(m, dict)]
        yield Fact(
            metric="models.named",
            value=name in ids,
            text=f"it names {', '.join(ids)}",
            evidence=evidence.cite(MODELS),
        )


def _judged(requests: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [a for a in requests if a.get("degenerate") is not None]


def _under_load(evidence: Evidence) -> Iterator[Mapping[str, Any]]:
    """The requests of all passes, those that warmed up too: text is right at any pace."""
    for pass_ in evidence.records(LOAD):
        listed = pass_.get("requests")
        yield from (r for r in listed if isinstance(r, dict)) if isinstance(listed, list) else ()
