"""Settings: one frozen model, from the environment (`INTERLOCK_…`), everything with a default that works."""

import getpass
import hashlib
import os
import socket
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from state.errors import UsageInvalid


def _data_dir() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "interlock"


class Settings(BaseSettings):
    """`database_url` is `sqlite:///PATH` or `postgresql://…`; by default a file in `data_dir`.

    `ssh_key` and `ssh_config` are paths; without them the agent, the usual keys and ~/.ssh/config are used.
    """

    model_config = SettingsConfigDict(env_prefix="INTERLOCK_", frozen=True)

    data_dir: Path = Field(default_factory=_data_dir)
    database_url: str = ""
    ssh_key: str = ""
    ssh_config: str | None = None
    lease_s: float = Field(300.0, ge=1, le=86_400, allow_inf_nan=False)
    generation_s: float = Field(30.0, ge=1, le=3_600, allow_inf_nan=False)
    manifests: Path | None = None
    api_url: str = ""
    recover_every_s: float = Field(60.0, ge=1, le=86_400, allow_inf_nan=False)
    stop_grace_s: float = Field(30.0, ge=0, le=86_400, allow_inf_nan=False)

    def __init__(self, **given: Any) -> None:
        """Raises UsageInvalid that names the variable."""
        try:
            super().__init__(**given)
        except ValidationError as error:
            first = error.errors()[0]
            name = f"INTERLOCK_{'_'.join(map(str, first['loc'])).upper()}"
            raise UsageInvalid(f"{name}: {first['msg'].lower()}", hint="see docs/reference/settings.md") from error

    @property
    def store_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir / 'interlock.db'}"

    @property
    def store_digest(self) -> str:
        """Tells event stores apart without saying where they are, which may hold a password."""
        return hashlib.sha256(self.store_url.encode()).hexdigest()

    @property
    def manifest_folder(self) -> Path:
        """Where `interlock serve` finds manifests."""
        return self.manifests or self.data_dir / "manifests"

    @property
    def holder(self) -> str:
        """Who holds the leases that this process takes: user, machine and process."""
        return f"{getpass.getuser()}@{socket.gethostname()} (PID {os.getpid()})"
