"""YAML text to plain values, with the line of every field, and with the traps of YAML told instead of fallen into.

Only what YAML 1.1 and 1.2 read alike is read: `no`, `010`, `1:30` and their kind are mistakes unless they are quoted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

Path = tuple[str | int, ...]
MAX_CHARACTERS, MAX_DEPTH, MAX_ALIASES, MAX_NODES = 256 * 1024, 20, 50, 10_000

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?(0|[1-9]\d*)")
_FLOAT = re.compile(r"[-+]?(\d+\.\d*|\.\d+)([eE][-+]\d+)?|\.nan|[-+]?\.inf")
_LOOSE_BOOLEAN = re.compile(r"(yes|no|on|off|y|n)", re.I)
_LOOSE_NUMBER = re.compile(r"[-+]?(0\d+|0[xX][\da-fA-F_]+|0[oObB][0-7_]+|\d[\d_]*_[\d_]*|\d[\d_]*(:[0-5]?\d)+(\.\d*)?)")
_LOOSE_FLOAT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+|[-+]?\.\d+[eE]\d+|\.NaN|\.NAN|[-+]?\.(Inf|INF)")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([Tt ].*)?")
_COLLECTIONS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
_SCALARS = {
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value")
}


@dataclass(slots=True)
class Document:
    """A YAML document: its value, the line (from 1) of each path, and the mistakes found while reading it."""

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    mistakes: list[tuple[int, Path, str]] = field(default_factory=list)
    nodes: int = 0

    def line(self, path: Path) -> int:
        """The line of the path, or of its nearest parent that stands in the text."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class UnreadableError(Exception):
    """The text is no YAML document within the limits; `line` counts from 1."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(sentence)
        self.line, self.sentence = line, sentence


def read_yaml(text: str) -> Document:
    """The text's single document. Raises UnreadableError where the text cannot be read at all."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadableError(1, f"is longer than {MAX_CHARACTERS // 1024} Ki characters; expected a manifest")
    try:
        _check_limits(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise UnreadableError(line, f"is no YAML at column {column}: {_problem(error)}; expected YAML") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UnreadableError(line, "has a character that YAML does not allow; expected printable text") from error
    document = Document()
    if node is not None:
        document.value = _value(document, node, ())
    return document


def _problem(error: yaml.MarkedYAMLError) -> str:
    return " ".join(filter(None, (error.problem, error.context))).replace("\n", " ")


def _line(marked: yaml.Event | yaml.Node) -> int:
    return marked.start_mark.line + 1 if marked.start_mark else 1


def _check_limits(text: str) -> None:
    depth = aliases = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = _line(event)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        aliases += isinstance(event, yaml.AliasEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        if depth > MAX_DEPTH:
            raise UnreadableError(line, f"is nested deeper than {MAX_DEPTH} levels; expected a manifest")
        if aliases > MAX_ALIASES:
            raise UnreadableError(line, f"has more than {MAX_ALIASES} aliases; expected fewer")
        if documents > 1:
            raise UnreadableError(line, "begins a second document; expected one manifest in a file")


def _value(document: Document, node: yaml.Node, path: Path) -> Any:
    line = _line(node)
    document.lines.setdefault(path, line)
    document.nodes += 1
    if document.nodes > MAX_NODES or len(path) > MAX_DEPTH:
        raise UnreadableError(line, "grows beyond measure through its aliases; expected a manifest")
    if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
        document.mistakes.append((line, path, f"has the tag `{node.tag}`; expected a plain value"))
    match node:
        case yaml.MappingNode():
            return dict(_pairs(document, node, path))
        case yaml.SequenceNode():
            return [_value(document, item, (*path, index)) for index, item in enumerate(node.value)]
    value, wrong = read_scalar(node) if isinstance(node, yaml.ScalarNode) else (None, "is no plain value")
    if wrong:
        document.mistakes.append((line, path, wrong))
    return value


def _pairs(document: Document, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, Any]]:
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = _line(key_node)
        key, wrong = read_scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else (None, "")
        if not isinstance(key, str) or wrong or key == "<<":
            name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "a collection"
            document.mistakes.append((line, path, f"`{name}` cannot be a key; expected text, in quotes if need be"))
        elif key in seen:
            sentence = f"stands twice, first in line {seen[key]}; expected it once"
            document.mistakes.append((line, (*path, key), sentence))
        else:
            seen[key] = line
            document.lines[(*path, key)] = line
            yield key, _value(document, value_node, (*path, key))


def read_scalar(node: yaml.ScalarNode) -> tuple[Any, str]:
    """A scalar's value, and what is wrong with it if it is ambiguous (the value is then its text)."""
    text: str = node.value
    if node.tag not in _SCALARS:
        return text, f"has the tag `{node.tag}`; expected a plain value"
    if node.style is not None:
        return text, ""
    if _LOOSE_BOOLEAN.fullmatch(text):
        meant = "true" if text.lower() in ("yes", "on", "y") else "false"
        return text, f'`{text}` is a boolean to some readers of YAML; expected {meant}, or "{text}" in quotes'
    if not _FLOAT.fullmatch(text) and any(loose.fullmatch(text) for loose in (_LOOSE_NUMBER, _LOOSE_FLOAT, _DATE)):
        return text, f'`{text}` is read differently by readers of YAML; expected a plain number, or "{text}" in quotes'
    return _plain(text), ""


def _plain(text: str) -> Any:
    if _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text) and len(text) <= 19:
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text.replace(".inf", "inf").replace(".nan", "nan"))
    return text
