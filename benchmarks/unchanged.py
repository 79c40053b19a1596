"""Nothing to do: twenty files and thirty facts that are as they should be.

python -m benchmarks unchanged [--runs 5]
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peers
from benchmarks.contenders import COMMAND_LINE, PEER, bare, deploy, playbook
from benchmarks.record import Row, sample
from benchmarks.repeated import repeated
from benchmarks.stage import Bench, ContenderFailed, bench, call
from tasks.practice.scene import UNIT

FILES, FACTS = 20, 30
PROPERTIES = (
    "Id",
    "Names",
    "LoadState",
    "ActiveState",
    "SubState",
    "FragmentPath",
    "UnitFileState",
    "UnitFilePreset",
    "Type",
    "Restart",
    "NotifyAccess",
    "RestartUSec",
    "TimeoutStartUSec",
    "TimeoutStopUSec",
    "MainPID",
    "ControlPID",
    "Result",
    "UID",
    "GID",
    "NRestarts",
    "ExecMainPID",
    "ExecMainStatus",
    "Slice",
    "ControlGroup",
    "MemoryCurrent",
    "TasksCurrent",
    "KillMode",
    "KillSignal",
    "User",
    "InvocationID",
)
INTERLOCK = "interlock"


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds of the whole process, and of interlock those after its start-up with its round trips and the argvs that
    went in them."""

    tool: str
    total: float
    after_start: float | None = None
    round_trips: int | None = None
    questions: int | None = None


def furnish(made: Bench) -> list[dict[str, str]]:
    """Put the files on the host, and beside the tools."""
    listed = []
    for number in range(FILES):
        path, source = f"/etc/benchmark/{number:02}.conf", made.folder / f"{number:02}.conf"
        text = f"# file {number}\n" + "setting = value\n" * 50
        source.write_text(text, encoding="utf-8")
        made.stage.put(path, text)
        listed.append({"path": path, "source": str(source)})
    (made.folder / "files.json").write_text(json.dumps(listed), encoding="utf-8")
    return listed


async def interlock(made: Bench, manifest: Path) -> Run:
    argv = (sys.executable, "-m", "benchmarks.apply_files", str(manifest), str(made.folder / "files.json"))
    begun = time.perf_counter()
    status, said = await call(argv, made.environment(), made.folder)
    total = time.perf_counter() - begun
    if status != 0:
        raise ContenderFailed(said[-2000:])
    told = json.loads(said)
    if told["outcome"] != "unchanged":
        raise ContenderFailed(f"interlock found something to do: {told}")
    return Run(INTERLOCK, total, told["seconds"], told["round_trips"], told["questions"])


async def command_line(made: Bench, manifest: Path) -> Run:
    """The command itself, with the manifest's own file."""
    begun = time.perf_counter()
    status, said = await call(
        (*COMMAND_LINE, "apply", str(manifest), "--json", "--bare"), made.environment(), made.folder
    )
    total = time.perf_counter() - begun
    if status != 0:
        raise ContenderFailed(said[-2000:])
    return Run("interlock apply, its own unit alone", total)


async def peer(made: Bench, tool: str, files: Sequence[dict[str, str]]) -> Run:
    data = {"files": files, "facts": [f"systemctl show --property={name} --value -- {UNIT}" for name in PROPERTIES]}
    begun = time.perf_counter()
    if tool == "pyinfra":
        await deploy(made, PEER / "unchanged.py", {**data, "verified": str(made.folder / "verified")})
    else:
        await playbook(made, PEER / "unchanged.yml", data, mitogen=tool != "Ansible")
    return Run(tool, time.perf_counter() - begun)


async def measure(runs: int) -> list[Run]:
    found = list[Run]()
    peers.install("pyinfra", "ansible")
    with tempfile.TemporaryDirectory() as folder:
        async with bench(Path(folder)) as made:
            fraction = made.next_fraction()
            await bare(made, fraction)
            manifest, files = made.manifest(fraction), furnish(made)
            for number in range(runs + 1):
                round_ = [await interlock(made, manifest), await command_line(made, manifest)]
                round_ += [await peer(made, tool, files) for tool in ("pyinfra", "Ansible", "Ansible with Mitogen")]
                found += round_ if number else ()  # the first one compiles modules and fills caches
                print(*(f"{run.tool}: {run.total:.2f} s" for run in round_), sep=", ", file=sys.stderr)
    return found


def rows(found: Sequence[Run]) -> list[Row]:
    total = {t: sample([r.total for r in found if r.tool == t]) for t in dict.fromkeys(r.tool for r in found)}
    ours = [run for run in found if run.tool == INTERLOCK]
    after = sample([run.after_start for run in ours if run.after_start is not None])
    trips, questions = max(run.round_trips or 0 for run in ours), max(run.questions or 0 for run in ours)
    others = {tool: total[tool].text() for tool in total if tool != INTERLOCK}
    ratio = min(total[tool].median for tool in ("pyinfra", "Ansible")) / total[INTERLOCK].median
    return [
        Row(
            f"nothing to do: {FILES} files and {FACTS} facts, one host",
            "≤ 0.5 s after start-up, ≥ 5 × faster than pyinfra and Ansible",
            f"{total[INTERLOCK].text()}, {after.text()} after start-up; {ratio:.1f} × faster; {trips} round trips",
            peers=others,
            met=after.median <= 0.5 and ratio >= 5,
            note="the others run a command for each fact, as their playbook or deploy asks for it; interlock asks "
            f"for {questions} things of its own choice (properties of the unit and of processes, files' digests, modes "
            "and owners, the engine's version, its model's configuration) in its round trips.",
        )
    ]


def main(words: Sequence[str]) -> list[Row]:
    return repeated("unchanged", words, 5, measure, rows)
