"""Times that a history tells: how long a service did not answer, learned for the next plan."""

from collections.abc import Iterable

from state.events import ActionStarted, ReadinessReached, decode
from state.store.port import RecordedEvent

_TOLD_BY = (ActionStarted.wire, ReadinessReached.wire)


def dark_seconds(history: Iterable[RecordedEvent]) -> float | None:
    """Seconds from the intent to stop the service to the generation that came back after it; None if one is missing."""
    stopped = None
    for recorded in history:
        if recorded.type not in _TOLD_BY:
            continue
        event = decode(recorded)
        if isinstance(event, ActionStarted) and event.action.endswith(":stop-service") and stopped is None:
            stopped = recorded.recorded_at
        if isinstance(event, ReadinessReached) and stopped is not None:
            return (recorded.recorded_at - stopped).total_seconds()
    return None
