"""The read models as requests see them: brought up to date when the history has gone on, once for all who ask."""

import asyncio
import base64
import binascii
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from state.errors import UsageInvalid
from state.store.connect import Stores
from state.store.listing import After, last_position
from state.store.projections import catch_up
from state.store.read_models import PROJECTIONS


class ReadModels:
    """Folds new events into the tables. A look at the end of the history is all it costs when there are none."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._position = -1
        self._folding = asyncio.Lock()

    async def caught_up(self) -> int:
        """The position that the tables stand at, at least that of the history when this was called."""
        end = await last_position(self._stores.engine)
        async with self._folding:
            if end > self._position:
                self._position = await catch_up(self._stores.engine, PROJECTIONS)
        return self._position


def cursor_of(row: Mapping[str, Any]) -> str:
    """Where the page after this line begins, as a word that clients pass on unread."""
    text = json.dumps([row["requested_at"].isoformat(), row["stream"]])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def after_cursor(cursor: str) -> After:
    """Raises UsageInvalid for a text that no page has given."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        at, stream = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None or not isinstance(stream, str) or "\0" in stream:
            raise ValueError(cursor)
        stream.encode()
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise UsageInvalid("The cursor is none that a page gave as `next`", hint="begin again without one") from error
    return After(moment, stream)
