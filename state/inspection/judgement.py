"""What the evidence of one boot amounts to: its outcome, and whether speculation really runs."""

from typing import TYPE_CHECKING

from state.inspection.report import Outcome, Speculation, SpeculationState

if TYPE_CHECKING:
    from state.inspection.boot import BootState


def outcome(boot: "BootState", *, failed: bool) -> Outcome | None:
    """What the boot was doing when the input ended; None where neither a start nor an end was seen."""
    if failed and not (boot.stop_asked and set(boot.causes.by_code) <= {"stop-timeout"}):
        return "failed"
    if boot.stop_asked:
        return "stopped"
    if boot.ready:
        return "ready"
    return "starting" if boot.begun and (boot.arguments is not None or not boot.alive) else None


def speculation(boot: "BootState") -> Speculation:
    configured, acceptance = boot.configured, boot.acceptance.finished()
    state = _state(boot)
    algorithm = configured.algorithm or ("none" if state == "off" else None)
    return Speculation(
        algorithm="none" if state == "off" else algorithm,
        num_steps=configured.num_steps,
        topk=configured.topk,
        num_draft_tokens=configured.num_draft_tokens,
        state=state,
        samples=acceptance.samples,
        accept_length=acceptance.length(configured) if acceptance.samples else None,
        accept_rate=acceptance.rate(configured) if acceptance.samples else None,
        accepted_tokens=acceptance.accepted,
        drafted_tokens=acceptance.drafted,
        per_position=acceptance.per_position(),
    )


def _state(boot: "BootState") -> SpeculationState | None:
    acceptance = boot.acceptance.finished()
    if acceptance.samples:
        return "useless" if acceptance.nothing_accepted else "active"
    configured = boot.configured
    if boot.decoded_without or (configured.known and configured.algorithm is None):
        return "off"
    if boot.role == "prefill":
        return "not-applicable"
    return "configured" if configured.algorithm is not None or boot.draft_seen else None
