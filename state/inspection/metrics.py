"""Reading `/metrics`: whichever engine's series are there."""

from state.inspection.engines import readings
from state.inspection.prometheus import parse_samples
from state.inspection.report import MetricsReport, Speculation


def read_metrics(text: str, engine: str = "auto") -> MetricsReport:
    """The report; its engine is None where no series is a known engine's."""
    samples = parse_samples(text)
    for reading in readings(engine):
        report = reading.read_metrics(samples)
        if report is not None:
            return report
    return MetricsReport(engine=None, speculation=Speculation(), running=None, queued=None)
