"""The base of every stored value: frozen, closed, and the same in JSON for ever."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value; unknown fields are refused, so that a newer history is never half understood."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def as_json(self) -> dict[str, Any]:
        """Plain JSON types, every field present."""
        return self.model_dump(mode="json")
