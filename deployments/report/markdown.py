"""The report as markdown: for an issue, a chat, or a pull request."""

from collections.abc import Iterable, Iterator

from deployments.report.words import OUTCOMES, SIDES, figure, remedies
from state.claims import Verdict
from state.rollout_report import Proof, Report


def markdown(report: Report) -> str:
    """One page; everything that came from a host is kept from being read as markup."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"# {_plain(report.service)}: {report.outcome}"
    yield ""
    yield _plain(report.summary)
    yield ""
    dark = f", {report.dark_s:.1f} s without an answer" if report.dark_s is not None else ""
    yield (
        f"{report.purpose} `{report.rollout}` to revision `{report.revision}`, asked for by {_plain(report.actor)} on "
        f"{report.requested_at:%Y-%m-%d %H:%M:%S} UTC ({_plain(report.reason)}){dark}."
    )
    yield from _section("What was changed", (f"{n}. {_plain(c)}" for n, c in enumerate(report.changes, 1)))
    yield from _section("A person was asked", (f"- {_plain(text)}" for text in report.held))
    for proof in report.proofs:
        yield from _proof(proof)
    yield from _outage(report)
    yield from _section("Not decidable here", (
        f"- {u.claim}: {_plain(u.why)}" + (f"; {_plain(u.instead)}" if u.instead else "") for u in report.undecidable
    ))  # fmt: skip
    yield from _section("Timeline", (
        f"- {line.after_s:.1f} s **{_plain(line.title)}** {_plain(line.text)}" for line in report.timeline
    ))  # fmt: skip
    yield from _section("Next, by hand", (f"    {argv}" for argv in report.next_argvs))


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield from ("", f"## {title}", "", *found)


def _proof(proof: Proof) -> Iterator[str]:
    yield from ("", f"## Claims about {SIDES[proof.side]}: {proof.outcome}", "")
    rounds = f"{proof.rounds} rounds" if proof.rounds > 1 else "one round"
    yield f"{rounds} of traffic and reading, {proof.seconds:.1f} s."
    yield from (
        "",
        "| plane | verdict | claim | evidence | figure | what would refute it |",
        "|---|---|---|---|---|---|",
    )
    for plane, verdicts in proof.planes:
        for verdict in verdicts:
            yield _row(plane, verdict)
    if proof.notes:
        yield from ("", *(f"- {_plain(note)}" for note in proof.notes))
    for remedy, verdicts in remedies(proof):
        yield from ("", f"**{', '.join(v.claim for v in verdicts)}**: {_plain(remedy)}")
        causes = verdicts[0].causes
        yield from (f"{n}. {_plain(c.cause)}; to tell: {_plain(c.check)}" for n, c in enumerate(causes, 1))
    yield from ("", "Evidence: " + ", ".join(f"{name} `{digest[:12]}`" for name, digest in proof.evidence))


def _row(plane: str, verdict: Verdict) -> str:
    cells = (plane, OUTCOMES[verdict.outcome], verdict.statement, verdict.reason, figure(verdict.estimate),
             verdict.refuting)  # fmt: skip
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _outage(report: Report) -> Iterator[str]:
    if not report.outage:
        return
    yield from ("", "## From the stop to the proof", "", "| phase | side | seconds |", "|---|---|---|")
    yield from (f"| {phase.name} | {phase.side} | {phase.seconds:.2f} |" for phase in report.outage)
    for side, stages in report.stages:
        told = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in stages)
        yield from ("", f"Start-up of {SIDES[side]}: {told}")


def _plain(text: object) -> str:
    """Text on one line in which nothing is markup."""
    kept = " ".join(str(text).split())
    for sign in "\\`*_[]<>|":
        kept = kept.replace(sign, f"\\{sign}")
    return kept
