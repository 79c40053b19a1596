"""Runs migrations: on the connection that `state.store.migrate` hands over, or on INTERLOCK_DATABASE_URL."""

import asyncio
import os

from alembic import context
from sqlalchemy import Connection

from state.store.database import create_engine
from state.store.tables import VERSION_TABLE, metadata


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        render_as_batch=connection.dialect.name == "sqlite",
        transactional_ddl=True,  # both databases roll a table's creation back
        compare_type=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def connect_and_run(url: str) -> None:
    engine = create_engine(url)
    try:
        async with engine.execution_options(sqlite_begin="BEGIN IMMEDIATE").begin() as connection:
            await connection.run_sync(run)
    finally:
        await engine.dispose()


handed = context.config.attributes.get("connection")
if handed is not None:
    run(handed)
else:
    asyncio.run(connect_and_run(os.environ["INTERLOCK_DATABASE_URL"]))
