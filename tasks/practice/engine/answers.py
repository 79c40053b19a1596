"""Right answers to questions that can be checked: sums, capitals, spelling, repeating, JSON objects."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping

_CAPITALS = {
    "france": "Paris", "germany": "Berlin", "italy": "Rome", "spain": "Madrid", "portugal": "Lisbon",
    "japan": "Tokyo", "china": "Beijing", "india": "New Delhi", "canada": "Ottawa", "australia": "Canberra",
    "egypt": "Cairo", "kenya": "Nairobi", "poland": "Warsaw", "austria": "Vienna", "hungary": "Budapest",
    "greece": "Athens", "sweden": "Stockholm", "norway": "Oslo", "finland": "Helsinki", "denmark": "Copenhagen",
    "ireland": "Dublin", "switzerland": "Bern", "belgium": "Brussels", "brazil": "Brasilia",
    "argentina": "Buenos Aires", "chile": "Santiago", "peru": "Lima", "mexico": "Mexico City", "turkey": "Ankara",
    "russia": "Moscow", "ukraine": "Kyiv", "thailand": "Bangkok", "vietnam": "Hanoi", "iceland": "Reykjavik",
    "the united kingdom": "London", "england": "London", "the united states": "Washington, D.C.",
    "south korea": "Seoul", "the netherlands": "Amsterdam", "the czech republic": "Prague",
}  # fmt: skip
_FACTS = (
    (r"days (?:(?:are there )?in a week|does a week have)", "7"),
    (r"hours (?:are there )?in a day", "24"),
    (r"months (?:are there )?in a year", "12"),
    (r"minutes (?:are there )?in an hour", "60"),
    (r"legs does a spider", "8"),
    (r"legs does a (?:dog|cat|horse)", "4"),
    (r"colou?r (?:is|of) (?:the|a clear) (?:daytime )?sky", "Blue"),
    (r"opposite of (?:the word )?['\"]?hot\b", "Cold"),
    (r"opposite of (?:the word )?['\"]?up\b", "Down"),
    (r"opposite of (?:the word )?['\"]?big\b", "Small"),
    (r"chemical (?:formula|symbol) (?:for|of) water", "H2O"),
    (r"largest planet", "Jupiter"),
    (r"red planet", "Mars"),
    (r"planet .*closest to the sun", "Mercury"),
    (r"freez\w* point of water", "0 degrees Celsius"),
)
_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "plus": operator.add, "-": operator.sub, "−": operator.sub, "minus": operator.sub,
    "*": operator.mul, "x": operator.mul, "×": operator.mul, "times": operator.mul, "multiplied by": operator.mul,
    "/": operator.floordiv, "÷": operator.floordiv, "divided by": operator.floordiv,
}  # fmt: skip
_SUM = re.compile(r"(-?\d+)\s*(\+|-|−|\*|×|x|/|÷|plus|minus|times|multiplied by|divided by)\s*(-?\d+)", re.I)
_REPLY_QUOTED = re.compile(
    r"(?:reply|answer|respond|say)\b[^.\n]*?(?:with |:\s*)?(?:exactly|only|just|the (?:single )?word)"
    r"[^\"'`\n]*[\"'`]([^\"'`\n]+)[\"'`]",
    re.I,
)
_REPLY_WORD = re.compile(
    r"(?:reply|answer|respond) (?:with )?(?:exactly|only|just|the (?:single )?word)(?: the word)?:? (\w+)\s*[.!]?\s*$",
    re.I,
)
_WORD = r"['\"`“”‘’]?([\w-]+)['\"`“”‘’]?"


def answer(prompt: str, schema: Mapping[str, object] | None = None, *, json_wanted: bool = False) -> str | None:
    """The right answer, or None where the stand-in knows none. `schema` is a JSON schema that the answer must fit."""
    if schema is not None:
        return json.dumps(_of_schema(schema, prompt))
    if json_wanted or re.search(r"\bJSON\b", prompt):
        return json.dumps(_object(prompt))
    for rule in (_exactly, _spell, _repeat, _count, _reverse, _arithmetic, _capital, _fact):
        found = rule(prompt)
        if found is not None:
            return found
    return None


def _exactly(prompt: str) -> str | None:
    quoted = _REPLY_QUOTED.search(prompt)
    if quoted:
        return quoted[1]
    plain = _REPLY_WORD.search(prompt)
    return plain[1] if plain and plain[1].lower() not in ("number", "word", "it", "once") else None


def _spell(prompt: str) -> str | None:
    match = re.search(rf"spell (?:out )?(?:the word )?{_WORD}", prompt, re.I)
    if match is None:
        return None
    separator = next(
        (mark for name, mark in (("hyphen", "-"), ("dash", "-"), ("comma", ", ")) if name in prompt.lower()), " "
    )
    return separator.join(match[1])


def _repeat(prompt: str) -> str | None:
    match = re.search(
        rf"(?:repeat|say|write) (?:the word |the phrase )?{_WORD},? (?:exactly )?(\w+) times", prompt, re.I
    )
    if match:
        words = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
        times = int(match[2]) if match[2].isdigit() else words.get(match[2].lower(), 1)
        return " ".join([match[1]] * min(times, 1000))
    match = re.search(r"(?:repeat|copy|echo)\b[^:\n]*:\s*(.+)", prompt, re.I | re.S)
    if match:
        return match[1].strip().strip("\"'`")
    match = re.search(rf"(?:repeat|echo) (?:the|this) word:? {_WORD}", prompt, re.I)
    return match[1] if match else None


def _count(prompt: str) -> str | None:
    match = re.search(r"count (?:up )?from (\d+) to (\d+)", prompt, re.I)
    if match is None:
        return None
    separator = ", " if "comma" in prompt.lower() else " "
    return separator.join(str(n) for n in range(int(match[1]), min(int(match[2]), int(match[1]) + 2000) + 1))


def _reverse(prompt: str) -> str | None:
    match = re.search(rf"reverse (?:the )?(?:word|string|letters of)(?: the word)? {_WORD}", prompt, re.I)
    return match[1][::-1] if match else None


def _arithmetic(prompt: str) -> str | None:
    match = _SUM.search(prompt)
    if match is None:
        return None
    left, right = int(match[1]), int(match[3])
    sign = match[2].lower()
    return None if right == 0 and sign in ("/", "÷", "divided by") else str(_OPERATORS[sign](left, right))


def _capital(prompt: str) -> str | None:
    match = re.search(r"capital (?:city )?of ([\w ]+)", prompt, re.I)
    if match is None:
        return None
    place = match[1].lower()
    return next(
        (city for name, city in _CAPITALS.items() if re.match(rf"(?:the )?{name.removeprefix('the ')}\b", place)), None
    )


def _fact(prompt: str) -> str | None:
    return next((text for pattern, text in _FACTS if re.search(pattern, prompt, re.I)), None)


def _object(prompt: str) -> object:
    """The object that the prompt asks for: one it spells out, else one with the keys that it names."""
    for match in re.finditer(r"\{.*\}", prompt, re.S):
        try:
            return json.loads(match[0])
        except ValueError:
            continue
    pairs = re.findall(
        r"[\"'`](\w+)[\"'`]\s*(?:set to|with (?:the )?value|equal to|is|=|:)\s*[\"'`]?([\w.-]+)[\"'`]?", prompt
    )
    if pairs:
        return {key: _literal(value) for key, value in pairs}
    keys = re.findall(r"[\"'`](\w+)[\"'`]", prompt) or re.findall(
        r"(?:keys?|fields?) (\w+)(?:(?:,| and) (\w+))?", prompt
    )
    names = [name for key in keys for name in ((key,) if isinstance(key, str) else key) if name]
    return {name: _value(name, prompt) for name in names} or {"answer": answer_text(prompt) or "ok"}


def _literal(text: str) -> object:
    text = text.rstrip(".")
    try:
        return json.loads(text.lower() if text.lower() in ("true", "false", "null") else text)
    except ValueError:
        return text


def answer_text(prompt: str) -> str | None:
    return next((found for rule in (_arithmetic, _capital, _fact) if (found := rule(prompt)) is not None), None)


def _value(key: str, prompt: str) -> object:
    known = answer_text(prompt)
    if re.search(r"sum|result|count|number|age|total|population|year|temperature", key, re.I):
        return int(known) if known is not None and known.lstrip("-").isdigit() else 42
    if re.search(r"^(?:is|has|ok|valid|success|done)", key, re.I):
        return True
    return _capital(prompt) or "Ada" if re.search(r"name|city|capital", key, re.I) else known or "ok"


def _of_schema(schema: Mapping[str, object], prompt: str, key: str = "answer") -> object:
    values = schema.get("enum")
    if isinstance(values, list) and values:
        return values[0]
    kind = schema.get("type", "object")
    properties, items = schema.get("properties", {}), schema.get("items", {})
    if kind == "object" and isinstance(properties, dict):
        return {name: _of_schema(part, prompt, name) for name, part in properties.items()}
    if kind == "array" and isinstance(items, dict):
        return [_of_schema(items, prompt, key)]
    value = _value(key, prompt)
    fallback: Mapping[object, object] = {
        "string": str(value),
        "integer": 42,
        "number": 42,
        "boolean": True,
        "null": None,
    }
    if kind in ("integer", "number") and isinstance(value, int):
        return int(value)
    return fallback.get(kind, value)
