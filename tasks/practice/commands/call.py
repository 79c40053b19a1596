"""One program's run on the practice machine: its words, its user, and what it may touch."""

import errno
import functools
import getopt
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.hosts.port import Completed
from tasks.practice.files import Entry, Files, refusal

if TYPE_CHECKING:
    from tasks.practice.host import PracticeMachine


@dataclass(frozen=True, slots=True)
class Call:
    """A program's words and surroundings. Root may do everything, others what the mode bits say."""

    machine: "PracticeMachine"
    words: tuple[str, ...]
    user: str
    stdin: bytes = b""

    @property
    def root(self) -> bool:
        return self.user == "root"

    @property
    def files(self) -> Files:
        return self.machine.files

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2]

    def of(self, words: Sequence[str], *, user: str | None = None, stdin: bytes | None = None) -> "Call":
        return Call(
            self.machine,
            tuple(words),
            self.user if user is None else user,
            self.stdin if stdin is None else stdin,
        )

    def read(self, path: str) -> bytes:
        """A file's content; OSError as the kernel would for this user."""
        entry = self.files.stat(self.absolute(path))
        if not self._permits(entry, 4):
            raise refusal(errno.EACCES, path)
        return self.files.read(self.absolute(path))

    def must_change(self, path: str) -> None:
        """Raises OSError unless this user may create, replace or remove the name `path`."""
        parent = self.absolute(path).rpartition("/")[0] or "/"
        if not self._permits(self.files.stat(parent), 2):
            raise refusal(errno.EACCES, path)

    def must_write(self, path: str) -> None:
        """Raises OSError unless this user may write to the file `path`, or create it."""
        if not self.files.exists(self.absolute(path)):
            self.must_change(path)
        elif not self._permits(self.files.stat(self.absolute(path)), 2):
            raise refusal(errno.EACCES, path)

    def absolute(self, path: str) -> str:
        home = "/root" if self.root else f"/home/{self.user}"
        return path if path.startswith("/") else f"{home}/{path}"

    def _permits(self, entry: Entry, bit: int) -> bool:
        shift = 6 if entry.owner == self.user else 0
        return self.root or bool(entry.mode >> shift & bit)


Program = Callable[[Call], Awaitable[Completed]]
Table = dict[str, Program]


def options(call: Call, short: str = "", long: Sequence[str] = ()) -> tuple[dict[str, str], list[str]]:
    """Options (without dashes) and operands, GNU style; getopt.GetoptError for an unknown one."""
    given, operands = _parted(call.words[1:], short, tuple(long))
    return dict(given), list(operands)


@functools.lru_cache(maxsize=1024)
def _parted(
    words: tuple[str, ...], short: str, long: tuple[str, ...]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """The same words come again and again."""
    given, operands = getopt.gnu_getopt(list(words), short, list(long))
    return tuple((name.lstrip("-"), value) for name, value in given), tuple(operands)


def said(call: Call, text: str, status: int = 1, stdout: bytes = b"") -> Completed:
    """The program's complaint, prefixed with its name as GNU programs do."""
    return Completed(status, stdout, f"{call.program}: {text}\n".encode())


def words_of(error: OSError) -> str:
    return error.strerror or str(error)


def ok(stdout: bytes | str = b"") -> Completed:
    return Completed(0, stdout.encode() if isinstance(stdout, str) else stdout)
