"""The NVIDIA driver as the kernel has loaded it against the user-space library that a new start would load."""

import re

from tasks.argv import cat
from tasks.hosts.port import Argv, Host
from tasks.sequence import READ_TIMEOUT_S

MODULE = "/sys/module/nvidia/version"
LIBRARIES = tuple(
    f"/usr/{folder}/libcuda.so.1" for folder in ("lib/x86_64-linux-gnu", "lib64", "lib/aarch64-linux-gnu")
)
"""Where Debian's and Red Hat's packages put the link to `libcuda.so.VERSION`. What a container brings is not seen."""

_VERSION = re.compile(r"\d+(?:\.\d+)+")


async def driver_refusals(host: Host) -> list[str]:
    """One sentence where the two versions differ, as after an update without a reboot: what runs goes on, and the next
    start fails of it. Reads only; a host without either of them has nothing to refuse."""
    asked = [cat(MODULE), *(Argv(("readlink", "--", path)) for path in LIBRARIES)]
    loaded, *links = await host.run_all(asked, timeout_s=READ_TIMEOUT_S)
    named = next((link.text.strip().rpartition("/")[2] for link in links if link.ok), "")
    kernel, library = loaded.text.strip() if loaded.ok else "", named.removeprefix("libcuda.so.")
    if kernel == library or not (_VERSION.fullmatch(kernel) and _VERSION.fullmatch(library)):
        return []
    return [
        f"the NVIDIA driver in the kernel of {host.name} is {kernel}, its libcuda is {library}: the next start would "
        "fail of that; reload the driver's modules or reboot first"
    ]
