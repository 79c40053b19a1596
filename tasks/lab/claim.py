"""Whose a container host's folder is while the host is brought up or cleared away: who holds the lock on it.

The kernel drops the lock with its holder, so that a folder without a holder and without a running host is left over.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from state.errors import Refused
from tasks.lab import record
from tasks.lab.record import LabHost


@contextmanager
def claimed(count: int) -> Iterator[list[LabHost]]:
    """The first `count` numbers that are free, held until the block ends. Raises Refused where there are too few."""
    with ExitStack() as held:
        yield [held.enter_context(_claimed()) for _ in range(count)]


@contextmanager
def held(host: LabHost) -> Iterator[bool]:
    """Hold the folder for the block; False where somebody else does, or where it is gone."""
    with _one_at_a_time():
        handle = _hold(host)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            os.close(handle)


def take(handle: int, host: LabHost) -> bool:
    """Hold by an open handle of the folder; False where somebody else does, or where the number is another host's."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), host.folder.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


@contextmanager
def _claimed() -> Iterator[LabHost]:
    """A folder made by us alone is the claim; nobody may find it before it is held."""
    with _one_at_a_time():
        host = _made()
        handle = _hold(host)
    try:
        yield host
    finally:
        if handle is not None:
            os.close(handle)


def _made() -> LabHost:
    for number in range(1, record.MOST + 1):
        try:
            LabHost(number).folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return LabHost(number)
    raise Refused(f"There are {record.MOST} container hosts already", hint="`interlock lab down` ends them")


def _hold(host: LabHost) -> int | None:
    try:
        handle = os.open(host.folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    if take(handle, host):
        return handle
    os.close(handle)
    return None


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    record.RUN_DIR.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (record.RUN_DIR / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
