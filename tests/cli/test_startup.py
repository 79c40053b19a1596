"""What the command line does not do before it works: no collection of garbage, and no module that it will not use."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.cli.practice import Stage, stage


def ran(script: str) -> Any:
    """The JSON that a new interpreter prints for `script`."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


COLLECTION = """
import atexit, gc, json, typer
from deployments import collection, command

seen = {}
atexit.register(lambda: print(json.dumps(seen)))
atexit.register(lambda: seen.update(left=len(gc.get_objects())))

async def work():
    seen.update(at_work=gc.isenabled(), frozen=gc.get_freeze_count() > 1000)
    with collection.held():
        seen.update(loading_more=gc.isenabled())
    seen.update(after=gc.isenabled())
    return 0

collection.hold()
seen.update(loading=gc.isenabled())
try:
    command.run(work())
except typer.Exit as ended:
    seen.update(code=ended.exit_code)
"""


def test_garbage_is_collected_at_work_alone() -> None:
    """Neither while modules load nor, among what they left, at the interpreter's end."""
    seen = ran(COLLECTION)
    assert seen.pop("left") < 100
    assert seen == {
        "loading": False, "at_work": True, "frozen": True, "loading_more": False, "after": True, "code": 0,
    }  # fmt: skip


def loaded(script: str, *names: str) -> set[str]:
    """Which of the modules a new interpreter has loaded after `script`; a name stands for what is below it too."""
    last = f"import json, sys; print(json.dumps([n for n in {names} if n in sys.modules]))"
    return set(ran(f"{script}\n{last}"))


SHOWN = ("rich.table", "pygments", "deployments.page", "deployments.live")
STORED = ("sqlalchemy", "alembic", "aiosqlite", "asyncpg")
DONE = ("httpx", "httpcore", "flows.perform", "flows.prove", "tasks.readiness", "tasks.traffic", "tasks.verification")
READ = ("state.engines.sglang.reading", "state.engines.vllm.reading", "state.engines.llamacpp.reading")
OTHERS = ("prefect", "fastapi", "uvicorn", "jsonschema", "jinja2", "multiprocessing")


def test_a_list_of_commands_loads_no_orchestrator() -> None:
    script = """
import io, sys
from contextlib import redirect_stdout, suppress
from deployments.cli import main
sys.argv = ["interlock", "--help"]
with redirect_stdout(io.StringIO()), suppress(SystemExit):
    main()
"""
    known = ("rich", "pydantic", "asyncssh", "yaml", "zoneinfo", "flows", "tasks")
    assert loaded(script, *SHOWN, *STORED, *DONE, *READ, *OTHERS, *known) == set()


def watched(practice: Stage, script: str, words: Sequence[str]) -> tuple[Any, Any]:
    """The JSON that the command prints in a new interpreter, and what `script` tells of it on standard error."""
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **practice.settings},
        check=True,
    )
    return json.loads(done.stdout), json.loads(done.stderr)


NOTHING_TO_DO = """
import atexit, json, sys
from deployments.cli import main
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
main()
"""


def test_nothing_to_do_loads_neither_what_carries_it_out_nor_what_shows_it(tmp_path: Path) -> None:
    """That comes with the first action after a plan, and with the first page."""
    with stage(tmp_path) as practice:
        words = ("apply", practice.manifest(), "--bare", "--json")
        assert practice.interlock(*words).json["outcome"] == "promoted"
        ended, modules = watched(practice, NOTHING_TO_DO, words)
    assert ended["outcome"] == "unchanged"
    assert set(modules) & {*SHOWN, *DONE, *READ, *OTHERS, "alembic", "asyncpg"} == set()


LOADING = """
import atexit, json, sys, time
loaded = []
sys.addaudithook(lambda event, args: event == "import" and loaded.append((time.time(), args[0])))
from deployments.cli import main
atexit.register(lambda: print(json.dumps(loaded), file=sys.stderr))
main()
"""


def test_nothing_is_loaded_while_the_service_is_away(tmp_path: Path) -> None:
    """What a change needs is there before the service is stopped: loading takes a tenth of a second."""
    with stage(tmp_path) as practice:
        words = ("apply", practice.manifest(), "--bare", "--json")
        ended, loads = watched(practice, LOADING, words)
        events = practice.interlock("show", ended["rollout"], "--json").json["events"]
    at = {event["type"]: datetime.fromisoformat(event["recorded_at"]).timestamp() for event in reversed(events)}
    away = (at["baseline-recorded"], at["readiness-reached"])
    assert [module for when, module in loads if away[0] < when < away[1]] == []
