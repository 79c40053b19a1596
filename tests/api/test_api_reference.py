"""docs/reference/http-api.md and the OpenAPI document say the same, and what the page shows works as it stands."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator
from prometheus_client import Metric

from deployments.api import headers, problems, refusals
from deployments.api.app import ROUTERS
from deployments.api.document import document_of
from deployments.api.guard import SCOPES
from deployments.api.metrics import Snapshot
from deployments.api.settings import ApiSettings
from tests.api.served import Served, served

PAGE = (Path(__file__).parents[2] / "docs/reference/http-api.md").read_text("utf-8")
SETTINGS = (Path(__file__).parents[2] / "docs/reference/settings.md").read_text("utf-8")
SOURCES = "".join(Path(str(module.__file__)).read_text("utf-8") for module in (problems, refusals, headers))


def table(name: str, page: str = PAGE) -> list[list[str]]:
    inside = page.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in inside.splitlines() if line[:2] == "| "]
    return rows[1:]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    app = FastAPI(title="interlock", version="0", generate_unique_id_function=lambda route: route.name)
    for router in ROUTERS:
        app.include_router(router)
    return document_of(app)


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_the_page_lists_every_route_with_its_scopes_and_whether_it_takes_a_key(document: dict[str, Any]) -> None:
    shown = {codes(row[0])[0]: (codes(row[1]), row[2] == "yes") for row in table("routes")}
    takes = "Idempotency-Key"
    wanted = {
        name: (operation.get(SCOPES, []), takes in {p["name"] for p in operation.get("parameters", ())})
        for name, operation in operations(document)
    }
    assert shown == wanted
    assert all(row[3] for row in table("routes"))


def test_every_operation_is_described_and_secured_and_says_what_it_answers(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert operation["description"], name
        assert operation["summary"], name
        guarded = SCOPES in operation
        assert ("security" in operation) == guarded, name
        if guarded:
            assert {"401", "403", "422", "429", "503"} <= set(operation["responses"]), name
            assert operation["security"] == [{"bearer": operation[SCOPES]}], name


def test_every_schema_has_an_example_that_fits_it(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert len(schemas) > 20
    for name, schema in schemas.items():
        assert schema.get("examples"), name
        whole = {**schema, "components": document["components"]}
        for shown in schema["examples"]:
            Draft202012Validator(whole).validate(shown)


def test_the_document_stands_by_itself(document: dict[str, Any]) -> None:
    """No reference leads out of it, and each leads somewhere."""
    references = set(re.findall(r"'\$ref': '([^']+)'", repr(document)))
    assert {r for r in references if not r.startswith("#/components/schemas/")} == set()
    assert {r.rpartition("/")[2] for r in references} <= set(document["components"]["schemas"])


def test_the_page_lists_the_status_of_every_error() -> None:
    shown = {name: int(row[1]) for row in table("statuses") for name in codes(row[0])}
    assert shown == {cls.__name__: status for cls, status in problems.STATUS.items()}


def test_the_page_lists_every_refusal_of_the_api() -> None:
    shown = {(codes(row[0])[0], int(row[1])) for row in table("refusals")}
    raised = {(code, int(status)) for status, code in re.findall(r'\(\s*(4\d\d|5\d\d),\s*"([a-z-]+)"', SOURCES)}
    assert shown == raised - {("http-error", 500)}


def test_the_page_lists_every_metric_with_its_labels() -> None:
    families: list[Metric] = list(Snapshot([], [], [], 0).collect())
    shown = {codes(row[0])[0].removesuffix("_total"): (row[1], row[2].replace(" ", "")) for row in table("metrics")}
    wanted = {f.name: (f.type, ",".join(getattr(f, "_labelnames", ()))) for f in families}
    assert shown == wanted


@pytest.mark.parametrize("name", ApiSettings.model_fields)
def test_a_setting_is_documented_with_its_variable_and_default(name: str) -> None:
    rows = {codes(row[0])[0]: row for row in table("api settings", SETTINGS)}
    _, setting, default, means = rows[f"INTERLOCK_API_{name}".upper()]
    assert setting == f"`{name}`"
    value = ApiSettings.model_fields[name].default
    assert (
        default.startswith("empty")
        if value == ()
        else codes(default) == [f"{value:g}".replace("1.04858e+06", "1048576")]
    )
    assert means


def test_no_setting_is_documented_that_does_not_exist() -> None:
    assert {codes(row[1])[0] for row in table("api settings", SETTINGS)} == set(ApiSettings.model_fields)


BLOCKS = dict(re.findall(r"```(?:sh|python)\n# (\w+)(.*?)```", PAGE, re.DOTALL))
"""What is shown, by the first word of its first line."""


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with served(sqlite_url, tmp_path / "marks") as ready:
        night = ready.scene.manifest({"speculative_num_steps": 3, "speculative_num_draft_tokens": 4})
        ready.shelf.texts["qwen35-122b", "night"] = night
        (tmp_path / "manifest.yaml").write_text(ready.scene.manifest(), "utf-8")
        yield ready


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_what_the_page_shows_works_as_it_stands(server: Served, tmp_path: Path) -> None:
    """A rollout from Python, one by curl that is followed, and back by one request."""
    assert set(BLOCKS) == {"rollback", "rollout", "follow", "A"}
    by_python = await run(server, tmp_path, sys.executable, "-W", "error", "-c", f"# A{BLOCKS['A']}")
    assert by_python.splitlines()[-1] == "promoted"
    assert "plan-made" in by_python
    first = await run(server, tmp_path, "bash", "-euc", BLOCKS["rollout"])
    again = await run(server, tmp_path, "bash", "-euc", BLOCKS["rollout"])
    assert first == again
    assert '"purpose":"rollout"' in first
    followed = await run(server, tmp_path, "bash", "-euc", BLOCKS["follow"])
    assert followed.rstrip().endswith("event: rollout-concluded")
    assert await server.ended(re.findall('"rollout":"([^"]+)"', first)[0]) == "promoted"
    back = await run(server, tmp_path, "bash", "-euc", BLOCKS["rollback"])
    assert '"purpose":"rollback"' in back
    assert await server.ended(re.findall('"rollout":"([^"]+)"', back)[0]) == "promoted"


async def run(server: Served, folder: Path, *argv: str) -> str:
    given = {"INTERLOCK_URL": server.url, "INTERLOCK_TOKEN": server.tokens["all"], "NO_PROXY": "127.0.0.1"}
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=folder,
        env={**os.environ, **given},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()
