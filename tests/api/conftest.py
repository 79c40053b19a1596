from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.served import Served, served


@pytest.fixture
async def server(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with served(sqlite_url, tmp_path / "marks") as ready:
        yield ready
