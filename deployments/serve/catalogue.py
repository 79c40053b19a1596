"""Manifests on file: a folder of named revisions.

A manifest is `FOLDER/REVISION.yaml` or `FOLDER/ANYTHING/REVISION.yaml`: its revision's name is the file's, its service
is what it says itself. A schedule names revisions beside it, in the same folder and of the same service.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deployments.api.ports import REVISION_NAME, CataloguedService
from deployments.manifest_file import read_manifest
from state.errors import InterlockError, ManifestInvalid, NotFound, UsageInvalid
from state.manifest.model import Manifest
from state.manifest.yaml_text import read_yaml
from tasks.zones import is_zone


@dataclass(frozen=True, slots=True)
class Filed:
    """A manifest that was read."""

    path: Path
    revision: str
    manifest: Manifest

    @property
    def service(self) -> str:
        return self.manifest.service

    @property
    def target(self) -> str:
        """What names it: `SERVICE/REVISION`."""
        return f"{self.service}/{self.revision}"


@dataclass(frozen=True, slots=True)
class Switch:
    """A revision that a service is taken to at the times of a cron line in a time zone; `path` is where that stands."""

    service: str
    revision: str
    cron: str
    timezone: str
    path: Path

    @property
    def target(self) -> str:
        return f"{self.service}/{self.revision}"


@dataclass(frozen=True, slots=True)
class Contents:
    """What is on file: each mistake is told by file and line, and takes only its own file or schedule away."""

    filed: tuple[Filed, ...] = ()
    switches: tuple[Switch, ...] = ()
    mistakes: tuple[InterlockError, ...] = ()

    @property
    def services(self) -> tuple[str, ...]:
        return tuple(sorted({filed.service for filed in self.filed}))

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(sorted(filed.target for filed in self.filed))


class FolderCatalogue:
    """Implements `deployments.api.ports.Catalogue` on a folder, which is read anew whenever it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def contents(self) -> Contents:
        return await asyncio.to_thread(read_folder, self.folder)

    async def services(self) -> Sequence[CataloguedService]:
        contents = await self.contents()
        return tuple(_described(contents, service) for service in contents.services)

    async def manifest(self, service: str, revision: str) -> Manifest:
        contents = await self.contents()
        for filed in contents.filed:
            if (filed.service, filed.revision) == (service, revision):
                return filed.manifest
        for mistake in contents.mistakes:
            if isinstance(mistake, ManifestInvalid) and Path(mistake.path).stem == revision:
                raise mistake
        known = ", ".join(contents.targets) or f"no manifest is in {self.folder}"
        raise NotFound("manifest", f"{service}/{revision}", hint=f"on file: {known}")


def read_folder(folder: Path) -> Contents:
    """Read all of it. Of two files for one revision neither is offered: nobody can say which is meant."""
    read: dict[tuple[str, str], list[Filed]] = {}
    mistakes: list[InterlockError] = []
    for path in _files(folder):
        try:
            found = _filed(path)
        except InterlockError as error:
            mistakes.append(error)
            continue
        read.setdefault((found.service, found.revision), []).append(found)
    filed = {name: found[0] for name, found in read.items() if len(found) == 1}
    mistakes += [_one_of_many(one, found) for found in read.values() if len(found) > 1 for one in found]
    switches: dict[tuple[str, str, str, str], Switch] = {}
    for found in filed.values():
        for index, spec in enumerate(found.manifest.schedule):
            switch = Switch(found.service, spec.revision, spec.cron, spec.timezone, found.path)
            wrong = _wrong(switch, index, filed)
            mistakes += wrong
            if not wrong:
                switches.setdefault((switch.service, switch.revision, switch.cron, switch.timezone), switch)
    return Contents(tuple(filed.values()), tuple(switches.values()), tuple(mistakes))


def _filed(path: Path) -> Filed:
    """Raises UsageInvalid for what is no file (a pipe would be waited for), or whose name nobody could ask for."""
    if not path.is_file():
        raise UsageInvalid(f"{path} is no regular file", hint="take it out of the folder, or put a manifest there")
    if not re.fullmatch(REVISION_NAME, path.stem):
        raise UsageInvalid(
            f"{path}: `{path.stem}` names no revision: letters of ASCII, digits, `.`, `_` and `-`, at most 128",
            hint="give the file another name",
        )
    return Filed(path, path.stem, read_manifest(path))


def _files(folder: Path) -> Iterator[Path]:
    found = (*folder.glob("*.yaml"), *folder.glob("*/*.yaml"))
    yield from sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(folder).parts))


def _one_of_many(found: Filed, alike: Sequence[Filed]) -> ManifestInvalid:
    others = ", ".join(str(other.path) for other in alike if other is not found)
    sentence = f"`{found.target}` is in {others} too, so that neither is offered; give one another name"
    return ManifestInvalid(str(found.path), [f"{found.path}:1: service: {sentence}"])


def _wrong(switch: Switch, index: int, filed: dict[tuple[str, str], Filed]) -> list[InterlockError]:
    where = f"{switch.path}:{_line_of(switch.path, index)}: schedule[{index}]"
    sentences = []
    wanted = filed.get((switch.service, switch.revision))
    if wanted is None or wanted.path.parent != switch.path.parent:
        beside = switch.path.with_name(f"{switch.revision}.yaml")
        sentences.append(f"{where}.revision: there is no manifest of {switch.service} at {beside}")
    if not is_zone(switch.timezone):  # where there is no database at all, which the manifest's reader lets pass
        sentences.append(f"{where}.timezone: `{switch.timezone}` is not in this machine's time zone database")
    return [ManifestInvalid(str(switch.path), sentences)] if sentences else []


def _line_of(path: Path, index: int) -> int:
    try:
        return read_yaml(path.read_text(encoding="utf-8")).line(("schedule", index))
    except OSError:  # it was there a moment ago
        return 1


def _described(contents: Contents, service: str) -> CataloguedService:
    revisions = tuple(sorted(filed.revision for filed in contents.filed if filed.service == service))
    times = [f"{s.revision} at `{s.cron}` ({s.timezone})" for s in contents.switches if s.service == service]
    described = f"by schedule: {'; '.join(times)}" if times else "no schedule"
    return CataloguedService(service, revisions, described)
