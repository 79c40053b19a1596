"""What the virtual machine's image is made of, read from apt's and kmod's words."""

import pytest

from state.errors import Refused
from tasks.lab.vm_image import kernel_package, needed

DEPENDENCIES = """kernel/drivers/virtio/virtio_pci.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/ring.ko
kernel/drivers/virtio/virtio.ko:
kernel/drivers/virtio/ring.ko: kernel/drivers/virtio/virtio.ko
kernel/drivers/vfio/pci/vfio-pci.ko.xz: kernel/drivers/vfio/vfio.ko.xz
kernel/drivers/vfio/vfio.ko.xz:
kernel/drivers/net/other.ko:
"""


def test_the_kernel_is_the_one_that_the_package_of_all_kernels_stands_for() -> None:
    text = "linux-image-amd64\n  Depends: linux-image-6.1.0-57-amd64\n  Suggests: something\n"
    assert kernel_package(text) == "linux-image-6.1.0-57-amd64"


def test_without_debians_kernel_the_machine_is_refused() -> None:
    with pytest.raises(Refused, match="apt knows no linux-image-amd64"):
        kernel_package("E: No packages found\n")


@pytest.mark.parametrize(
    ("module", "files"),
    [
        pytest.param("virtio_pci", ["ring.ko", "virtio.ko", "virtio_pci.ko"], id="with what it needs"),
        pytest.param("vfio_pci", ["vfio-pci.ko.xz", "vfio.ko.xz"], id="whatever its file is called"),
    ],
)
def test_a_module_is_copied_with_what_it_depends_on(module: str, files: list[str]) -> None:
    assert sorted(path.rpartition("/")[2] for path in needed(DEPENDENCIES, [module])) == files
