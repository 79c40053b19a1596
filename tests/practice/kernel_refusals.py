"""What the kernel says to writes that it refuses, held against the practice machine and against a real one."""

import pytest

DRIVERS = "/sys/bus/pci/drivers"

REFUSALS = [
    pytest.param(f"{DRIVERS}/vfio-pci/unbind", "{bound}", "No such device", id="unbind-from-a-driver-it-is-not-on"),
    pytest.param(f"{DRIVERS}/vfio-pci/bind", "{bound}", "No such device", id="bind-while-bound"),
    pytest.param("/sys/bus/pci/drivers_probe", "0000:ff:00.0", "No such device", id="probe-of-nothing"),
    pytest.param("/sys/kernel/iommu_groups/{group}/type", "identity", "Device or resource busy", id="retype-bound"),
    pytest.param("/sys/kernel/iommu_groups/{group}/type", "magic", "Invalid argument", id="no-such-type"),
]
"""Path, value and the kernel's reason; `bound` is on its own driver, alone in `group`."""
