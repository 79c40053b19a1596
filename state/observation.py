"""What was read of a host before anything is decided: files, unit, process, GPUs."""

from state.canonical import digest_of
from state.model import Value


class ObservedFile(Value):
    """One path on the host. `digest` is its bytes' SHA-256, None if there is no such file; `mode` is octal, an int."""

    path: str
    digest: str | None
    mode: int | None = None
    owner: str | None = None
    group: str | None = None


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


class ObservedGpu(Value):
    """A PCI function. `driver` is None where none is bound; `present` is False where the address is empty."""

    address: str
    present: bool
    driver: str | None = None
    group: str | None = None
    group_type: str | None = None
    group_members: tuple[str, ...] = ()
    pci_class: str | None = None
    uuid: str | None = None


class Observation(Value):
    """One look at the service's host and the GPU host. `argv` is the running main process's own, from /proc."""

    unit: ObservedUnit
    files: tuple[ObservedFile, ...]
    argv: tuple[str, ...] | None = None
    unit_text: str | None = None
    gpus: tuple[ObservedGpu, ...] = ()

    def file(self, path: str) -> ObservedFile:
        return next((f for f in self.files if f.path == path), ObservedFile(path=path, digest=None))

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
            }
        )
