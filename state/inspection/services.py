"""Whose line of systemd's it is where neither an invocation nor a PID says so: the engine's service or another one.

A journal that was not filtered by unit has the starts and stops of every service of the host, and the short formats do
not say which of them a process belongs to.
"""

import re
from dataclasses import dataclass, field

_OTHER_UNITS = re.compile(
    r"\S+\.(?:target|slice|scope|mount|automount|swap|socket|timer|path|device)\b|[Ss]ession c?\d+ of |target "
    r"|User (?:Manager|Slice|Runtime)"
)
_ENGINE_LIKE = re.compile(r"sglang|vllm|llama|\bllms?\b|\bllm[-_]|inference|speculat|model[-_ ]?serv", re.IGNORECASE)
_MOST = 4096


@dataclass(slots=True)
class Services:
    """The services that systemd has spoken of so far, and which of them the engine's boots are known to be."""

    seen: set[str] = field(default_factory=set)
    ours: set[str] = field(default_factory=set)

    def is_ours(self, name: str) -> bool:
        """Whether the service may be the engine's: known to be, named like one, or the only one there is."""
        if _OTHER_UNITS.match(name):
            return False
        if len(self.seen) < _MOST:
            self.seen.add(name)
        if name in self.ours or _ENGINE_LIKE.search(name):
            return True
        return not self.ours and self.seen == {name}


def is_service(name: str) -> bool:
    """Whether systemd's name or description may be that of a service."""
    return _OTHER_UNITS.match(name) is None
