"""Settings of the HTTP API, from the environment (`INTERLOCK_API_…`), everything with a default that works."""

from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from state.errors import UsageInvalid


class ApiSettings(BaseSettings):
    """`rate` and `burst` are requests a second and at once, for each token; `hosts` and `origins` are empty for off:
    any Host header, and no CORS."""

    model_config = SettingsConfigDict(env_prefix="INTERLOCK_API_", frozen=True)

    rate: float = Field(20.0, gt=0, le=100_000, allow_inf_nan=False)
    burst: int = Field(60, ge=1, le=1_000_000)
    body_bytes: int = Field(1 << 20, ge=1024, le=1 << 26)
    body_timeout_s: float = Field(30.0, ge=0.1, le=3_600, allow_inf_nan=False)
    plan_timeout_s: float = Field(120.0, ge=0.1, le=3_600, allow_inf_nan=False)
    heartbeat_s: float = Field(15.0, ge=0.05, le=3_600, allow_inf_nan=False)
    tail_s: float = Field(0.2, ge=0.01, le=60, allow_inf_nan=False)
    streams: int = Field(500, ge=1, le=100_000)
    key_lifetime_s: float = Field(86_400.0, ge=60, le=31_536_000, allow_inf_nan=False)
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def __init__(self, **given: Any) -> None:
        """Raises UsageInvalid that names the variable."""
        try:
            super().__init__(**given)
        except ValidationError as error:
            first = error.errors()[0]
            name = f"INTERLOCK_API_{'_'.join(map(str, first['loc'])).upper()}"
            raise UsageInvalid(f"{name}: {first['msg'].lower()}", hint="see docs/reference/settings.md") from error
