"""The rooms are top-level packages: nobody else may own their names, and `alembic` stays the library's."""

from importlib.metadata import packages_distributions
from pathlib import Path

import alembic
import pytest

ROOMS = ("deployments", "flows", "tasks", "state")


def strangers(owners: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: who for name in ROOMS if (who := [d for d in owners.get(name, ()) if d != "interlock"])}


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        pytest.param({"state": ["interlock"], "rich": ["rich"]}, {}, id="ours-alone"),
        pytest.param({"state": ["interlock", "other"]}, {"state": ["other"]}, id="shared-with-another"),
        pytest.param({"tasks": ["other"]}, {"tasks": ["other"]}, id="another-alone"),
    ],
)
def test_a_stranger_is_seen(owners: dict[str, list[str]], expected: dict[str, list[str]]) -> None:
    assert strangers(owners) == expected


def test_no_installed_distribution_ships_a_package_with_a_rooms_name() -> None:
    assert strangers({name: list(who) for name, who in packages_distributions().items()}) == {}


def test_the_folder_of_migrations_does_not_hide_the_library() -> None:
    root = Path(__file__).parents[2]
    assert not (root / "alembic" / "__init__.py").exists()
    assert not Path(alembic.__file__).is_relative_to(root / "alembic")
