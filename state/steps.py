"""Steps: idempotent changes to a host, as data, each with its inverse.

The order in which `state.plan` lists them is the order in which they are done; compensation walks it backwards.
`guard` steps prepare and protect; `outage` steps are those between which the service does not answer.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from state.model import Value

Role = Literal["guard", "outage"]


class FileState(Value):
    """A file's content by digest (None: absent) and how it is kept. `mode` is octal as an int."""

    path: str
    digest: str | None
    mode: int = 0o644
    owner: str = "root"
    group: str = "root"


class FileChange(Value):
    """A file before and after; either side may be absent."""

    before: FileState
    after: FileState

    def reversed(self) -> "FileChange":
        return FileChange(before=self.after, after=self.before)


NATIVE = "*"
"""In place of a driver's name: the one that the kernel itself chooses, without an override."""

VFIO = "vfio-pci"


class DriverMove(Value):
    """One PCI function from one driver to another; None stands for no driver, NATIVE for the kernel's own choice."""

    address: str
    before: str | None
    after: str | None

    def reversed(self) -> "DriverMove":
        return DriverMove(address=self.address, before=self.after, after=self.before)


class StageFiles(Value):
    """Upload new contents beside the old ones, keep the old ones by digest, read both back whole.

    `texts` are contents by digest that no revision has, since they were made of what was observed.
    """

    role: ClassVar[Role] = "guard"
    kind: Literal["stage-files"] = "stage-files"
    host: str
    service: str
    changes: tuple[FileChange, ...]
    texts: dict[str, str] = Field(default_factory=dict)

    def inverse(self) -> "DiscardStaged":
        return DiscardStaged(host=self.host, service=self.service, changes=self.changes, texts=self.texts)


class DiscardStaged(Value):
    role: ClassVar[Role] = "guard"
    kind: Literal["discard-staged"] = "discard-staged"
    host: str
    service: str
    changes: tuple[FileChange, ...]
    texts: dict[str, str] = Field(default_factory=dict)

    def inverse(self) -> StageFiles:
        return StageFiles(host=self.host, service=self.service, changes=self.changes, texts=self.texts)


class ArmTimer(Value):
    """The dead-man's timer: without renewal for `deadline_s` seconds the host restores the old state by itself.

    `unit` is empty where the service is left alone: there are only drivers, and their rules for the boot, to put back.
    """

    role: ClassVar[Role] = "guard"
    kind: Literal["arm-timer"] = "arm-timer"
    host: str
    service: str
    deadline_s: float
    unit: str
    start: bool
    files: tuple[FileChange, ...]
    moves: tuple[DriverMove, ...] = ()

    def inverse(self) -> "DisarmTimer":
        return DisarmTimer(**self.model_dump(exclude={"kind"}))


class DisarmTimer(Value):
    role: ClassVar[Role] = "guard"
    kind: Literal["disarm-timer"] = "disarm-timer"
    host: str
    service: str
    deadline_s: float
    unit: str
    start: bool
    files: tuple[FileChange, ...]
    moves: tuple[DriverMove, ...] = ()

    def inverse(self) -> ArmTimer:
        return ArmTimer(**self.model_dump(exclude={"kind"}))


class ServiceStep(Value):
    """What stopping and starting a unit need: bounds in seconds, the port to be proved closed, the leftover policy."""

    role: ClassVar[Role] = "outage"
    host: str
    unit: str
    port: int
    drain_s: float = 0.0
    timeout_s: float = 90.0
    leftovers: Literal["refuse", "kill"] = "refuse"


class StopService(ServiceStep):
    kind: Literal["stop-service"] = "stop-service"

    def inverse(self) -> "StartService":
        return StartService(**self.model_dump(exclude={"kind"}))


class StartService(ServiceStep):
    kind: Literal["start-service"] = "start-service"

    def inverse(self) -> StopService:
        return StopService(**self.model_dump(exclude={"kind"}))


class RebindGpus(Value):
    """Move a set of PCI functions between drivers, all or none."""

    role: ClassVar[Role] = "outage"
    kind: Literal["rebind-gpus"] = "rebind-gpus"
    host: str
    moves: tuple[DriverMove, ...]

    def inverse(self) -> "RebindGpus":
        return RebindGpus(host=self.host, moves=tuple(m.reversed() for m in reversed(self.moves)))


class InstallFiles(Value):
    """Replace files atomically from what was staged, then have systemd read its units again.

    `unit` is empty for files that are none of systemd's.
    """

    role: ClassVar[Role] = "outage"
    kind: Literal["install-files"] = "install-files"
    host: str
    service: str
    unit: str
    changes: tuple[FileChange, ...]

    def inverse(self) -> "InstallFiles":
        changes = tuple(c.reversed() for c in reversed(self.changes))
        return InstallFiles(host=self.host, service=self.service, unit=self.unit, changes=changes)


Step = Annotated[
    StageFiles | DiscardStaged | ArmTimer | DisarmTimer | StopService | StartService | RebindGpus | InstallFiles,
    Field(discriminator="kind"),
]
