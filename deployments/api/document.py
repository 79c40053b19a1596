"""The OpenAPI document: what FastAPI makes of the routes, and what it cannot know."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from deployments.api import schemas, told
from deployments.api.guard import KEYED
from deployments.api.schemas import EventPage, Problem

DESCRIPTION = """\
Takes self-hosted LLM services from one configuration to another, proves it, and puts the old one back when the proof
fails. Errors are problem documents (RFC 9457). Every request needs a bearer token; `interlock token make` makes one.
"""


def document_of(app: FastAPI) -> dict[str, Any]:
    """The document, made once."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
        components = made.setdefault("components", {}).setdefault("schemas", {})
        for model in (Problem, EventPage):
            components.update(_components(model))
        for name, shown in _examples().items():
            if name in components:
                components[name]["examples"] = shown
        scheme = {"type": "http", "scheme": "bearer", "description": "A token of `interlock token make`."}
        made["components"]["securitySchemes"] = {"bearer": scheme}
        for path in made["paths"].values():
            for operation in path.values():
                operation.pop(KEYED, None)
                for parameter in operation.get("parameters", ()):
                    parameter["schema"] = _without_null(parameter["schema"])
        app.openapi_schema = made
    return app.openapi_schema


def _examples() -> dict[str, Any]:
    """Of each model that is answered with. FastAPI leaves every null out of its document, also of examples."""
    known = [*vars(schemas).values(), *vars(told).values()]
    models = {m.__name__: m for m in known if isinstance(m, type) and issubclass(m, BaseModel)}
    extras = {name: model.model_config.get("json_schema_extra") for name, model in models.items()}
    return {name: extra["examples"] for name, extra in extras.items() if isinstance(extra, dict)}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that may be left out: nobody can send null in a header or a query."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {**{name: value for name, value in schema.items() if name != "anyOf"}, **kinds[0]}


def _components(model: type[BaseModel]) -> dict[str, Any]:
    """A model and those in it, as components."""
    whole = model.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    inner = whole.pop("$defs", {})
    return {**inner, model.__name__: whole}
