"""Schemathesis against the OpenAPI document: no 5xx, and no answer that the document does not have.

`make test` gives it a bounded run from a fixed seed; `make fuzz-api` as long a one as is asked (SECONDS).
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.served import Served, served

CONFIG = Path(__file__).parent / "schemathesis.toml"
SECONDS = int(os.environ.get("INTERLOCK_FUZZ_API_S", "0"))
BOUNDED = ("--max-examples", "5", "--seed", "20261130", "--phases", "examples,coverage,fuzzing")
LONG = ("--max-time", str(SECONDS), "--phases", "examples,coverage,fuzzing,stateful")
LIMIT_S = 240


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with served(sqlite_url, tmp_path / "marks", started=False) as ready:
        ready.shelf.texts["qwen35-122b", "night-vm"] = ready.scene.manifest()
        yield ready


async def test_no_answer_is_a_fault_or_undocumented(server: Served, tmp_path: Path) -> None:
    async with server.client() as client:
        begun = await client.post("/api/v1/verify", json={"manifest": server.scene.manifest()})
    await server.ended(begun.json()["rollout"])
    code, said = await schemathesis(server, tmp_path, *(LONG if SECONDS else BOUNDED))
    assert code == 0, said[-6000:]
    selected, tested = re.search(r"Selected: (\d+)/\d+\s+Tested: (\d+)", said).groups()  # type: ignore[union-attr]
    assert selected == tested
    assert int(tested) >= 20
    generated = re.search(r"Test cases:\s+(\d+) generated", said)
    assert generated
    assert int(generated[1]) >= 500


async def schemathesis(server: Served, folder: Path, *words: str) -> tuple[int, str]:
    """Its exit code, and what it said, each line cut to what a person would read."""
    program = Path(sys.executable).parent / "st"
    argv = [
        str(program),
        "--config-file",
        str(CONFIG),
        "run",
        f"{server.url}/api/v1/openapi.json",
        "--header",
        f"Authorization: Bearer {server.tokens['all']}",
        "--generation-database",
        "none",
        "--no-color",
        "--warnings",
        "off",
        *words,
    ]
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
    )
    async with asyncio.timeout(LIMIT_S + SECONDS):
        out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, "\n".join(line[:300] for line in out.decode(errors="replace").splitlines())
