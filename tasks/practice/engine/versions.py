"""What differs between SGLang versions, as questions to a `Version` (0.5.4 to 0.5.23, from source)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

DEFAULT = "0.5.20"
DEFAULTS = {"sglang": DEFAULT, "vllm": "0.29.0", "llamacpp": "b9849"}


class Version(NamedTuple):
    """A release number; `.post1` and the like are dropped, as nothing here depends on them."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def prog(self) -> str:
        """The program's name in argparse's messages."""
        return "sglang serve" if self >= (0, 5, 10) else "launch_server.py"

    @property
    def warns_of_legacy_entry(self) -> bool:
        return self >= (0, 5, 10)

    @property
    def arguments_are_a_dict(self) -> bool:
        """`server_args={…}` rather than `server_args=ServerArgs(…)`."""
        return self >= (0, 5, 19)

    @property
    def has_speculation_v2_switch(self) -> bool:
        """SGLANG_ENABLE_SPEC_V2 decides between two workers."""
        return self < (0, 5, 14)

    @property
    def speculation_v2_by_default(self) -> bool:
        return self >= (0, 5, 11)

    @property
    def strategy_field(self) -> str:
        """The argument that says how Mamba state lives in the radix cache."""
        return "mamba_radix_cache_strategy" if self >= (0, 5, 14) else "mamba_scheduler_strategy"

    @property
    def new_graph_lines(self) -> bool:
        return self >= (0, 5, 14)

    def logged_accept_rate(self, accept_length: float, steps: int, draft_tokens: int) -> float:
        """The rate in decode lines for a mean accept length with its bonus token."""
        if self < (0, 5, 5):
            return accept_length / (steps + 1)
        if self < (0, 5, 11):
            return accept_length / draft_tokens
        return (accept_length - 1) / (draft_tokens - 1)


def parse_version(text: str) -> Version:
    """ValueError where `text` does not begin with three numbers; llama.cpp's build b9849 is 0.0.9849."""
    if build := re.fullmatch(r"b(\d+)", text):
        return Version(0, 0, int(build[1]))
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        raise ValueError(f"not a version: {text!r}")
    return Version(*(int(part) for part in match.groups()))


def version_among(names: Iterable[str], engine: str = "sglang") -> str:
    """The version that a `sglang-*.dist-info` among the names of a folder tells; the default where there is none."""
    found = sorted(name for name in names if name.startswith(f"{engine}-") and name.endswith(".dist-info"))
    return found[-1][len(f"{engine}-") : -len(".dist-info")] if found else DEFAULTS[engine]
