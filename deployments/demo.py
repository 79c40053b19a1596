"""The demonstration: on a practice host over real SSH, one rollout that is proven and one that is put back."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from deployments import past, run
from deployments.interrupts import INTERRUPTED
from flows import requests
from flows.prefect_home import PrefectHome
from flows.settings import Settings
from state.errors import UsageInvalid
from state.manifest.load import load_manifest
from state.rollout import Rollout
from state.store import migrate
from tasks.practice.scene import Scene, scene

IGNORED = {"fault": "flag-ignored", "when": {"speculative_algorithm": "EAGLE3"}}
"""The practice engine takes this algorithm without a word and runs without speculation, as operators have seen."""


async def demo(console: Console, *, as_json: bool, bare: bool, keep: str) -> int:
    """Exit 0 if the first rollout was promoted, the second rolled back, and replay agrees with both."""
    with _folder(keep) as folder, _settings(folder):
        await migrate.upgrade(Settings().store_url)
        async with scene(folder, faults=[IGNORED]) as made:
            os.environ["INTERLOCK_SSH_KEY"] = str(made.key)
            await made.until_it_answers()
            async with run.prefect_beside(bare) as home:
                first = await _roll_out(console, made, home, "1-mtp", {}, _FIRST, as_json)
                if first.cancelled:
                    return INTERRUPTED
                second = await _roll_out(console, made, home, "2-ignored", _SECOND_ARGUMENTS, _SECOND, as_json)
        code = await _look_back(console, [first, second], as_json)
    expected = [r.concluded.outcome if r.concluded else "" for r in (first, second)] == ["promoted", "rolled-back"]
    return code if expected else 1


_FIRST = "Switch MTP on (NEXTN, 5 steps) and give four GPUs to the guest"
_SECOND = "Try EAGLE3, a flag that this engine ignores without a word: active, HTTP 200, and no speculation"
_SECOND_ARGUMENTS = {"speculative_algorithm": "EAGLE3"}


async def _roll_out(
    console: Console,
    made: Scene,
    home: PrefectHome | None,
    name: str,
    arguments: dict[str, str],
    reason: str,
    as_json: bool,
) -> Rollout:
    path = Settings().data_dir / f"{name}.yaml"
    path.write_text(made.manifest(arguments), encoding="utf-8")
    if not as_json:
        console.rule(f"[bold]{reason}[/]")
        console.print(f"interlock apply {path.name}", style="bold")
    async with run.watching(console, as_json) as ports:
        manifest = load_manifest(path.read_text(encoding="utf-8"), str(path))
        requested = requests.from_manifest(ports, manifest, "rollout", reason)
        ended = await run.to_its_end(ports, requested, home)
    if not as_json:
        run.report(console, [ended], as_json=False)
    return ended


async def _look_back(console: Console, ended: list[Rollout], as_json: bool) -> int:
    if as_json:
        run.report(console, ended, as_json=True, as_list=True)
        return 0
    console.rule("[bold]What the history says[/]")
    console.print("interlock history", style="bold")
    await past.history(console, past.Wanted(), as_json=False, verify=True)
    console.print("interlock replay --all", style="bold")
    return await past.replay(console, "", everything=True, as_json=False)


@contextmanager
def _folder(keep: str) -> Iterator[Path]:
    if keep:
        path = Path(keep).resolve()
        try:
            path.mkdir(parents=True, exist_ok=True)
            (path / "data").mkdir(exist_ok=True)
        except OSError as error:
            raise UsageInvalid(f"Cannot use {path}: {error.strerror}", hint="name a folder for --keep") from error
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="interlock-demo-", ignore_cleanup_errors=True) as made:
        yield Path(made)


@contextmanager
def _settings(folder: Path) -> Iterator[None]:
    """The demonstration's own data directory, database and SSH settings, whatever the environment says."""
    changed = {"INTERLOCK_DATA_DIR": str(folder / "data"), "INTERLOCK_DATABASE_URL": "", "INTERLOCK_SSH_CONFIG": ""}
    before = {name: os.environ.get(name) for name in (*changed, "INTERLOCK_SSH_KEY")}
    os.environ.update(changed)
    (folder / "data").mkdir(exist_ok=True)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
