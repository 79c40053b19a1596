"""A PostgreSQL that is durable, as one in production is: the program of the tests, with its own defaults."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.contract.store_fixtures import Postgres, own_postgres


@contextmanager
def durable_postgres() -> Iterator[Postgres]:
    """Ends with the block."""
    with own_postgres(("shared_buffers=128MB",)) as own:
        yield own.started()
