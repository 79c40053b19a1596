"""pyinfra's deploy of twenty files that are as they should be, and of thirty facts (run in pyinfra's environment)."""

import time
from pathlib import Path

from pyinfra.context import host
from pyinfra.facts.server import Command
from pyinfra.operations import files, python

data = host.data
for item in data.files:
    files.put(name=item["path"], src=item["source"], dest=item["path"], mode="644", _sudo=True)
for command in data.facts:
    host.get_fact(Command, command)
python.call(name="say when", function=lambda: Path(data.verified).write_text(str(time.time())))
