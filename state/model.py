"""The base of every stored value: frozen, closed, and the same in JSON for ever."""

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class Value(BaseModel):
    """A frozen value; unknown fields are refused, so that a newer history is never half understood."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def as_json(self) -> dict[str, Any]:
        """Plain JSON types, every field present."""
        return self.model_dump(mode="json")


def misfit(error: ValidationError, most: int = 3) -> str:
    """What does not fit, on one line: the first `most` fields, each with the reason; no values, lest they be secret."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    told = [
        f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg'][:1].lower()}{one['msg'][1:]}" for one in found
    ]
    more = f", and {len(told) - most} more" if len(told) > most else ""
    return "; ".join(told[:most]).replace("\n", " ") + more
