"""Signals of a process whose event loop runs beside its main thread.

Prefect's engine takes SIGTERM for itself while a flow runs in the main thread, and tears the loop down: there, a signal
would not be this server's to answer. In any other thread it leaves signals alone (prefect.utilities.engine, 3.9.1).
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass
class Asked:
    """`to_stop` is set by the first signal, `at_once` by the second."""

    to_stop: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: asyncio.Event = field(default_factory=asyncio.Event)

    def again(self) -> None:
        (self.at_once if self.to_stop.is_set() else self.to_stop).set()


def run_beside(work: Callable[[Asked], Awaitable[int]]) -> int:
    """Run `work` in an event loop of another thread, this one taking the signals; its result, or what it raises."""
    loops: list[tuple[asyncio.AbstractEventLoop, Asked]] = []
    results: list[int] = []
    errors: list[BaseException] = []
    ready = threading.Event()

    async def working() -> int:
        asked = Asked()
        loops.append((asyncio.get_running_loop(), asked))
        ready.set()
        return await work(asked)

    def thread() -> None:
        try:
            results.append(asyncio.run(working()))
        except BaseException as error:  # noqa: BLE001  # raised again in the main thread, whatever it is
            errors.append(error)
        finally:
            ready.set()

    def signalled(_number: int, _frame: object) -> None:
        loop, asked = loops[0]
        if not loop.is_closed():
            loop.call_soon_threadsafe(asked.again)

    beside = threading.Thread(target=thread, name="interlock")
    beside.start()
    ready.wait()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signalled)
    beside.join()
    if errors:
        raise errors[0]
    return results[0]
