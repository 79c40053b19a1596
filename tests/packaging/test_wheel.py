"""The wheel, built by way of the source distribution: what is in it, and that it works outside the checkout."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).parents[2]
ROOMS = ("deployments", "flows", "tasks", "state")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)], cwd=out, home=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel; the dependencies are this environment's, but not its .pth
    files, so that the checkout is not in sight."""
    home = tmp_path_factory.mktemp("installed")
    run([sys.executable, "-m", "venv", "--without-pip", str(home / "env")], cwd=home, home=home)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "env/bin/python"), "install"]
    run([*pip, "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", str(wheel)], cwd=home, home=home)
    (packages,) = (home / "env/lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(
        "\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    )
    return home / "env/bin"


def run(argv: Sequence[str], *, cwd: Path, home: Path) -> str:
    """What was printed; fails with it if the exit code is not 0."""
    environment = {"PATH": os.defpath, "HOME": str(home), "INTERLOCK_DATA_DIR": str(home / "data")}
    done = subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sources(folder: str) -> set[str]:
    files = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_the_wheel_holds_every_file_of_the_rooms_and_the_migrations_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    migrations = {name.replace("alembic/", "state/_migrations/", 1) for name in sources("alembic")}
    assert {"state/_migrations/env.py", "tasks/practice/engine/__main__.py", "deployments/cli.py"} <= names
    assert names == migrations.union(*map(sources, ROOMS))


def test_the_wheel_names_its_licence_program_and_pythons(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        text = {Path(name).name: archive.read(name).decode() for name in archive.namelist() if ".dist-info/" in name}
    assert "interlock = deployments.cli:main" in text["entry_points.txt"]
    assert "License-Expression: Apache-2.0" in text["METADATA"]
    assert "Requires-Python: >=3.11" in text["METADATA"]
    assert "Version 2.0, January 2004" in text["LICENSE"]


def test_an_installed_wheel_brings_a_store_to_its_schema_from_anywhere(installed: Path, tmp_path: Path) -> None:
    where = run([str(installed / "python"), "-c", "import state; print(state.__file__)"], cwd=Path("/"), home=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)
    run([str(installed / "interlock"), "db", "upgrade"], cwd=Path("/"), home=tmp_path)
    run([str(installed / "interlock"), "db", "check"], cwd=Path("/"), home=tmp_path)
    assert (tmp_path / "data" / "interlock.db").is_file()
