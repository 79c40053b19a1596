"""Where a validation error of the manifest's models is: the field as it stands in the text, and what describes it."""

import types
from collections.abc import Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from state.manifest.model import Manifest

Located = tuple[tuple[str | int, ...], type[BaseModel], FieldInfo | None]


def locate(location: Sequence[str | int]) -> Located:
    """The path without pydantic's own parts, the model that the last part belongs to, and the nearest field."""
    path: list[str | int] = []
    owner: type[BaseModel] = Manifest
    found: FieldInfo | None = None
    here: Any = Manifest
    for part in location:
        tagged = _tagged(here)
        if part in tagged:
            here = tagged[str(part)]
        elif part != "[key]":
            path.append(part)
            model = _model(here)
            if model is not None:
                owner, found = model, model.model_fields.get(str(part))
            here = found.annotation if model is not None and found is not None else _element(here)
    return tuple(path), owner, found


def claim_names() -> list[str]:
    """The names of all claims that a manifest may make."""
    return list(_tagged(_element(Manifest.model_fields["claims"].annotation)))


def _members(annotation: Any) -> tuple[Any, ...]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _members(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return tuple(member for arg in get_args(annotation) for member in _members(arg) if member is not type(None))
    return (annotation,)


def _model(annotation: Any) -> type[BaseModel] | None:
    members = _members(annotation)
    only = members[0] if len(members) == 1 else None
    return only if isinstance(only, type) and issubclass(only, BaseModel) else None


def _element(annotation: Any) -> Any:
    """What a list or a mapping holds; None where it is neither."""
    for member in _members(annotation):
        if get_origin(member) in (tuple, dict):
            return get_args(member)[1 if get_origin(member) is dict else 0]
    return None


def _tagged(annotation: Any) -> dict[str, Any]:
    models = [m for m in _members(annotation) if isinstance(m, type) and issubclass(m, BaseModel)]
    if len(models) < 2:
        return {}
    return {get_args(model.model_fields["claim"].annotation)[0]: model for model in models}
