"""The claims that a manifest can make, as a person writes them, and the traffic that decides them.

A bound is a number of the claim's own unit, or text such as `+12%`: a change against the service as it was before.
"""

from typing import Annotated, Any, Literal

import re2
from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, StringConstraints, model_validator

from state.manifest.quantities import (
    mistake,
    parse_change,
    parse_duration,
    parse_latency,
    parse_length,
    parse_share,
    parse_speed,
    show,
)
from state.model import Value
from state.smoke import matcher

Seconds = Annotated[float, BeforeValidator(parse_duration)]
_LEVELS = "a list of up to 8 whole numbers from 1 to 4096"
MOST_PROMPTS, MOST_TOKENS, MOST_AT_ONCE, MOST_BUDGET_S = 256, 16_384, 4096, 6 * 3600.0


def _usable_prompt(value: str) -> str:
    if not value.strip() or "\x00" in value:
        raise mistake(f"{show(value)} asks nothing; expected the text of a prompt")
    return value


def _pattern(value: str) -> str:
    try:
        found = matcher(value)
    except re2.error as error:
        why = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise mistake(f"{show(value)} is no regular expression ({why}); expected one in RE2's syntax") from error
    if found.search(""):
        raise mistake(f"{show(value)} matches an empty answer; expected a pattern that a wrong answer does not match")
    return value


def _distinct(levels: tuple[int, ...]) -> tuple[int, ...]:
    if not levels:
        raise mistake(f"is empty; expected {_LEVELS}")
    if len(set(levels)) < len(levels):
        raise mistake("names a concurrency twice; expected each once")
    return levels


Prompt = Annotated[str, StringConstraints(max_length=20_000), AfterValidator(_usable_prompt)]
Concurrency = Annotated[
    tuple[Annotated[StrictInt, Field(ge=1, le=MOST_AT_ONCE)], ...],
    Field(max_length=8),
    AfterValidator(_distinct),
]


class CommonSpec(Value):
    """What every claim may say beside its bound. `within` None is the traffic's budget, `inconclusive` None the
    rollout's policy."""

    confidence: float = Field(0.95, ge=0.5, lt=1.0, description="a number from 0.5 to below 1")
    within: Annotated[Seconds, Field(gt=0, le=MOST_BUDGET_S)] | None = Field(
        None, description="a duration of up to 6h, such as 3m"
    )
    inconclusive: Literal["rollback", "hold", "accept"] | None = Field(
        None, description="`rollback`, `hold` or `accept`"
    )


class AcceptLengthSpec(CommonSpec):
    """Tokens for each verify step of speculative decoding, the bonus token included."""

    claim: Literal["accept-length"] = "accept-length"
    at_least: Annotated[float | str, BeforeValidator(parse_length)] = Field(
        description="a number from 1 up, or a change such as -5%"
    )


class LoadSpec(CommonSpec):
    """A figure under load, at each of some numbers of requests at once."""

    concurrency: Concurrency = Field((1,), description=_LEVELS)


class ThroughputSpec(LoadSpec):
    """Output tokens a second: at least so many, or so many more than the service as it was before."""

    claim: Literal["throughput"] = "throughput"
    at_least: Annotated[float | str, BeforeValidator(parse_speed)] = Field(
        description="a change such as +12%, or a number of tokens a second above 0"
    )
    against: Literal["baseline"] | None = Field(None, description="`baseline`, which a change is against anyway")

    @model_validator(mode="before")
    @classmethod
    def _changes_were_ratios(cls, data: Any) -> Any:
        """Release 0.1.0 kept the change as a ratio, always with `against`."""
        if isinstance(data, dict) and data.get("against") and type(data.get("at_least")) is float:
            return {**data, "at_least": f"{data['at_least'] * 100:+.6g}%"}
        return data


class FirstTokenSpec(LoadSpec):
    """Seconds from a request to its first token: the median of each pass."""

    claim: Literal["time-to-first-token"] = "time-to-first-token"
    at_most: Annotated[float | str, BeforeValidator(parse_latency)] = Field(
        description="a change such as +10%, or a duration such as 800ms"
    )


class InterTokenSpec(LoadSpec):
    """Seconds from one token to the next: the median of each pass."""

    claim: Literal["inter-token-latency"] = "inter-token-latency"
    at_most: Annotated[float | str, BeforeValidator(parse_latency)] = Field(
        description="a change such as +10%, or a duration such as 50ms"
    )


class GoodputSpec(LoadSpec):
    """The share of requests that are answered within bounds of latency."""

    claim: Literal["goodput"] = "goodput"
    at_least: Annotated[float, BeforeValidator(parse_share)] = Field(description="a share such as 95%")
    first_token: Annotated[Seconds, Field(gt=0)] = Field(description="a duration such as 2s")
    inter_token: Annotated[Seconds, Field(gt=0)] = Field(description="a duration such as 50ms")


class QuestionSpec(Value):
    """A question, and a pattern that every right answer matches somewhere, in upper or lower case."""

    prompt: Prompt = Field(description="the question's text")
    matches: Annotated[str, StringConstraints(max_length=1000), AfterValidator(_pattern)] = Field(
        description="a regular expression"
    )


class AnswersSpec(LoadSpec):
    """The share of questions that are answered rightly; without questions, of the built-in ones."""

    claim: Literal["answers"] = "answers"
    at_least: Annotated[float, BeforeValidator(parse_share)] = Field(description="a share such as 90%")
    questions: Annotated[tuple[QuestionSpec, ...], Field(max_length=MOST_PROMPTS)] = Field(
        (), description="a list of up to 256 mappings of prompt and matches"
    )


ClaimSpec = Annotated[
    AcceptLengthSpec | ThroughputSpec | FirstTokenSpec | InterTokenSpec | GoodputSpec | AnswersSpec,
    Field(discriminator="claim"),
]


class TrafficSpec(Value):
    """Our own requests. Without prompts there are built-in ones; without a rate only the concurrency bounds it."""

    prompts: Annotated[tuple[Prompt, ...], Field(max_length=MOST_PROMPTS)] = Field(
        (), description="a list of up to 256 texts"
    )
    tokens: StrictInt = Field(256, ge=8, le=MOST_TOKENS, description="a whole number from 8 to 16384")
    budget: Annotated[Seconds, Field(gt=0, le=MOST_BUDGET_S)] = Field(
        180.0, description="a duration of up to 6h, such as 3m"
    )
    rate: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] | None = Field(
        None, description="a number of requests a second, above 0 and up to 1000"
    )


def ratio(bound: float | str) -> float | None:
    """The change that a bound is, as a ratio: 0.12 for `+12%`; None for a figure of its own."""
    return parse_change(bound) if isinstance(bound, str) else None
