"""The report as one HTML file: no script, nothing fetched, everything that came from a host escaped."""

from functools import cache

import jinja2
from markupsafe import Markup

from deployments.report import plots, words
from state.rollout_report import Level, Proof, Report


def html(report: Report) -> str:
    """The whole page as text in UTF-8."""
    return _template().render(
        report=report,
        words=words,
        outage=Markup(plots.phases_plot(report.outage)) if report.outage else "",
        boarding=[(side, Markup(plots.bar(_spans(stages), "start-up"))) for side, stages in report.stages],
        drawn={proof.side: _drawn(proof) for proof in report.proofs},
    )


def _drawn(proof: Proof) -> dict[str, object]:
    changes = [level for level in proof.levels if level.change]
    return {
        "changes": Markup(plots.change_plot(changes)) if changes else "",
        "samples": [(level, Markup(plots.samples_plot(level))) for level in proof.levels if _worth(level)],
    }


def _worth(level: Level) -> bool:
    """Zeros and ones, and a single sample, have nothing to be seen in a plot."""
    return len(level.samples) > 1 and not set(level.samples) <= {0.0, 1.0}


def _spans(stages: tuple[tuple[str, float], ...]) -> list[tuple[str, float]]:
    """A stage lasts until the next begins; the last is a moment."""
    ends = [begin for _, begin in stages[1:]]
    return [(name, max(0.0, end - begin)) for (name, begin), end in zip(stages, ends, strict=False)]


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("deployments.report", "pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")
