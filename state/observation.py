"""What was read of a host before anything is decided: files, unit, process, GPUs."""

from state.canonical import digest_of
from state.model import Value
from state.steps import FileState


class ObservedFile(Value):
    """One path on the host. `digest` is its bytes' SHA-256, None if there is no such file; `mode` is octal, an int."""

    path: str
    digest: str | None
    mode: int | None = None
    owner: str | None = None
    group: str | None = None

    def as_state(self, wanted: FileState) -> FileState:
        """As the state before a change to `wanted`; what could not be read of it counts as wanted."""
        return FileState(
            path=self.path,
            digest=self.digest,
            mode=self.mode if self.mode is not None else wanted.mode,
            owner=self.owner or wanted.owner,
            group=self.group or wanted.group,
        )


class ObservedUnit(Value):
    """A unit as systemd resolves it (`systemctl show`), not as its file reads."""

    name: str
    load_state: str
    active_state: str
    sub_state: str = ""
    result: str = ""
    invocation: str = ""
    main_pid: int = 0
    restarts: int = 0
    fragment: str = ""
    drop_ins: tuple[str, ...] = ()
    need_daemon_reload: bool = False
    control_group: str = ""

    @property
    def active(self) -> bool:
        return self.active_state in ("active", "activating", "reloading", "deactivating")


class ObservedMember(Value):
    """Another PCI function of the same IOMMU group."""

    address: str
    driver: str | None = None
    pci_class: str | None = None

    @property
    def bridge(self) -> bool:
        """Bridges (PCI class 06) stay on their driver: what is behind them can be given away without them."""
        return (self.pci_class or "").startswith("0x06")

    @property
    def name(self) -> str:
        return f"{self.address} (class {self.pci_class or 'unknown'}, {self.driver or 'no driver'})"


class ObservedGpu(Value):
    """A PCI function. `driver` is None where none is bound; `present` is False where the address is empty.

    `members` are the others of its IOMMU group, `group_members` the addresses of all.
    """

    address: str
    present: bool
    driver: str | None = None
    group: str | None = None
    group_type: str | None = None
    group_members: tuple[str, ...] = ()
    pci_class: str | None = None
    uuid: str | None = None
    members: tuple[ObservedMember, ...] = ()

    def companions(self) -> tuple[ObservedMember, ...]:
        """The other functions of the same device (a GPU's audio): one slot, so they go where it goes."""
        slot = self.address.rpartition(".")[0]
        return tuple(m for m in self.members if m.address.rpartition(".")[0] == slot and not m.bridge)

    def strangers(self) -> tuple[ObservedMember, ...]:
        """Endpoints of the group that are of another device."""
        own = self.companions()
        return tuple(m for m in self.members if m not in own and not m.bridge)


class Observation(Value):
    """One look at the service's host and the GPU host. `argv` is the running main process's own, from /proc.

    `boot` is the GPU host's file of udev rules for this service; None where no driver map is wanted.
    """

    unit: ObservedUnit
    files: tuple[ObservedFile, ...]
    argv: tuple[str, ...] | None = None
    unit_text: str | None = None
    gpus: tuple[ObservedGpu, ...] = ()
    boot: ObservedFile | None = None

    def file(self, path: str) -> ObservedFile:
        return next((f for f in self.files if f.path == path), ObservedFile(path=path, digest=None))

    @property
    def comes_and_goes(self) -> bool:
        """Whether systemd starts the service again and again, by its own count."""
        return self.unit.active and self.unit.restarts > 0

    def is_as_planned(self, digest: str) -> bool:
        """Whether a plan may rest on this that was made on what `digest` names. A service that comes and goes may have
        been between two starts then."""
        if self.digest == digest:
            return True
        return self.comes_and_goes and self.model_copy(update={"argv": None}).digest == digest

    @property
    def digest(self) -> str:
        """Names what a reviewed plan relies on: contents, resolution, argv, drivers; not PIDs, which change anyway."""
        return digest_of(
            {
                "files": [f.as_json() for f in self.files],
                "unit": [self.unit.load_state, self.unit.active, self.unit.fragment, list(self.unit.drop_ins)],
                "reload": self.unit.need_daemon_reload,
                "text": self.unit_text,
                "argv": list(self.argv or ()),
                "gpus": [[g.address, g.present, g.driver, g.group_type] for g in self.gpus],
                **({"boot": self.boot.as_json()} if self.boot and self.boot.digest else {}),
            }
        )
