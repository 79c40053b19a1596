"""pyinfra's deploy of the same job; its data say what to install and what to find (run in pyinfra's environment)."""

import time
from pathlib import Path

from pyinfra.context import host
from pyinfra.operations import files, python, server, systemd

data = host.data
installed = files.put(name="install the unit", src=data.unit_source, dest=data.unit_file, mode="644", _sudo=True)
systemd.service(
    name="restart", service=data.unit, restarted=True, daemon_reload=True, _sudo=True, _if=installed.did_change
)
server.shell(name="wait until it generates", commands=[data.waiting])
server.shell(name="find the fact in the log of this start", commands=[data.check], _sudo=True)
python.call(name="say when", function=lambda: Path(data.verified).write_text(str(time.time())))
