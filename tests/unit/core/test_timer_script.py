"""What the host does by itself when nobody renews its timer."""

from pathlib import Path

import pytest
from core_samples import GPUS, OLD, PATH, PORT, UNIT, observation, revision, unit

from state.observation import Observation
from state.plan import steps_between
from state.steps import NATIVE, ArmTimer, DriverMove, FileState
from tasks.argv import blob, revert_unit
from tasks.script import Line, may, must
from tasks.timer import placing, rebinding, restoring, writes
from tasks.timer_units import removed

DEVICE = f"/sys/bus/pci/devices/{GPUS[0]}"


def timer(observed: Observation = OLD) -> ArmTimer:
    (only,) = [s for s in steps_between(revision(), observed, PORT) if isinstance(s, ArmTimer)]
    return only


def programs(lines: list[Line]) -> list[str]:
    return [line.words[1] if line.words[0] == "systemctl" else line.words[0] for line in lines]


def test_the_fence_is_taken_first_and_only_the_timers_own_files_go_after_the_service_is_up() -> None:
    lines = restoring(timer())
    assert [line.mode for line in lines[:2]] == ["must", "must"]
    assert "/var/lib/interlock/fence" in lines[1].words
    assert {line.mode for line in lines[2:]} == {"may"}
    assert lines[2].words == ("systemctl", "stop", "--", UNIT)
    up = [line.words for line in lines].index(("systemctl", "start", "--", UNIT))
    assert lines[up + 1 :] == [may("systemctl", "stop", "--", f"{revert_unit('qwen')}.timer"), *removed("qwen")]
    assert programs(lines).index("daemon-reload") < programs(lines).index("start")


def test_old_contents_come_from_the_hosts_own_copy() -> None:
    digest = OLD.files[0].digest
    assert digest is not None
    installed = [line.words for line in restoring(timer()) if line.words[0] == "install"]
    assert [blob("qwen", digest) in words for words in installed] == [True]


def test_gpus_go_back_to_their_old_drivers() -> None:
    move = DriverMove(address=GPUS[0], before="nvidia", after="vfio-pci")
    assert rebinding(move) in restoring(timer())


def test_a_service_that_was_down_stays_down() -> None:
    down = observation(files=(), argv=None, unit=unit(active_state="inactive"))
    lines = restoring(timer(down))
    assert not [line for line in lines if line.words[:2] == ("systemctl", "start")]
    assert may("rm", "-f", "--", PATH) in lines


@pytest.mark.parametrize("line", [may, must])
def test_a_file_is_put_in_place_whole_or_not_at_all(line: object) -> None:
    state = FileState(path=PATH, digest="d" * 64, mode=0o640, owner="sglang", group="root")
    install, sync, move = placing("qwen", state, line)  # type: ignore[arg-type]  # either maker
    fresh = f"{PATH}.interlock-new"
    assert install.words[:7] == ("install", "-m", "640", "-o", "sglang", "-g", "root")
    assert install.words[-1] == fresh
    assert sync.words == ("sync", "--", fresh)
    assert move.words == ("mv", "-T", "-f", "--", fresh, PATH)


def test_an_absent_file_is_removed() -> None:
    assert placing("qwen", FileState(path=PATH, digest=None)) == [must("rm", "-f", "--", PATH)]


@pytest.mark.parametrize(
    ("before", "after", "written"),
    [
        pytest.param("nvidia", "vfio-pci", ["override vfio-pci", "unbind nvidia", "probe"], id="from one to another"),
        pytest.param(None, "nvidia", ["override nvidia", "probe"], id="from none"),
        pytest.param("nvidia", None, ["override ", "unbind nvidia"], id="to none"),
        pytest.param("vfio-pci", NATIVE, ["override ", "unbind vfio-pci", "probe"], id="to the kernel's choice"),
        pytest.param(NATIVE, "vfio-pci", ["override vfio-pci", f"unbind {GPUS[0]}/driver", "probe"], id="from it"),
    ],
)
def test_a_function_is_moved_by_its_address(before: str | None, after: str | None, written: list[str]) -> None:
    seen = []
    for line in writes(DriverMove(address=GPUS[0], before=before, after=after)):
        path, value = line.words[-2:]
        name = Path(path).name
        if name == "driver_override":
            assert path.startswith(DEVICE)
            seen.append(f"override {value.strip()}")
        else:
            assert value == GPUS[0]
            place = path.removeprefix("/sys/bus/pci/drivers/").removeprefix("/sys/bus/pci/devices/")
            seen.append("probe" if name == "drivers_probe" else f"unbind {place.removesuffix('/unbind')}")
    assert seen == written


def test_a_move_is_waited_for_and_then_left_behind_in_a_unit_of_its_own() -> None:
    line = rebinding(DriverMove(address=GPUS[0], before="nvidia", after="vfio-pci"))
    assert line.mode == "may"
    assert line.words[:3] == ("timeout", "40", "systemd-run")
    assert f"--unit=interlock-rebind-{GPUS[0]}.service" in line.words
