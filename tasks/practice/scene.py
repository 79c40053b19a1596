"""A scene to practise on: a serving host with an engine and a hand-written unit, a GPU host, and their manifests."""

import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import asyncssh
import httpx
import yaml
from tenacity import AsyncRetrying, RetryError, retry_if_result, stop_after_delay, wait_fixed

from state.manifest.model import HostSpec
from tasks.hosts.port import Host
from tasks.practice.engine.install import (
    QWEN,
    QWEN_DRAFT_GGUF,
    QWEN_GGUF,
    QWEN_MTP,
    QWEN_WITHOUT_MTP,
    EngineName,
    engine_files,
    install_in,
)
from tasks.practice.engine.memory import memory_engine
from tasks.practice.host import PracticeMachine
from tasks.practice.llamacpp_scene import LLAMACPP_UNIT, as_llamacpp, llamacpp_unit
from tasks.practice.pci import gpu
from tasks.practice.simulated import SimulatedHost
from tasks.practice.sshd import PracticeSshd
from tasks.practice.vllm_scene import VLLM_UNIT, as_vllm, vllm_unit

UNIT = "sglang-qwen.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"
USER = "interlock"
SERVING_GPUS = ("0000:01:00.0", "0000:11:00.0", "0000:61:00.0", "0000:71:00.0")
GUEST_GPUS = ("0000:81:00.0", "0000:91:00.0", "0000:e1:00.0", "0000:f1:00.0")

_UNIT_TEXT = """[Unit]
Description=SGLang Qwen3.5-122B-A10B

[Service]
User=sglang
Environment=NCCL_P2P_DISABLE=1
ExecStart=/opt/sglang/bin/python -m sglang.launch_server --model-path {model} --host 127.0.0.1 --port {port} \\
    --tp-size 4 --mem-fraction-static 0.85
KillMode={kill_mode}
TimeoutStopSec={stop_s:g}

[Install]
WantedBy=multi-user.target
"""


@dataclass
class Scene:
    """`serving` runs the engine, `hypervisor` has the GPUs; `specs` say how they are reached, `key` with which key."""

    serving: PracticeMachine
    hypervisor: PracticeMachine
    port: int
    specs: Mapping[str, HostSpec]
    key: Path | None = None
    doors: Mapping[str, PracticeSshd] | None = None
    engine: EngineName = "sglang"

    @property
    def unit(self) -> str:
        return SERVICES[self.engine].unit

    @property
    def unit_file(self) -> str:
        return f"/etc/systemd/system/{self.unit}"

    def open_host(self, name: str, spec: HostSpec) -> Host:
        """The direct adapter, for scenes without SSH."""
        machine = self.serving if name == "serving" else self.hypervisor
        return SimulatedHost(machine, name, spec.user, spec.become)

    def script_faults(self, *faults: Mapping[str, object]) -> None:
        """Faults of the engine's next start."""
        install_in(
            self.serving.files,
            {p: f for p, f in engine_files(engine=self.engine, faults=faults).items() if p.endswith("faults.json")},
        )

    async def until_it_answers(self, timeout_s: float = 30.0, key: str = "") -> None:
        """Wait until the service answers requests, with its key if it asks for one. Raises TimeoutError."""
        patience = AsyncRetrying(
            retry=retry_if_result(lambda ok: not ok), wait=wait_fixed(0.1), stop=stop_after_delay(timeout_s)
        )
        try:
            await patience(self._answers, key)
        except RetryError:
            raise TimeoutError(f"{self.unit} does not answer on port {self.port}") from None

    async def _answers(self, key: str) -> bool:
        path, body = SERVICES[self.engine].ping
        sent = {"Authorization": f"Bearer {key}"} if key else {}
        async with httpx.AsyncClient(transport=self.serving.transport(), trust_env=False) as client:
            try:
                answer = await client.post(f"http://127.0.0.1:{self.port}{path}", json=body, headers=sent, timeout=5.0)
            except httpx.TransportError:
                return False
        return answer.status_code == 200

    def manifest(self, arguments: Mapping[str, Any] | None = None, **changes: Any) -> str:
        """YAML text: the seed's configuration (NEXTN, 5 steps, draft path, fraction 0.75, tp 4, GPU map); vLLM: MTP;
        llama.cpp: a draft model.

        `changes` are merged over it, and `arguments` over its engine arguments.
        """
        seed = seed_manifest(self.specs, self.port)
        return manifest_text(SERVICES[self.engine].manifest(seed, self.port), arguments, **changes)


def manifest_text(seed: Mapping[str, Any], arguments: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """YAML text of `seed` with `changes` merged over it and `arguments` over its engine arguments; None takes away."""
    merged = _merged(_merged(dict(seed), {"engine": {"arguments": arguments or {}}}), changes)
    return yaml.safe_dump(merged, sort_keys=False, allow_unicode=True)


def service_unit(port: int, *, kill_mode: str = "control-group", stop_s: float = 20.0) -> str:
    """The hand-written unit of the service before its first rollout: no speculation."""
    return _UNIT_TEXT.format(model=QWEN.path, port=port, kill_mode=kill_mode, stop_s=stop_s)


def seed_manifest(specs: Mapping[str, HostSpec], port: int) -> dict[str, Any]:
    """The configuration that started the project, as a manifest."""
    return {
        "interlock": 1,
        "service": "qwen35-122b",
        "hosts": {name: spec.model_dump(exclude_none=True) for name, spec in specs.items()},
        "unit": {
            "host": "serving",
            "name": UNIT,
            "user": "sglang",
            "description": "SGLang Qwen3.5-122B-A10B (MTP enabled)",
            "environment": {"NCCL_P2P_DISABLE": "1"},
            "stop": {"timeout": "20s"},
        },
        "engine": {
            "kind": "sglang",
            "command": ["/opt/sglang/bin/python", "-m", "sglang.launch_server"],
            "endpoint": f"http://127.0.0.1:{port}",
            "arguments": {
                "model_path": QWEN.path,
                "host": "127.0.0.1",
                "port": port,
                "tp_size": 4,
                "mem_fraction_static": 0.75,
                "speculative_algorithm": "NEXTN",
                "speculative_num_steps": 5,
                "speculative_eagle_topk": 1,
                "speculative_num_draft_tokens": 6,
                "speculative_draft_model_path": QWEN_MTP.path,
            },
        },
        "gpus": {"host": "hypervisor", "drivers": {"nvidia": list(SERVING_GPUS), "vfio-pci": list(GUEST_GPUS)}},
        "readiness": {"timeout": "60s"},
        "claims": [{"claim": "accept-length", "at_least": 2.0, "confidence": 0.95, "within": "1m"}],
        "policy": {"timer": "60s"},
    }


class _Service(NamedTuple):
    """One engine's service: its unit's name and `text`, its `manifest` from the seed's, a request that it answers."""

    unit: str
    text: Callable[..., str]
    manifest: Callable[[Mapping[str, Any], int], Mapping[str, Any]]
    ping: tuple[str, Mapping[str, Any]]


_FOX = "The quick brown fox"
SERVICES: Mapping[EngineName, _Service] = {
    "sglang": _Service(
        UNIT,
        service_unit,
        lambda seed, _port: seed,
        ("/generate", {"text": _FOX, "sampling_params": {"max_new_tokens": 4}}),
    ),
    "vllm": _Service(VLLM_UNIT, vllm_unit, as_vllm, ("/v1/completions", {"prompt": _FOX, "max_tokens": 4})),
    "llamacpp": _Service(LLAMACPP_UNIT, llamacpp_unit, as_llamacpp, ("/completion", {"prompt": _FOX, "n_predict": 4})),
}


@asynccontextmanager
async def scene(
    root: Path | None,
    *,
    over_ssh: bool = True,
    faults: Sequence[Mapping[str, object]] = (),
    settings: Mapping[str, object] | None = None,
    version: str | None = None,
    kill_mode: str = "control-group",
    started: bool = True,
    port: int | None = None,
    engine: EngineName = "sglang",
    since: datetime | None = None,
) -> AsyncIterator[Scene]:
    """Two practice hosts, the service running without speculation. With `root` the engine is a real child process and
    the hosts' files lie below it; without, everything is in memory and obeys the event loop's time. Their clocks say
    `since` at first, by default what it is."""
    port = port or (free_port() if root else 30_000)
    async with AsyncExitStack() as stack:
        serving = PracticeMachine(
            "llm-two", root=_below(root, "serving"), factory=None if root else memory_engine, started=since
        )
        hypervisor = PracticeMachine("pve-one", root=_below(root, "hypervisor"), functions=_gpus(), started=since)
        stack.push_async_callback(serving.aclose)
        stack.push_async_callback(hypervisor.aclose)
        made = Scene(serving, hypervisor, port, _direct_specs(), engine=engine)
        _furnish(made, faults, settings, version, kill_mode)
        if over_ssh and root:
            await _open_doors(stack, made, root)
        if started:
            await serving.execute(("sudo", "-n", "--", "systemctl", "start", "--", made.unit), user=USER)
        yield made


def _furnish(
    made: Scene,
    faults: Sequence[Mapping[str, object]],
    settings: Mapping[str, object] | None,
    version: str | None,
    kill_mode: str,
) -> None:
    models = (QWEN, QWEN_MTP, QWEN_WITHOUT_MTP, QWEN_GGUF, QWEN_DRAFT_GGUF)
    install_in(
        made.serving.files,
        engine_files(engine=made.engine, version=version, models=models, faults=faults, settings=settings),
    )
    made.serving.files.put(made.unit_file, SERVICES[made.engine].text(made.port, kill_mode=kill_mode))


async def _open_doors(stack: AsyncExitStack, made: Scene, root: Path) -> None:
    """An sshd in front of each host, and a fresh key that both take."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    made.key = root / "id_ed25519"
    key.write_private_key(str(made.key))
    made.key.chmod(0o600)
    public = key.export_public_key().decode().strip()
    machines = {"serving": made.serving, "hypervisor": made.hypervisor}
    doors = {
        name: await stack.enter_async_context(PracticeSshd(machine, users={USER}, authorized_keys=[public]))
        for name, machine in machines.items()
    }
    made.doors = doors
    made.specs = {
        name: HostSpec(address="127.0.0.1", port=door.port, user=USER, become="sudo", host_key=door.host_public_key)
        for name, door in doors.items()
    }


def _direct_specs() -> dict[str, HostSpec]:
    addresses = {"serving": "llm-two.example", "hypervisor": "pve-one.example"}
    return {name: HostSpec(address=address, user=USER, become="sudo") for name, address in addresses.items()}


def _gpus() -> list[Any]:
    """Eight GPUs, all on the serving driver; the manifest moves four of them to the guest."""
    return [gpu(address, 20 + i) for i, address in enumerate((*SERVING_GPUS, *GUEST_GPUS))]


def _below(root: Path | None, name: str) -> Path | None:
    if root is None:
        return None
    (root / name).mkdir(parents=True, exist_ok=True)
    return root / name


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _merged(base: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in changes.items():
        under = merged.get(name)
        merged[name] = _merged(under, value) if isinstance(under, dict) and isinstance(value, Mapping) else value
    return {name: value for name, value in merged.items() if value is not None}
