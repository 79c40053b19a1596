"""Settings: one frozen model, from the environment (`INTERLOCK_…`), everything with a default that works."""

import getpass
import os
import socket
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


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
    lease_s: float = 300.0
    generation_s: float = 30.0

    @property
    def store_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir / 'interlock.db'}"

    @property
    def holder(self) -> str:
        """Who holds the leases that this process takes: user, machine and process."""
        return f"{getpass.getuser()}@{socket.gethostname()} (PID {os.getpid()})"
