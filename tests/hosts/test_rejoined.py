"""A transient unit that is found again: what is asked beside it is asked with no more rights than it needs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tasks.hosts.port import Argv, Completed
from tasks.hosts.privilege import one_root
from tasks.sequence import Fence, run_unit

ACTIVE = b"ActiveState=active\n"


@dataclass
class Joined:
    """Answers as a host on which the unit has ended already, and keeps what was asked."""

    name: str = "serving"
    asked: list[tuple[Argv, ...]] = field(default_factory=list)

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        self.asked.append(tuple(argvs))
        return tuple(
            Completed(1, b"", b"Unit x.service was already loaded.\n")
            if argv.words[0] == "systemd-run"
            else Completed(0, ACTIVE)
            for argv in argvs
        )


async def test_questions_that_are_asked_again_are_asked_as_they_were_meant() -> None:
    host = Joined()
    stat, digest = Argv(("stat", "--", "/etc/x")), Argv(("sha256sum", "--", "/etc/x"), root=True)
    await run_unit(host, Fence("r1", 7), "do:3:install-files", [], timeout_s=5, then=[stat, digest])  # type: ignore[arg-type]  # of a host it takes this alone
    first, again = host.asked
    assert one_root(first), "with the change all of it goes under one sudo"
    assert again[:2] == (stat, digest), "without it sudo is asked for each, and grants no stat"
    assert not one_root(again)
