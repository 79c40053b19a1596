"""What the command line does not do before it works: no collection of garbage, and no module that it will not use."""

import json
import subprocess
import sys
from typing import Any


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
