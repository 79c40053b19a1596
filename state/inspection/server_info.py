"""Reading `/server_info`: whichever engine's object it is."""

from collections.abc import Mapping
from typing import Any

from state.inspection.engines import readings
from state.inspection.report import Memory, ServerInfoReport, Speculation


def read_server_info(data: Mapping[str, Any], engine: str = "auto") -> ServerInfoReport:
    """The report; its engine is None where the object is no known engine's."""
    for reading in readings(engine):
        report = reading.read_server_info(data)
        if report is not None:
            return report
    return ServerInfoReport(None, None, {}, {}, Speculation(), Memory())
