"""A Prefect server for the tests that need a real one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.own_prefect import OwnPrefect, own_prefect


@pytest.fixture
def prefect_server(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[OwnPrefect]:
    """Nothing of its settings outlives the test."""
    base = tmp_path_factory.getbasetemp()
    with own_prefect(tmp_path / "prefect", base if worker_id == "master" else base.parent) as made:
        yield made
