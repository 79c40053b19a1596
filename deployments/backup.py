"""`interlock db backup` and `db restore`: copies of an SQLite store."""

from pathlib import Path

from rich.console import Console

from deployments.run import print_json
from flows.history import stream_of
from flows.ports import utc_now
from flows.settings import Settings
from state.store import backup


async def back_up(console: Console, file: Path, *, as_json: bool) -> int:
    made = await backup.back_up(Settings().store_url, file)
    if as_json:
        print_json({"file": str(file), "schema": made.schema, "events": made.events, "bytes": made.size})
    else:
        console.print(f"{made.events} events at schema {made.schema} are in {file} ({made.size} bytes)", soft_wrap=True)
    return 0


async def restore(console: Console, file: Path, *, as_json: bool) -> int:
    """Names the rollouts that had not ended then: what became of them since is not in the backup."""
    made = await backup.restore(Settings().store_url, file, utc_now)
    unfinished = [stream.removeprefix(stream_of("")) for stream in made.unfinished]
    if as_json:
        print_json({"schema": made.schema, "streams": made.streams, "events": made.events, "unfinished": unfinished})
        return 0
    console.print(f"{made.events} events in {made.streams} streams are restored, every digest whole")
    if unfinished:
        console.print(
            f"unfinished when the backup was made: {', '.join(unfinished)}. Look at their hosts before `interlock "
            "recover` or `interlock serve`, which would go on with them: they may have ended since.",
            soft_wrap=True,
        )
    return 0
