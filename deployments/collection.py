"""When Python looks for cyclic garbage: not while a command's modules load, and never among what those leave.

Loading makes some 120,000 objects that live until the process ends. Collections on the way look through them again and
again (0.15 s of `apply`), and so does the last one, at the interpreter's end (0.3 s). What is frozen is left out of
both; reference counts free it as ever, and nothing here is closed by its finalizer alone.
"""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


def hold() -> None:
    """No collection until `begin`; none of what there is by then at the interpreter's end."""
    gc.disable()
    atexit.register(gc.freeze)


def begin() -> None:
    """The modules are there: collect from now on, among what is made from now on. Nothing where nobody held it."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


@contextmanager
def held() -> Iterator[None]:
    """No collection in the block, which loads what is large, while a command is already at work."""
    gc.disable()
    try:
        yield
    finally:
        begin()
