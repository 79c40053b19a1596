"""A manifest from its text, or every mistake in it, each with its line, its field and what was expected."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from state.errors import ManifestInvalid
from state.manifest.conflicts import Conflict, conflicts
from state.manifest.location import claim_names, locate
from state.manifest.model import Manifest, path_text
from state.manifest.quantities import show
from state.manifest.yaml_text import Document, Path, UnreadableError, read_yaml
from state.manifest.zones import ZoneJudge, zone_conflicts

Mistake = tuple[int, Path, str]
"""Line, field, and the sentence: what is wrong; what was expected."""


def load_manifest(text: str, path: str, zones: ZoneJudge | None = None) -> Manifest:
    """The manifest that `text` holds; `path` only names it in sentences. `zones` judges the time zones of a schedule;
    without it each is taken. Raises ManifestInvalid with all mistakes."""
    try:
        document = read_yaml(text)
    except UnreadableError as error:
        raise ManifestInvalid(path, [f"{path}:{error.line}: the file {error.sentence}"]) from error
    if not isinstance(document.value, dict):
        raise ManifestInvalid(path, [f"{path}:1: the file holds {show(document.value)}; expected a mapping of fields"])
    manifest, mistakes = _validated(document)
    if zones is not None:
        mistakes += _told(document, zone_conflicts(document.value, zones))
    if manifest is None or mistakes:
        raise ManifestInvalid(path, [_sentence(path, mistake) for mistake in _in_order(mistakes)])
    return manifest


def _sentence(file: str, mistake: Mistake) -> str:
    line, path, sentence = mistake
    return f"{file}:{line}: {path_text(path) or 'the file'}: {sentence}"


def _in_order(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """By line, one for each field: the first mistake found in a field explains those after it."""
    first: dict[Path, Mistake] = {}
    for mistake in mistakes:
        first.setdefault(mistake[1], mistake)
    return sorted(first.values(), key=lambda mistake: (mistake[0], path_text(mistake[1])))


def _validated(document: Document) -> tuple[Manifest | None, list[Mistake]]:
    mistakes = list(document.mistakes)
    manifest = None
    try:
        manifest = Manifest.model_validate(document.value)
    except ValidationError as error:
        mistakes += _field_mistakes(document, error.errors(include_url=False))
    mistakes += _told(document, conflicts(document.value))
    return manifest, mistakes


def _told(document: Document, found: Iterable[Conflict]) -> Iterator[Mistake]:
    for conflict in found:
        yield document.line(conflict.path), conflict.path, conflict.sentence


def _field_mistakes(document: Document, errors: Sequence[ErrorDetails]) -> Iterator[Mistake]:
    for error in errors:
        path, owner, found = locate(error["loc"])
        if path:  # without one it is the manifest's own check, whose conflicts are told with their lines anyway
            yield document.line(path), path, _explain(error, path, owner, found)


def _explain(error: ErrorDetails, path: Path, owner: type[BaseModel], found: FieldInfo | None) -> str:
    kind, value = error["type"], error["input"]
    expected = f"expected {found.description}" if found and found.description else "expected something else"
    match kind:
        case "manifest":
            return error["msg"]
        case "missing":
            return f"is missing; {expected}"
        case "extra_forbidden":
            return _unknown(str(path[-1]), list(owner.model_fields))
        case "union_tag_invalid":
            return _unknown_claim(value)
        case "union_tag_not_found":
            return "names no claim; expected `claim` with one of " + ", ".join(claim_names())
        case "too_short":
            return f"is empty; {expected}"
    if isinstance(value, (bool, int, float)) and kind == "string_type":
        return f"{show(value)} is {_kind(value)}; expected text, so put it in quotes"
    return f"{show(value)} does not fit; {expected}"


def _unknown(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"is not known here; did you mean `{close[0]}`?"
    return f"is not known here; expected one of {', '.join(known)}"


def _unknown_claim(value: Any) -> str:
    name = value.get("claim") if isinstance(value, Mapping) else value
    return f"{show(name)}: the claim {_unknown(str(name), claim_names())}"


def _kind(value: Any) -> str:
    return "a boolean" if isinstance(value, bool) else "a number"
