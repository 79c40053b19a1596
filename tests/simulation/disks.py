"""The disks of the orchestrators' machines: what was spooled there outlives who wrote it."""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from state.errors import SpoolDamaged, StoreUnavailable
from state.store.port import NewEvent
from state.store.spool import Record, SpooledEvents, read_spool

if TYPE_CHECKING:
    from tests.simulation.orchestrator import Orchestrator

STORES_OWN = ("store-lost-before", "store-lost-after")
"""Faults that befall what is appended to the store, and nothing else."""


@dataclass
class File:
    data: bytearray = field(default_factory=bytearray)
    holder: "Orchestrator | None" = None

    def is_held(self) -> bool:
        """As flock(2) has it: for as long as the process that holds it lives."""
        return self.holder is not None and not self.holder.is_over()


@dataclass
class Disk:
    """One machine's. `kept` are spools that were set aside; `acknowledged` what their writers relied on."""

    name: str
    files: dict[str, File] = field(default_factory=dict)
    kept: dict[str, bytes] = field(default_factory=dict)
    acknowledged: list[tuple[str, Record]] = field(default_factory=list)

    def records(self, data: bytes) -> tuple[Record, ...]:
        try:
            return read_spool(data, self.name).records
        except SpoolDamaged:
            return ()


class DiskSpools:
    """A disk as one process uses it. Implements `Spools`."""

    def __init__(self, who: "Orchestrator", disk: Disk) -> None:
        self._who, self._disk = who, disk

    def of(self, name: str) -> "DiskSpool":
        return DiskSpool(self._who, self._disk, name)

    def left(self) -> tuple[str, ...]:
        return tuple(sorted(self._disk.files))

    def reserve(self) -> None:
        """This disk is never full."""


class DiskSpool:
    """Implements `SpoolFile`."""

    def __init__(self, who: "Orchestrator", disk: Disk, name: str) -> None:
        self._who, self._disk, self._name = who, disk, name
        self._file: File | None = None
        self._was = False

    @property
    def place(self) -> str:
        return f"{self._disk.name}:{self._name}.spool"

    def hold(self) -> bool:
        if self._file is not None:
            return True
        found = self._disk.files.get(self._name)
        if found is None or found.is_held():
            return False
        found.holder, self._file = self._who, found
        return True

    async def append(self, line: bytes) -> None:
        who = self._who
        await who.gate()
        due = who.world.due("append", self._intent(line))
        for fault in due:
            if fault.kind == "killed-within-line":
                self._opened().data.extend(line[: len(line) // 2])
                who.kill()
                await who.gate()
            if fault.kind not in STORES_OWN:
                await who.befall.before_append(who, fault)
        await who.gate()
        file = self._opened()
        file.data.extend(line)
        self._acknowledge(file)
        if any(fault.kind == "killed-after-append" for fault in due):
            who.kill()
        await who.gate()

    def _opened(self) -> File:
        if self._file is None:
            if self._name in self._disk.files and not (self._was and self.hold()):
                raise StoreUnavailable(f"{self.place} is held by another process")
            self._file = self._file or self._disk.files.setdefault(self._name, File(holder=self._who))
            self._was = True
        return self._file

    def _intent(self, line: bytes) -> str:
        """The action that this is the intent of, which is then under way; nothing for most lines."""
        intents = [event.data["action"] for event in self._events(line) if event.type == "action-started"]
        self._who.world.action = intents[0] if intents else self._who.world.action
        return str(intents[0]) if intents else ""

    def _events(self, line: bytes) -> tuple[NewEvent, ...]:
        fields = json.loads(line)
        return tuple(NewEvent(**event) for event in fields.get("events", ())) if fields["kind"] == "events" else ()

    def _acknowledge(self, file: File) -> None:
        newest = self._disk.records(bytes(file.data))[-1]
        self._disk.acknowledged.append((self._name, newest))
        if isinstance(newest, SpooledEvents):
            self._who.has_recorded(newest.after_version, newest.events)

    def read(self) -> bytes:
        found = self._disk.files.get(self._name)
        return bytes(found.data) if found else b""

    def remove(self) -> None:
        self._disk.files.pop(self._name, None)
        self.let_go()

    def set_aside(self) -> str:
        file = self._disk.files.pop(self._name)
        kept = f"{self._disk.name}:{self._name}.{len(self._disk.kept)}.kept"
        self._disk.kept[kept] = bytes(file.data)
        self.let_go()
        return kept

    def let_go(self) -> None:
        if self._file is not None and self._file.holder is self._who:
            self._file.holder = None
        self._file = None
