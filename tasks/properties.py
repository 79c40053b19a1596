"""Reading what systemd, coreutils and /proc print."""

import re


def properties(text: str) -> dict[str, str]:
    """`systemctl show` output as a dict."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def words_of(cmdline: bytes) -> tuple[str, ...]:
    """The argv in a `/proc/PID/cmdline`; empty for a process that is gone."""
    return tuple(word.decode("utf-8", "surrogateescape") for word in cmdline.split(b"\0")[:-1])


def variables_of(environ: bytes) -> dict[str, str]:
    """The environment in a `/proc/PID/environ`."""
    pairs = (item.partition(b"=") for item in environ.split(b"\0") if b"=" in item)
    return {k.decode("utf-8", "replace"): v.decode("utf-8", "replace") for k, _, v in pairs}


def pids_of(text: str) -> tuple[int, ...]:
    """The PIDs in a `cgroup.procs`."""
    return tuple(int(word) for word in text.split() if word.isdigit())


def cursor_of(text: str) -> str:
    """The cursor that `journalctl --show-cursor` prints on its last line (`-- cursor: s=…`); empty if none."""
    match = re.search(r"^-- cursor: (\S+)$", text, re.M)
    return match[1] if match else ""


def listeners_of(text: str) -> tuple[tuple[str, int], ...]:
    """(program, PID) of every listener in `ss -H -ltnp` output; a listener whose owner is not shown has PID 0."""
    found: list[tuple[str, int]] = []
    for line in text.splitlines():
        owners = re.findall(r'\("([^"]*)",pid=(\d+)', line)
        found += [(name, int(pid)) for name, pid in owners] if owners else [("", 0)] * bool(line.strip())
    return tuple(dict.fromkeys(found))
