"""Marks of what a server drives: its successor on the same data directory goes on at once after it was killed."""

from pathlib import Path


class Marks:
    """A file for each rollout under way, holding the number of the session that drives it. A mark that is lost costs
    the successor the wait for a lease, nothing else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def set(self, rollout: str, session: int) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / rollout).write_text(str(session), encoding="ascii")

    def remove(self, rollout: str) -> None:
        (self._folder / rollout).unlink(missing_ok=True)

    def all(self) -> dict[str, int]:
        """Rollouts with their sessions; whatever is no mark is left out."""
        if not self._folder.is_dir():
            return {}
        found = {path.name: path.read_text(encoding="ascii", errors="replace") for path in self._folder.iterdir()}
        return {name: int(text) for name, text in found.items() if text.isdecimal()}
