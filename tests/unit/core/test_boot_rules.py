"""The driver map at boot: which functions, what becomes of the file, and in which steps."""

import pytest
from core_samples import GPUS, OLD, PORT, UNIT, file, gpus, observation, revision

from state.boot_rules import boot_change, guests, is_ours, kept_by, path_of, rules
from state.canonical import sha256_hex
from state.observation import ObservedFile, ObservedGpu, ObservedMember
from state.plan import steps_between
from state.plan_text import describe
from state.steps import ArmTimer, InstallFiles, StageFiles

PATH = "/etc/udev/rules.d/61-interlock-qwen.rules"
ONE, TWO = GPUS
MAP = {ONE: "vfio-pci", TWO: "nvidia"}
TEXT = rules("qwen", [ONE])
ABSENT = ObservedFile(path=PATH, digest=None)


def test_the_text_names_addresses_alone_and_leaves_bound_functions_alone() -> None:
    assert rules("qwen", ["0000:91:00.0", "0000:81:00.0"]) == (
        "# By interlock, for the service qwen: its manifest says `persist: boot`.\n"
        "# These functions are kept for vfio-pci; one that has a driver already is left with it.\n"
        'ACTION!="add", GOTO="interlock_end"\n'
        'SUBSYSTEM!="pci", GOTO="interlock_end"\n'
        'TEST=="/sys/bus/pci/devices/0000:81:00.0", TEST!="/sys/bus/pci/devices/0000:81:00.0/driver", '
        'ATTR{[pci/0000:81:00.0]driver_override}="vfio-pci"\n'
        'TEST=="/sys/bus/pci/devices/0000:91:00.0", TEST!="/sys/bus/pci/devices/0000:91:00.0/driver", '
        'ATTR{[pci/0000:91:00.0]driver_override}="vfio-pci"\n'
        'KERNEL!="0000:81:00.0|0000:91:00.0", GOTO="interlock_end"\n'
        'TEST!="driver", RUN{builtin}+="kmod load vfio-pci"\n'
        """TEST!="driver", RUN{program}+="/bin/sh -c 'echo $kernel > /sys/bus/pci/drivers_probe'"\n"""
        'LABEL="interlock_end"\n'
    )


def test_what_was_written_is_read_again() -> None:
    assert kept_by(rules("qwen", GPUS) or "") == set(GPUS)
    assert kept_by(OTHERS) == frozenset()


OTHERS = 'ACTION=="add", SUBSYSTEM=="pci", ATTR{vendor}=="0x10de", ATTR{driver_override}="vfio-pci"'


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        pytest.param(PATH, True, id="ours"),
        pytest.param("/etc/udev/rules.d/70-persistent-net.rules", False, id="somebody-elses"),
        pytest.param(f"{PATH}.interlock-new", False, id="not-yet-in-its-place"),
    ],
)
def test_which_files_are_ours(path: str, ours: bool) -> None:
    assert is_ours(path) is ours


def test_no_function_no_file() -> None:
    assert rules("qwen", []) is None


def test_the_file_is_read_before_the_drivers_are_loaded() -> None:
    assert path_of("qwen") == PATH
    assert sorted(["80-drivers.rules", PATH.rpartition("/")[2]])[1] == "80-drivers.rules"


SOUND = ObservedMember(address="0000:01:00.1", driver="snd_hda_intel", pci_class="0x040300")
BRIDGE = ObservedMember(address="0000:00:01.0", driver="pcieport", pci_class="0x060400")
WITH_SOUND = ObservedGpu(address=ONE, present=True, driver="nvidia", members=(SOUND, BRIDGE))


@pytest.mark.parametrize(
    ("drivers", "kept"),
    [
        pytest.param(MAP, {ONE, SOUND.address}, id="its-other-functions-go-with-it"),
        pytest.param({ONE: "nvidia", TWO: "nvidia"}, set(), id="none-for-the-serving-driver"),
        pytest.param({**MAP, SOUND.address: "snd_hda_intel"}, {ONE}, id="but-not-one-that-the-map-has-elsewhere"),
    ],
)
def test_which_functions_are_kept(drivers: dict[str, str], kept: set[str]) -> None:
    seen = observation(gpus=(WITH_SOUND, *gpus("nvidia", "nvidia")[1:]))
    assert guests(revision(drivers=drivers), seen) == kept


@pytest.mark.parametrize(
    ("changes", "boot", "digests"),
    [
        pytest.param({"persist": "boot"}, ABSENT, (None, TEXT), id="written"),
        pytest.param({"persist": "boot"}, None, (None, TEXT), id="written-where-it-was-not-looked-for"),
        pytest.param({"persist": "boot"}, file("other\n", path=PATH), ("other\n", TEXT), id="replaced"),
        pytest.param({"persist": "boot"}, file(TEXT, path=PATH), None, id="as-wanted"),
        pytest.param({"persist": "boot"}, file(TEXT, path=PATH, mode=0o600), (TEXT, TEXT), id="mode-alone"),
        pytest.param({"persist": "none"}, file(TEXT, path=PATH), (TEXT, None), id="removed"),
        pytest.param({"persist": "none"}, file(TEXT, path=PATH, mode=0o600), (TEXT, None), id="removed-with-any-mode"),
        pytest.param({"persist": "none"}, ABSENT, None, id="none-and-none-there"),
        pytest.param(
            {"persist": "boot", "drivers": dict.fromkeys(GPUS, "nvidia")},
            file(TEXT, path=PATH),
            (TEXT, None),
            id="removed-when-nothing-is-left-for-a-guest",
        ),
        pytest.param({"drivers": {}, "gpu_host": None}, file(TEXT, path=PATH), None, id="no-map-no-opinion"),
    ],
)
def test_what_becomes_of_the_file(
    changes: dict[str, object], boot: ObservedFile | None, digests: tuple[str | None, str | None] | None
) -> None:
    found = boot_change(revision(**({"drivers": MAP} | changes)), observation(boot=boot))
    if digests is None:
        assert found == ()
        return
    (change,) = found
    assert (change.before.digest, change.after.digest) == tuple(t and sha256_hex(t.encode()) for t in digests)
    assert (change.after.path, change.after.owner, change.after.group) == (PATH, "root", "root")
    assert change.after.mode == 0o644


RUNNING = observation(gpus=gpus("vfio-pci", "nvidia"), boot=ABSENT)
APART = {"gpu_host": "hypervisor", "drivers": MAP, "persist": "boot"}


def test_the_file_is_written_before_the_moves_on_the_gpu_host() -> None:
    steps = steps_between(revision(**APART), OLD.model_copy(update={"gpus": gpus("nvidia", "nvidia")}), PORT)
    assert [(s.kind, s.host) for s in steps] == [
        ("stage-files", "serving"),
        ("stage-files", "hypervisor"),
        ("arm-timer", "serving"),
        ("arm-timer", "hypervisor"),
        ("stop-service", "serving"),
        ("install-files", "hypervisor"),
        ("rebind-gpus", "hypervisor"),
        ("install-files", "serving"),
        ("start-service", "serving"),
    ]
    timer = steps[3]
    assert isinstance(timer, ArmTimer)
    assert [c.after.path for c in timer.files] == [PATH]
    assert [m.address for m in timer.moves] == [ONE]


@pytest.mark.parametrize(
    ("host", "place"),
    [pytest.param("hypervisor", "qwen:gpus", id="apart"), pytest.param("serving", "qwen", id="one-host")],
)
def test_persistence_alone_leaves_the_service_alone(host: str, place: str) -> None:
    steps = steps_between(revision(**(APART | {"gpu_host": host})), RUNNING, PORT)
    staged, timer, installed = steps
    assert isinstance(staged, StageFiles)
    assert isinstance(timer, ArmTimer)
    assert isinstance(installed, InstallFiles)
    assert {s.host for s in steps} == {host}
    assert {staged.service, timer.service, installed.service} == {place}
    assert (timer.unit, timer.start, installed.unit) == ("", False, "")
    assert staged.texts == {sha256_hex((TEXT or "").encode()): TEXT}
    assert describe(steps, "") == (
        f"upload {PATH} beside the old and read back by SHA-256",
        f"arm the timer on {host} that restores the old rules for the boot after 300 s without renewal",
        f"create {PATH} on {host}: the driver map outlives a boot",
    )


def test_a_removal_is_told_and_its_inverse_brings_the_file_back() -> None:
    seen = RUNNING.model_copy(update={"boot": file(TEXT, path=PATH)})
    steps = steps_between(revision(**(APART | {"persist": "none"})), seen, PORT)
    assert describe(steps, "")[0] == f"keep a copy of {PATH} and read it back by SHA-256"
    assert describe(steps, "")[2] == f"remove {PATH} on hypervisor: at a boot the kernel chooses the drivers"
    inverse = steps[2].inverse()
    assert isinstance(inverse, InstallFiles)
    assert inverse.changes[0].after.digest == sha256_hex((TEXT or "").encode())


def test_a_service_that_must_start_has_one_timer_with_all_files() -> None:
    steps = steps_between(revision(drivers=MAP, persist="boot"), OLD, PORT)
    (timer,) = [s for s in steps if isinstance(s, ArmTimer)]
    assert [c.after.path for c in timer.files] == [f"/etc/systemd/system/{UNIT}", PATH]


def test_the_rules_are_part_of_what_a_plan_rests_on() -> None:
    assert RUNNING.digest != RUNNING.model_copy(update={"boot": file(TEXT, path=PATH)}).digest
    assert RUNNING.digest == RUNNING.model_copy(update={"boot": None}).digest
