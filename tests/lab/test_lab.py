"""The lab itself: what it needs, where its tree comes from, and that it leaves nothing behind."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from state.errors import NotFound, StepFailed
from tasks.lab import container, guard, lab, needs, record, vm_image, wire
from tasks.lab.claim import claimed, held, take
from tasks.lab.layer import SUDOERS, Furnishing
from tasks.lab.needs import PACKAGES, SYSTEM_DIRS, cgroup_mount, cgroup_mounts, lacking
from tasks.lab.record import LabHost, recorded
from tasks.lab.tree import chosen_mirror, tree_path
from tests.lab.leavings import traces

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/sudoers.md"
HYBRID = "cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
TARGETS = """\
mirror:/list stable main
http://mirror.example/debian/ bookworm-updates main
http://mirror.example/debian/ bookworm contrib
http://mirror.example/debian/ bookworm main
http://other.example/debian/ bookworm main
"""


@pytest.mark.parametrize(
    ("root", "packages", "cgroup2", "sentence"),
    [
        pytest.param(True, [], True, "", id="nothing-is-missing"),
        pytest.param(False, [], True, "there is no root's power", id="not-root"),
        pytest.param(True, ["debootstrap"], True, "there is no Debian package debootstrap", id="a-package"),
        pytest.param(
            False,
            ["debootstrap", "nftables"],
            False,
            "there is no root's power, no Debian package debootstrap, nftables, no mounted cgroup2 hierarchy",
            id="all-at-once",
        ),
    ],
)
def test_what_is_missing_is_one_sentence(root: bool, packages: list[str], cgroup2: bool, sentence: str) -> None:
    said = lacking(root=root, packages=packages, cgroup2=cgroup2)
    assert said == (f"No container host can be booted here: {sentence}" if sentence else "")


@pytest.mark.parametrize(
    ("options", "sentence", "packages"),
    [
        pytest.param((), "No container host can be booted here: there is no ", PACKAGES, id="container"),
        pytest.param(("--pci",), "A virtual machine host needs ", vm_image.PACKAGES, id="virtual-machine"),
    ],
)
def test_a_machine_without_the_packages_is_refused_with_exit_code_3(
    tmp_path: Path, options: Sequence[str], sentence: str, packages: Mapping[str, str]
) -> None:
    words = [sys.executable, "-c", "from deployments.cli import main; main()", "lab", "up", *options]
    done = subprocess.run(words, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: {sentence}")
    elsewhere = {package for program, package in packages.items() if not in_system_dirs(program)}
    assert elsewhere
    assert all(package in done.stderr for package in elsewhere)
    assert done.stdout == ""


def in_system_dirs(program: str) -> bool:
    return shutil.which(program, path=os.pathsep.join(SYSTEM_DIRS)) is not None


def test_a_program_for_root_is_found_by_a_user_whose_path_lacks_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("bin", "sbin"):
        (tmp_path / folder).mkdir()
    (tmp_path / "sbin/nft").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(needs, "SYSTEM_DIRS", (str(tmp_path / "sbin"),))
    assert needs.missing_packages({"nft": "nftables", "debootstrap": "debootstrap"}) == ["debootstrap"]
    assert needs.environment()["PATH"] == f"{tmp_path}/bin:{tmp_path}/sbin"


@pytest.mark.parametrize(
    ("release", "mirror"),
    [
        pytest.param("bookworm", "http://mirror.example/debian/", id="the-first-that-has-the-release-itself"),
        pytest.param("trixie", None, id="none-has-it"),
        pytest.param("stable", None, id="not-of-a-kind-that-debootstrap-reads"),
    ],
)
def test_the_mirror_is_apts_own(release: str, mirror: str | None) -> None:
    assert chosen_mirror(TARGETS, release) == mirror


def test_the_second_version_of_cgroups_is_found_beside_the_first() -> None:
    assert cgroup_mount(HYBRID) == Path("/sys/fs/cgroup/unified")
    assert cgroup_mounts(HYBRID) == [Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup/unified")]
    assert cgroup_mount("proc /proc proc rw 0 0\n") is None


def test_a_tree_is_named_after_release_and_recipe() -> None:
    one, other = tree_path(Path("/x"), "bookworm"), tree_path(Path("/x"), "trixie")
    assert one.parent == Path("/x")
    assert one.name.rpartition("-")[2] == other.name.rpartition("-")[2]
    assert one != other


def test_the_hosts_have_the_documented_sudoers_list() -> None:
    fenced = PAGE.read_text().partition("```sudoers\n")[2].partition("```")[0]
    assert fenced == SUDOERS


def test_hosts_have_names_and_addresses_of_their_own() -> None:
    hosts = [LabHost(number) for number in (1, 2, 250)]
    assert len({(h.name, h.link, h.address, h.outside, h.folder) for h in hosts}) == 3
    assert all(len(host.link) < 16 for host in hosts)  # what Linux lets an interface be called


def test_a_host_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound, match="There is no container host `lab-0`"):
        lab.find("lab-0")


def test_a_folder_is_held_by_one_alone_and_by_none_once_it_is_another_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "RUN_DIR", tmp_path / "run")
    with claimed(2) as (one, other):
        assert (one.number, other.number) == (1, 2)
        with held(one) as ours:
            assert not ours
    folder = os.open(one.folder, os.O_RDONLY)
    with held(one) as ours:
        assert ours
        assert not take(folder, one)
    assert take(folder, one)
    one.folder.rmdir()
    assert not take(folder, one)
    with claimed(1) as (again,):
        assert again == one
        assert not take(folder, one)
    os.close(folder)
    with held(LabHost(9)) as ours:
        assert not ours


@pytest.mark.parametrize(
    ("text", "group"),
    [
        pytest.param("0::/user.slice/session-1.scope\n", "/user.slice/session-1.scope", id="the-second-version-alone"),
        pytest.param("2:cpu:/a\n1:name=systemd:/b\n0::/\n", "/", id="beside-the-first"),
    ],
)
def test_a_guard_knows_where_it_came_from(text: str, group: str) -> None:
    assert guard.own_group(text) == group


@pytest.mark.lab
async def test_a_host_is_up_when_its_systemd_says_so_and_leaves_nothing() -> None:
    (made,) = await lab.up([Furnishing()], tied=True)
    try:
        assert traces(made)
        assert made in lab.running()
        up = await container.execute(made, ("systemctl", "is-system-running"))
        assert up.text.strip() in ("running", "starting")  # the engine's own start may be under way
        assert (await container.execute(made, ("systemctl", "--failed", "--no-legend"))).text == ""
        assert container.root(made).joinpath("etc/hostname").read_text() == f"{made.name}\n"
    finally:
        lab.down_one(made)
    assert traces(made) == []
    assert made not in recorded()
    with pytest.raises(StepFailed, match=f"{made.name} does not run"):
        wire.cut(made)


@pytest.mark.lab
async def test_each_host_is_in_a_cgroup_of_its_own_so_that_a_stop_reaches_all() -> None:
    """With one cgroup for all hosts, a unit's stop reaches its main process alone."""
    made = await lab.up([Furnishing(enabled=False)] * 2, tied=True)
    try:
        for host in made:
            children = ("sh", "-c", "sleep 300 & sleep 300 & wait")
            await container.execute(host, ("systemd-run", "--unit=many", "--property=Type=exec", "--", *children))
        listed = ("cat", "/sys/fs/cgroup/system.slice/many.service/cgroup.procs")
        assert [len((await container.execute(host, listed)).text.split()) for host in made] == [3, 3]
        await container.execute(made[0], ("systemctl", "stop", "many"))
        assert [(await container.execute(host, listed)).ok for host in made] == [False, True]
        log = await container.execute(made[0], ("journalctl", "--no-pager", "--unit=many"))
        assert "Failed to kill control group" not in log.text
    finally:
        for host in made:
            lab.down_one(host)


@pytest.mark.lab
async def test_a_host_that_does_not_boot_says_why_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "RAM_DISK", "size=no")
    with pytest.raises(StepFailed, match=r"lab-\d+ did not come up: .*mount") as failed:
        await lab.up([Furnishing()], tied=True)
    number = int(str(failed.value).partition("lab-")[2].split()[0])
    # another test may be booting a host of that number; a leftover would stay as it is
    patience = AsyncRetrying(retry=retry_if_result(bool), wait=wait_fixed(0.2), stop=stop_after_delay(60))
    assert not await patience(_half_booted, number)


async def _half_booted(number: int) -> bool:
    return any(host.number == number and not host.pid for host in recorded())
