"""Remote commands as words: pure builders, one line each. What they mean is GNU coreutils' and systemd's own."""

from collections.abc import Iterable, Sequence

from state.drop_ins import drop_in_folders
from tasks.hosts.port import Argv
from tasks.script import must, render_sequence

STATE_DIR = "/var/lib/interlock"
"""Where interlock keeps its things on a host; root's alone (0700)."""

FENCE = f"{STATE_DIR}/fence"
"""The fencing number of the rollout that may change this host, or `reverted` after the host's own timer has acted."""

REVERTED = "reverted"

NEWEST = 50_000
"""Records that are read where no cursor says where to begin; a service may have logged for weeks."""

WRITE_VALUE = 'env printf %s "$2" > "$1"'
"""Shell text that writes a value to a file as it is: `sh -c WRITE_VALUE sh PATH VALUE`. sysfs wants exactly that.

coreutils' printf names the kernel's reason (`Device or resource busy`), the shell's own says `I/O error` to all.
"""

UNIT_PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "InvocationID",
    "MainPID",
    "NRestarts",
    "FragmentPath",
    "DropInPaths",
    "NeedDaemonReload",
    "ControlGroup",
    "ExecMainStatus",
    "ExecMainCode",
)


def place(service: str) -> str:
    """The service's own folder on the host."""
    return f"{STATE_DIR}/{service}"


def blob(service: str, digest: str) -> str:
    """Where the host keeps a file's content by its SHA-256, old and new alike."""
    return f"{place(service)}/blobs/{digest}"


def revert_script(service: str) -> str:
    return f"{place(service)}/revert.sh"


def revert_unit(service: str) -> str:
    """The dead-man's timer's name, without its suffix."""
    return f"interlock-revert-{service}"


def write(path: str, value: str) -> tuple[str, ...]:
    return ("sh", "-c", WRITE_VALUE, "sh", path, value)


def show(*units: str, properties: Sequence[str] = UNIT_PROPERTIES) -> Argv:
    """Of several units the answers come in their order, with an empty line between them."""
    return Argv(("systemctl", "show", f"--property={','.join(properties)}", "--", *units))


def cat(path: str) -> Argv:
    return Argv(("cat", "--", path))


def cat_as_root(path: str) -> Argv:
    return Argv(("cat", "--", path), root=True)


def unit_text(unit: str) -> Argv:
    return Argv(("systemctl", "cat", "--", unit))


def sha256(paths: Sequence[str]) -> Argv:
    """A line for each that can be read: its digest, two blanks, its path."""
    return Argv(("sha256sum", "--", *paths), root=True)


def stat(paths: Sequence[str]) -> Argv:
    """A line for each that is there: mode, owner, group, path."""
    return Argv(("stat", "--format=%a %U %G %n", "--", *paths))


def exists(path: str) -> Argv:
    return Argv(("test", "-e", path))


def is_link(path: str) -> Argv:
    return Argv(("test", "-L", path))


def executable(path: str) -> Argv:
    return Argv(("test", "-x", path))


def driver_link(address: str) -> Argv:
    return Argv(("readlink", "--", f"/sys/bus/pci/devices/{address}/driver"))


def group_link(address: str) -> Argv:
    return Argv(("readlink", "--", f"/sys/bus/pci/devices/{address}/iommu_group"))


def device_class(address: str) -> Argv:
    return cat(f"/sys/bus/pci/devices/{address}/class")


def listing(folder: str) -> Argv:
    return Argv(("ls", "--", folder))


def listed(address: str, kind: str) -> Argv:
    """What a PCI function offers of a kind: `net` (interfaces), `drm` (cards), `sound`, `vfio-dev`."""
    return Argv(("ls", "--", f"/sys/bus/pci/devices/{address}/{kind}"))


def interface_flags(address: str, name: str) -> Argv:
    return cat(f"/sys/bus/pci/devices/{address}/net/{name}/flags")


def nvidia_information(address: str) -> Argv:
    """The driver's own words about a GPU: UUID, and the number of its device file."""
    return cat(f"/proc/driver/nvidia/gpus/{address}/information")


def nvidia_identities() -> Argv:
    return Argv(("nvidia-smi", "--query-gpu=pci.bus_id,index,uuid,serial", "--format=csv,noheader"))


def quarantine(address: str) -> str:
    """A file whose presence keeps a PCI function out of all plans until a person removes it."""
    return f"{STATE_DIR}/quarantine/{address}"


def rebind_unit(address: str) -> str:
    """The unit in which one function moves; while it is stuck in the kernel no second one can start."""
    return f"interlock-rebind-{address}.service"


def group_type(group: str) -> Argv:
    return cat(f"/sys/kernel/iommu_groups/{group}/type")


def group_members(group: str) -> Argv:
    return Argv(("ls", "--", f"/sys/kernel/iommu_groups/{group}/devices"))


def listeners(port: int) -> Argv:
    return Argv(("ss", "-H", "-ltnp", f"sport = :{port}"), root=True)


def control_group(path: str) -> Argv:
    return cat(f"/sys/fs/cgroup{path}/cgroup.procs")


def memory_events(path: str) -> Argv:
    """Counts of a control group since it was made; `oom_kill` those that the OOM killer took (Linux, cgroup-v2.rst)."""
    return cat(f"/sys/fs/cgroup{path}/memory.events")


def cmdline(pid: int) -> Argv:
    return Argv(("cat", "--", f"/proc/{pid}/cmdline"), root=True)


def process_stat(pid: int) -> Argv:
    return cat(f"/proc/{pid}/stat")


def process_stats(pids: Iterable[int]) -> Argv:
    """One line for each process that is there, beginning with its PID (proc(5)); those that are not are no error of the
    others."""
    return Argv(("cat", "--", *(f"/proc/{pid}/stat" for pid in pids)))


def process_group(pid: int) -> Argv:
    return cat(f"/proc/{pid}/cgroup")


def environ(pid: int) -> Argv:
    return Argv(("cat", "--", f"/proc/{pid}/environ"), root=True)


def journal_end() -> Argv:
    """Prints the cursor of the journal's end, nothing else."""
    return Argv(("journalctl", "--no-pager", "--lines=0", "--show-cursor"), root=True)


def journal(unit: str, *, after: str = "", follow: bool = False, invocation: str = "") -> Argv:
    """A unit's records as JSON, one a line, long fields included (`--all`), systemd's own about it among them.

    The record at the cursor `after` is among them if it is of the unit: with a unit or another match, `--after-cursor`
    leaves out the first record that fits, whichever that is (journalctl 252).
    """
    words = ["journalctl", "--output=json", "--all", "--no-pager"]
    words.append(f"--cursor={after}" if after else f"--lines={NEWEST}")
    if follow:
        words.append("--follow")
    words += [f"_SYSTEMD_INVOCATION_ID={invocation}"] if invocation else [f"--unit={unit}"]
    return Argv(tuple(words), root=True)


def kernel_log(*, after: str = "") -> Argv:
    """The record at the cursor `after` is among them if it is the kernel's, for the reason that `journal` has."""
    words = ["journalctl", "--dmesg", "--output=short-iso", "--no-pager"]
    return Argv((*words, f"--cursor={after}") if after else tuple(words), root=True)


def holders(patterns: Sequence[str]) -> Argv:
    """Every open file descriptor and every mapping, of any process, of a device file that matches one of `patterns`."""
    names = [word for pattern in patterns for word in ("-o", "-lname", pattern)][1:]
    places = ("-path", "/proc/[0-9]*/fd/*", "-o", "-path", "/proc/[0-9]*/map_files/*")
    find = ("find", "/proc", "-maxdepth", "3", "(", *places, ")", "(", *names, ")", "-printf", "%p %l\\n")
    return Argv(find, root=True)


def drop_ins(unit: str) -> Argv:
    """The drop-in files that are on the disk, in the order of precedence: systemd may not have read them yet."""
    return Argv(("find", "-H", *drop_in_folders(unit), "-maxdepth", "1", "-name", "*.conf"))


def sets_variable(path: str, names: Sequence[str]) -> Argv:
    """Which of `names` a file of variables sets; grep prints those names and `=`, nothing else of the file."""
    wanted = rf"^[[:space:]]*({'|'.join(names)})[[:space:]]*="
    return Argv(("/bin/sh", "-c", render_sequence([must("grep", "-oE", "-e", wanted, "--", path)])), root=True)


def environs(pids: Iterable[int]) -> Argv:
    """Variables of all of these processes that are there, one after the other, not told apart."""
    return Argv(("cat", "--", *(f"/proc/{pid}/environ" for pid in pids)), root=True)


def verify_unit(path: str) -> Argv:
    return Argv(("systemd-analyze", "verify", path), root=True)


def free_bytes(path: str) -> Argv:
    return Argv(("df", "--output=avail", "-B1", "--", path))
