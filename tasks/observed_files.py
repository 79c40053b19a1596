"""Files as a host has them, many at once: two programs for all of them, not two for each.

Starting sudo takes a host about 15 ms, so twenty files one by one took longer than everything else of an observation.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from state.errors import Refused
from state.observation import ObservedFile
from tasks import argv
from tasks.hosts.port import Argv, Completed, Host
from tasks.sequence import READ_TIMEOUT_S

_PLAIN = re.compile(r"/[A-Za-z0-9_@%+,./-]*")
"""Paths that coreutils print as they are, in answers and in complaints (those have a colon quoted); any other is
asked alone."""

_TOGETHER = 16 << 10
"""Bytes of paths in one question: what one command takes, `tasks.hosts.ssh.LONGEST_COMMAND`, is several times that."""


async def observe_files(host: Host, paths: Sequence[str]) -> tuple[ObservedFile, ...]:
    """Digest, mode and owner of each. Raises what the Host port raises, and Refused for one that cannot be read."""
    return files_from(paths, await host.run_all(file_questions(paths), timeout_s=READ_TIMEOUT_S), host.name)


def file_questions(paths: Sequence[str]) -> list[Argv]:
    return [question for group in _groups(paths) for question in (argv.sha256(group), argv.stat(group))]


def files_from(paths: Sequence[str], answers: Sequence[Completed], host: str) -> tuple[ObservedFile, ...]:
    """The files that the answers to `file_questions` describe; what comes after those is not looked at. Raises Refused
    for one that cannot be read."""
    found: dict[str, ObservedFile] = {}
    for number, group in enumerate(_groups(paths)):
        digests, owners = answers[2 * number : 2 * number + 2]
        found |= (_alone if len(group) == 1 else _each)(group, digests, owners, host)
    return tuple(found[path] for path in paths)


def _groups(paths: Sequence[str]) -> list[tuple[str, ...]]:
    """The same for the same paths, whether they are asked for or answered."""
    plain, odd = list[str](), list[str]()
    for path in dict.fromkeys(paths):
        (plain if _PLAIN.fullmatch(path) else odd).append(path)
    ends = [*_ends(plain), len(plain)]
    return [tuple(plain[a:b]) for a, b in pairwise([0, *ends]) if a < b] + [(path,) for path in odd]


def _ends(paths: Sequence[str]) -> Iterator[int]:
    """Where one group of paths is full and the next one begins."""
    size = 0
    for number, path in enumerate(paths):
        size += len(path) + 1
        if number and size > _TOGETHER:
            yield number
            size = len(path) + 1


def _alone(group: Sequence[str], digests: Completed, owners: Completed, host: str) -> Mapping[str, ObservedFile]:
    """One file, whatever its name is like."""
    (path,) = group
    said = digests.stderr.decode("utf-8", "replace").strip()
    if digests.ok:
        return {path: _file(path, digests.text.split()[0].lstrip("\\"), owners.text.split())}
    return {path: _unread(path, said, host, absent="No such file" in said)}


def _each(group: Sequence[str], digests: Completed, owners: Completed, host: str) -> Mapping[str, ObservedFile]:
    """Plain names, each answered by a line of its own: on stdout, where its last word is the path, or on stderr."""
    by_path = {words[-1]: words[0] for line in digests.text.splitlines() if (words := line.split())}
    of_path = {words[-1]: words for line in owners.text.splitlines() if (words := line.split())}
    said = digests.stderr.decode("utf-8", "replace").splitlines()
    of_those = {path: line for line in said for path in _PLAIN.findall(line)}
    found = dict[str, ObservedFile]()
    for path in group:
        if digest := by_path.get(path):
            found[path] = _file(path, digest, of_path.get(path, []))
        else:
            why = of_those.get(path, "")
            found[path] = _unread(path, why or "; ".join(said), host, absent="No such file" in why)
    return found


def _unread(path: str, said: str, host: str, *, absent: bool) -> ObservedFile:
    if not absent:
        raise Refused(f"{path} on {host} cannot be read: {said or 'no reason given'}", hint="check it by hand")
    return ObservedFile(path=path, digest=None)


def _file(path: str, digest: str, words: Sequence[str]) -> ObservedFile:
    """`words` are those of `argv.stat`; none where the file went away between the two answers."""
    mode, owner, group = [*words, "", "", ""][:3]
    return ObservedFile(
        path=path,
        digest=digest,
        mode=int(mode, 8) if re.fullmatch(r"[0-7]+", mode) else None,
        owner=owner or None,
        group=group or None,
    )
