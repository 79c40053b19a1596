"""The API key of a service: read from a file on its host, kept in memory, and kept out of whatever is told further."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote

from state.errors import StepFailed
from state.plan import Plan
from state.redaction import REDACTED
from state.revision import Revision
from tasks.argv import cat_as_root
from tasks.hosts.port import Completed, Host
from tasks.sequence import READ_TIMEOUT_S

SHORTEST = 6
"""Characters of a key that is hidden wherever it stands; a shorter one is no secret, and may stand anywhere."""

_POOR = (("[0-9]+", "(?<![0-9.])", "(?![0-9.])"), ("[a-z_]+", "", r"(?!\"\s*:)"))
"""Keys that stand in answers anyway, and what may not stand before and behind them: a longer number keeps its digits, a
field of JSON its name (`choices`). An answer that could not be read any more would look like none."""

LONGEST = 4096
"""Characters of a key; servers bound the lines of a head, llama.cpp's (cpp-httplib) at 8192 bytes."""


@dataclass(frozen=True)
class ApiKey:
    """A key as it is sent: `Authorization: Bearer KEY` (RFC 6750, 2.1), which SGLang, vLLM and llama.cpp ask for."""

    text: str = field(repr=False)

    @property
    def header(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.text}"}

    @cached_property
    def _anywhere(self) -> re.Pattern[bytes]:
        in_json = json.dumps(self.text)[1:-1]
        forms = {self.text, in_json, in_json.replace("/", r"\/"), quote(self.text, safe="")}
        any_form = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        poor = [edges for like, *edges in _POOR if re.fullmatch(like, self.text)]
        before, behind = poor[0] if poor else ("", "")
        return re.compile(f"{before}(?:{any_form}){behind}".encode())

    def hide(self, told: bytes) -> bytes:
        """What the far side told, without the key: SGLang's `/server_info` has it, and an error may quote a header."""
        return self._anywhere.sub(REDACTED.encode(), told) if len(self.text) >= SHORTEST else told

    def hide_in(self, told: str) -> str:
        return self.hide(told.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


async def read_key(host: Host, path: str) -> ApiKey:
    """The key in a file on the host. Raises StepFailed where there is none, and what the Host port raises."""
    (read,) = await host.run_all([cat_as_root(path)], timeout_s=READ_TIMEOUT_S)
    if wrong := next(_flaws(read, path, host.name), ""):
        raise StepFailed("api-key", f"engine.key_file: {wrong}", hint=f"put the key, and nothing else, into {path}")
    return ApiKey(read.text.strip())


async def key_refusals(host: Host, revision: Revision, plan: Plan) -> list[str]:
    """A sentence for each key file that holds no key, of what is wanted and of what runs; nothing is asked without."""
    paths = {revision.key_file: ""}
    if plan.previous:
        paths.setdefault(plan.previous.key_file, " (of the revision that runs)")
    named = [(path, whose) for path, whose in paths.items() if path]
    asked = [cat_as_root(path) for path, _ in named]
    answers = await host.run_all(asked, timeout_s=READ_TIMEOUT_S) if asked else ()
    return [
        f"engine.key_file{whose}: {wrong}"
        for (path, whose), read in zip(named, answers, strict=True)
        for wrong in _flaws(read, path, host.name)
    ]


def _flaws(read: Completed, path: str, host: str) -> Iterator[str]:
    """At most one. Nothing of the file is told, since it may be a key all the same."""
    said = read.stderr.decode("utf-8", "replace").strip()
    lines = read.text.strip().splitlines()
    if not read.ok and "No such file" in said:
        yield f"{path} does not exist on {host}"
    elif not read.ok:
        yield f"{path} on {host} cannot be read: {said.rpartition(': ')[2] or 'cat says nothing'}"
    elif not lines:
        yield f"{path} on {host} is empty; it must hold the key and nothing else"
    elif len(lines) > 1:
        yield f"{path} on {host} has {len(lines)} lines; it must hold the key and nothing else"
    elif re.match(r"(export\s+)?\w*(KEY|TOKEN)=", lines[0]):
        yield f"{path} on {host} sets a variable; it must hold the key and nothing else"
    elif len(lines[0]) > LONGEST:
        yield f"{path} on {host} holds {len(lines[0])} characters; a key of more than {LONGEST} reaches no server"
    elif not re.fullmatch(r"[\x21-\x7e]+", lines[0]):
        yield f"{path} on {host} holds more than a word of ASCII, which is all that can be sent as a key"
