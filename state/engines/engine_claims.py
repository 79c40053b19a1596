"""Claims that several engines make alike, each from its own source."""

from state.claims import Claim, Undecidable


def adjustments(source: str, *, doubt: str | None = None, **words: str) -> Claim:
    """That the engine changed nothing by itself; `words` are statement and remedy where an engine says them better."""
    return Claim.model_validate(
        {
            "name": "adjustments",
            "plane": "control",
            "statement": "the engine changed no setting that matters by itself",
            "metric": "adjustments.unexpected",
            "relation": "equals",
            "expected": [],
            "source": source,
            "remedy": "ask for the value that the engine insists on, or for a combination that it supports",
            "doubt": doubt,
            **words,
        }
    )


def not_simulated(metric: str, source: str, remedy: str) -> Claim:
    """That drafts are judged by the model and not by a figure that somebody set."""
    return Claim(
        name="not-simulated",
        plane="data",
        statement="acceptance is not simulated",
        metric=metric,
        relation="equals",
        expected=False,
        source=source,
        remedy=remedy,
    )


def draft_loaded(statement: str, source: str, remedy: str) -> Claim:
    """That a draft is in memory, where the engine does not tell of each rank."""
    return Claim(
        name="draft-weights",
        plane="data",
        statement=statement,
        metric="draft.loaded",
        relation="equals",
        expected=True,
        source=source,
        remedy=remedy,
    )


def no_draft_loaded(method: str | None) -> Undecidable:
    """For methods that draft without a model of their own."""
    why = f"{method} has no draft model, so none is loaded"
    return Undecidable(claim="draft-weights", plane="data", why=why)


def version_defaults(instead: str) -> Undecidable:
    """For a target whose version could not be read; `instead` says how it could be."""
    return Undecidable(
        claim="version-defaults",
        plane="control",
        why="the installed version could not be read, and defaults differ between versions",
        instead=instead,
    )
