"""Tests of a real server run where somebody asks for them (`make serve`): each starts one, some with Prefect's."""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = os.environ.get("INTERLOCK_SERVE") == "1"
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("serve") and not wanted:
            item.add_marker(pytest.mark.skipif(True, reason="servers are started with INTERLOCK_SERVE=1"))
