"""The flags that llama-server's own `--help` declares (builds 5000 to 11000).

An entry begins in the first column with all spellings of a flag, `-ngl,  --gpu-layers, --n-gpu-layers N`; what follows
two spaces or stands further right describes it.
"""

import difflib
import re
from collections.abc import Mapping

from state.engines.llamacpp import flags

_HEAD = re.compile(r"(?:-{1,2}[A-Za-z][\w.-]*(?:, *| (?=\s*$)|(?=\s|$)))+")
_FLAG = re.compile(r"-{1,2}[A-Za-z][\w.-]*")
REMOVED = "the argument has been removed"
SILENT = "the engine's help names no flags, so none can be checked"


def declared(help_text: str) -> Mapping[str, str]:
    """Flag -> what is said of its removal; empty for those that are taken."""
    found: dict[str, str] = {}
    entry: list[str] = []
    for line in help_text.splitlines():
        if head := _HEAD.match(line):
            entry = _FLAG.findall(head[0])
            found.update(dict.fromkeys(entry, ""))
        if (said := _removal(line)) and entry:
            found.update(dict.fromkeys(entry, said))
    return found


def _removal(line: str) -> str:
    at = line.find(REMOVED)
    if at < 0:
        return ""
    instead = _FLAG.search(line, at)
    return f"it was removed; use {instead[0]}" if instead else "it was removed"


def problem_of(flag: str, known: Mapping[str, str]) -> str | None:
    """What is wrong with a flag, None where nothing is; a text for people, which may be empty."""
    if not known:
        return SILENT
    if flag in known:
        return known[flag] or None
    if "=" in flag:
        return "llama-server takes the value as the next word, not behind `=`"
    meant = flags.spelled(flags.SHORT.get(flag) or flags.canonical(flag.lstrip("-")))
    if meant != flag and known.get(meant) == "":
        return f"did you mean {meant}?"
    close = difflib.get_close_matches(flag, sorted(one for one, gone in known.items() if not gone), n=1, cutoff=0.75)
    return f"did you mean {close[0]}?" if close else ""
