"""Who does the job: each takes a host's service to another unit, and says when it had verified one fact of its log."""

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import peers, plain_ssh
from benchmarks.stage import HERE, Bench, ContenderFailed, call, own_environment
from flows.settings import Settings
from flows.wiring import wired
from state.events import Judged, ReadinessReached, decode
from state.outage import phases
from tasks.lab.layer import PORT, USER
from tasks.practice.scene import UNIT, UNIT_FILE

PEER = HERE / "peer"


FACT_CLAIM = "mem-fraction-static"
COMMAND_LINE = (sys.executable, "-c", "from deployments.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Done:
    """When the tool had verified the fact, when it knew that the service was ready, and when it had judged everything
    that it judges (seconds since the epoch)."""

    verified: float
    ready: float | None = None
    judged: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)


Contender = Callable[[Bench, float], Awaitable[Done]]


def fact(fraction: float) -> str:
    """What the engine says of the argument that every run changes."""
    return f"'mem_fraction_static': {fraction},"


async def script(made: Bench, fraction: float) -> Done:
    return Done(await plain_ssh.script(made, await made.unit_text(fraction), fact(fraction)))


async def interlock(made: Bench, fraction: float, *words: str) -> Done:
    """The command line, a new process for every run, with the store of the runs before."""
    argv = (*COMMAND_LINE, "apply", str(made.manifest(fraction)), "--json", *words)
    status, said = await call(argv, made.environment(), made.folder)
    if status != 0 or "{" not in said:
        raise ContenderFailed(f"{status}: {said[-2000:]}")
    return await told(made, str(json.loads(said[said.index("{") :])["rollout"]))


async def bare(made: Bench, fraction: float) -> Done:
    return await interlock(made, fraction, "--bare")


async def under_serve(made: Bench, fraction: float) -> Done:
    """Handed over by the command line to `interlock serve`, which is up with Prefect before, in a data directory of its
    own. Raises ContenderFailed."""
    argv = (*COMMAND_LINE, "apply", str(made.manifest(fraction)), "--json")
    status, said = await call(argv, made.environment(made.served), made.folder)
    if status != 0 or "{" not in said:
        raise ContenderFailed(f"{status}: {said[-2000:]}")
    settings = made.stage.settings.model_copy(update={"data_dir": made.served})
    return await told(made, str(json.loads(said[said.index("{") :])["rollout"]), settings)


async def told(made: Bench, rollout: str, settings: Settings | None = None) -> Done:
    """What a rollout's own history says about its outage."""
    async with wired(settings or made.stage.settings) as (ports, _):
        history = await ports.events.read(f"rollout-{rollout}")
    seen = [(decode(one), one.recorded_at.timestamp()) for one in history]
    judged = [at for event, at in seen if isinstance(event, Judged) and event.side == "new"]
    ready = [at for event, at in seen if isinstance(event, ReadinessReached)]
    log = [at for event, at in seen if isinstance(event, ReadinessReached) and FACT_CLAIM in event.held]
    return Done(log[0], ready[0], judged[-1], {phase.name: round(phase.seconds, 3) for phase in phases(history)})


async def ansible(made: Bench, fraction: float, *, mitogen: bool = False) -> Done:
    return await playbook(made, PEER / "job.yml", await _job(made, fraction), mitogen=mitogen)


async def with_mitogen(made: Bench, fraction: float) -> Done:
    return await ansible(made, fraction, mitogen=True)


async def pyinfra(made: Bench, fraction: float) -> Done:
    job = {**await _job(made, fraction), "verified": str(made.folder / "verified")}
    return await deploy(made, PEER / "job.py", job)


async def deploy(made: Bench, what: Path, data: Mapping[str, object]) -> Done:
    """Run a pyinfra deploy. Raises ContenderFailed."""
    verified = made.folder / "verified"
    verified.unlink(missing_ok=True)
    inventory = made.folder / "inventory.py"
    inventory.write_text(f"serving = [({made.host.address!r}, {_login(made) | dict(data)!r})]\n", encoding="utf-8")
    argv = (str(peers.installed("pyinfra") / "pyinfra"), "-y", str(inventory), str(what))
    return await _verified(argv, own_environment(), made, verified)


def _login(made: Bench) -> dict[str, object]:
    return {
        "ssh_user": USER,
        "ssh_key": str(made.host.key),
        "ssh_known_hosts_file": str(made.host.folder / "known_hosts"),
        "ssh_strict_host_key_checking": "yes",
    }


async def playbook(made: Bench, what: Path, variables: Mapping[str, object], *, mitogen: bool) -> Done:
    """Run a playbook. Raises ContenderFailed."""
    verified = made.folder / "verified"
    verified.unlink(missing_ok=True)
    told_, inventory = made.folder / "variables.json", made.folder / "inventory.ini"
    told_.write_text(json.dumps(variables), encoding="utf-8")
    inventory.write_text(
        f"[serving]\n{made.host.address} ansible_user={USER} ansible_ssh_private_key_file={made.host.key} "
        f"ansible_python_interpreter=/usr/bin/python3\n",
        encoding="utf-8",
    )
    argv = (str(peers.installed("ansible") / "ansible-playbook"), "-i", str(inventory), "-e", f"@{told_}", str(what))
    return await _verified(argv, _ansible_environment(made, verified, mitogen), made, verified)


def _ansible_environment(made: Bench, verified: Path, mitogen: bool) -> dict[str, str]:
    known = f"-o ControlMaster=auto -o ControlPersist=60s -o UserKnownHostsFile={made.host.folder / 'known_hosts'}"
    told_ = {
        **own_environment(),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_SSH_ARGS": known,
        "ANSIBLE_HOST_KEY_CHECKING": "False" if mitogen else "True",  # Mitogen passes no known_hosts file of ours
        "ANSIBLE_CALLBACK_PLUGINS": str(PEER / "callbacks"),
        "ANSIBLE_CALLBACKS_ENABLED": "when",
        "ANSIBLE_HOME": str(made.folder / "ansible"),
        "INTERLOCK_BENCH_VERIFIED": str(verified),
    }
    if mitogen:
        told_ |= {"ANSIBLE_STRATEGY": "mitogen_linear", "ANSIBLE_STRATEGY_PLUGINS": str(peers.mitogen_strategies())}
    return told_


async def _verified(argv: tuple[str, ...], environment: Mapping[str, str], made: Bench, verified: Path) -> Done:
    status, said = await call(argv, environment, made.folder)
    at = _written(verified)
    if status != 0 or at is None:
        raise ContenderFailed(said[-2000:])
    return Done(at)


def _written(verified: Path) -> float | None:
    return float(verified.read_text(encoding="utf-8")) if verified.exists() else None


async def _job(made: Bench, fraction: float) -> dict[str, object]:
    source = made.folder / "unit.service"
    source.write_text(await made.unit_text(fraction), encoding="utf-8")
    return {
        "unit": UNIT,
        "unit_file": UNIT_FILE,
        "unit_source": str(source),
        "check": plain_ssh.found(fact(fraction)),
        "waiting": _waiting(made.limit_s),
    }


def _waiting(limit_s: float) -> str:
    """Shell text: the prober itself waits on the host, started once."""
    program = (HERE / "prober.py").read_text(encoding="utf-8")
    return f"timeout {limit_s:g} python3 - {PORT} --until-good <<'PROBER'\n{program}\nPROBER"


CONTENDERS: Mapping[str, Contender] = {
    "interlock, bare": bare,
    "interlock, under serve": under_serve,
    "interlock, Prefect coming up": interlock,
    "asyncssh script": script,
    "pyinfra": pyinfra,
    "Ansible": ansible,
    "Ansible with Mitogen": with_mitogen,
}
