"""One server for a data directory: a lock that the kernel gives back when its holder dies, however it dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from state.errors import Refused, UsageInvalid


@contextmanager
def only_server(data_dir: Path) -> Iterator[None]:
    """Hold the lock of `data_dir` while the block runs. Raises Refused naming the PID that holds it, UsageInvalid for
    a directory that cannot be used."""
    path = data_dir / "serve.lock"
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageInvalid(f"Cannot use {data_dir}: {error.strerror}", hint="see INTERLOCK_DATA_DIR") from error
    try:
        _take(descriptor, data_dir)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, data_dir: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode("ascii", "replace") or "another process"
        raise Refused(
            f"`interlock serve` runs already on {data_dir} (PID {holder})",
            hint="stop that one first, or give this one a data directory of its own by INTERLOCK_DATA_DIR",
        ) from None
