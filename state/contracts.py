"""What a service may offer beyond text, and how each offer is probed: structured output and tool calls.

A probe is a question whose answer a rule can check; a broken one says why. Used where the manifest says that the
service offers it (`engine.offers`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from state.claims import Claim, Fact

Offer = Literal["json-schema", "tool-calls"]
CONTRACTS = "contracts"

MARKUP = ("<tool_call>", "<function=", "[TOOL_CALLS]", "<|python_tag|>", "<|tool_calls_section_begin|>", "<tool_calls>")
"""How models write tool calls in their text (Hermes and Qwen, Llama, Mistral, Kimi, DeepSeek): a server whose parser
fits the model never shows these."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A chat prompt and what is added to the request's body; `schema` is for the answer or for the call's arguments,
    `tool` the function that must be called."""

    offer: Offer
    prompt: str
    schema: Mapping[str, Any]
    tool: str = ""

    @property
    def body(self) -> Mapping[str, Any]:
        if self.offer == "json-schema":
            form = {"name": "answer", "schema": self.schema, "strict": True}
            return {"response_format": {"type": "json_schema", "json_schema": form}}
        function = {"name": self.tool, "description": "Looks it up.", "parameters": self.schema}
        return {"tools": [{"type": "function", "function": function}], "tool_choice": "auto"}

    def broken(self, text: str, calls: Sequence[tuple[str, str]]) -> str:
        """Why the answer breaks the offer, empty where it keeps it."""
        if self.offer == "json-schema":
            return _misfit(text, self.schema, "the answer")
        if leaked := next((mark for mark in MARKUP if mark in text), None):
            return f"the call stands in the text as {leaked}…: the server's tool parser does not fit the model"
        if not calls:
            return "no tool was called"
        name, arguments = calls[0]
        if name != self.tool:
            return f"it calls {name or 'a function without a name'}, which was not offered"
        return _misfit(arguments, self.schema, "the call's arguments")


def _object(**properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_TEXT, _WHOLE = {"type": "string"}, {"type": "integer"}

PROBES: tuple[Probe, ...] = (
    Probe("json-schema", "Describe the city of Paris.", _object(name=_TEXT, country=_TEXT, inhabitants=_WHOLE)),
    Probe(
        "json-schema",
        "Name three fruits and say of each whether it is sweet.",
        _object(fruits={"type": "array", "items": _object(name=_TEXT, sweet={"type": "boolean"}), "minItems": 1}),
    ),
    Probe("json-schema", "How urgent is a kitchen fire?", _object(urgency={"enum": ["low", "medium", "high"]})),
    Probe("json-schema", "Give the numbers one and two.", _object(one=_WHOLE, two=_WHOLE)),
    Probe("tool-calls", "What is the weather in Paris now? Use the tool.", _object(city=_TEXT), "get_weather"),
    Probe("tool-calls", "What time is it in Tokyo? Use the tool.", _object(city=_TEXT), "get_time"),
    Probe(
        "tool-calls",
        "Convert 100 EUR to USD with the tool.",
        _object(amount={"type": "number"}, source=_TEXT, target=_TEXT),
        "convert_currency",
    ),
    Probe("tool-calls", "How far is Berlin from Vienna? Use the tool.", _object(start=_TEXT, end=_TEXT), "distance"),
)


def probes(offers: Sequence[str]) -> tuple[Probe, ...]:
    return tuple(probe for probe in PROBES if probe.offer in offers)


def claims(offers: Sequence[str]) -> Iterator[Claim]:
    """One claim for each offer."""
    claim = partial(Claim, plane="function", source="our own requests", minimum_sample=4)
    if "json-schema" in offers:
        yield claim(
            name="json-schema",
            statement="answers that must fit a JSON schema do, also two at a time and streamed",
            metric="contracts.json-schema",
            relation="equals",
            expected=1.0,
            remedy="structured output is not enforced: check the grammar backend, and its support beside speculation",
        )
    if "tool-calls" in offers:
        yield claim(
            name="tool-calls",
            statement="a question that needs a tool brings a call of it with fitting arguments",
            metric="contracts.tool-calls",
            relation="at-least",
            expected=0.75,
            remedy="set the tool-call parser that fits the model and its chat template",
        )


def facts(records: Sequence[Mapping[str, Any]], cited: tuple[str, ...]) -> Iterator[Fact]:
    """For each offer the share of its probes that were kept; an answer that did not come keeps nothing."""
    for offer in ("json-schema", "tool-calls"):
        asked = [record for record in records if record.get("offer") == offer]
        if asked:
            broken = [record for record in asked if record.get("broken") != ""]
            text = f"{len(asked) - len(broken)} of {len(asked)} kept"
            text += f"; {broken[0].get('prompt', '')!r}: {broken[0].get('broken')}" if broken else ""
            share = (len(asked) - len(broken)) / len(asked)
            yield Fact(metric=f"contracts.{offer}", value=share, sample=len(asked), text=text, evidence=cited)


def _misfit(text: str, schema: Mapping[str, Any], named: str) -> str:
    from jsonschema import Draft202012Validator  # a tenth of a second that only a proof needs

    try:
        found = json.loads(text)
    except ValueError:
        return f"{named}: no JSON, but {text.strip()[:60]!r}"
    error = next(iter(Draft202012Validator(schema).iter_errors(found)), None)
    if error is None:
        return ""
    where = "/".join(map(str, error.absolute_path))
    return f"{named}{f' at {where}' if where else ''}: {error.message[:120]}"
