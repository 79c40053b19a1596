"""What all events have in common."""

from typing import ClassVar

from state.model import Value


class Event(Value):
    """Base of all events; `wire` is the type's name in the store, `schema_version` counts its shapes."""

    wire: ClassVar[str]
    schema_version: ClassVar[int] = 1


class Succeeded(Event):
    """Base of the facts that end an action."""

    action: str
    attempt: int
