"""Services that ask for an API key, of each engine, on a practice host in memory; and where a key may not be."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from state.rollout import Rollout
from state.store.export import export_lines
from tasks.practice.engine.install import QWEN_GGUF
from tasks.practice.scene import USER
from tests.flows.rehearsal import Rehearsal, rehearsal

KEY, NEXT = "Zebra/rosa+41", "Okapi-blau-77"
"""Of no shape that redaction knows, with signs that JSON and URLs write otherwise."""

KEY_FILE, NEXT_FILE = "/etc/interlock/qwen.key", "/etc/interlock/next.key"
CONFIG, NEXT_CONFIG = "/etc/interlock/sglang.yaml", "/etc/interlock/next.yaml"
VARIABLES = "/etc/interlock/qwen.env"

WAYS: Mapping[str, tuple[str, dict[str, Any]]] = {
    # how the hand-written unit is told its key, and how the manifest tells it
    "sglang": (f"--tp-size 4 --config {CONFIG}", {"engine": {"arguments": {"config": CONFIG}}}),
    "vllm": ("--tensor-parallel-size 4", {"unit": {"secrets": [VARIABLES]}}),
    "llamacpp": (
        f"-m {QWEN_GGUF.path} --api-key-file {KEY_FILE}",
        {"engine": {"arguments": {"api_key_file": KEY_FILE}}},
    ),
}
OPEN = {"sglang": set[str](), "vllm": set[str](), "llamacpp": {"inconclusive"}}
"""What a service of the scene's leaves open, with a key or without: llama-server tells layers and caches to nobody."""

ENGINES = [pytest.param(engine, id=engine) for engine in WAYS]


def put_keys(stage: Rehearsal) -> None:
    files = stage.scene.serving.files
    for path, text in {
        KEY_FILE: f"{KEY}\n",
        NEXT_FILE: f"  {NEXT} \r\n",
        CONFIG: f"api-key: {KEY}\n",
        NEXT_CONFIG: f"api-key: {NEXT}\n",
        VARIABLES: f"VLLM_API_KEY={KEY}\nLLAMA_API_KEY={KEY}\n",
    }.items():
        files.put(path, text, mode=0o600)


async def ask_for_a_key(stage: Rehearsal) -> None:
    """The hand-written unit is started anew, with a key."""
    put_keys(stage)
    files, flags = stage.scene.serving.files, WAYS[stage.scene.engine][0]
    text = files.read(stage.scene.unit_file).decode()
    before = re.sub(r" --(config|api-key-file) \S+", "", flags)
    assert before in text
    text = text.replace(before, flags)
    if stage.scene.engine == "vllm":
        text = text.replace("[Service]", f"[Service]\nEnvironmentFile={VARIABLES}")
    files.put(stage.scene.unit_file, text)
    await restart(stage)


async def restart(stage: Rehearsal) -> None:
    for words in (("daemon-reload",), ("restart", "--", stage.scene.unit)):
        await stage.scene.serving.execute(("sudo", "-n", "--", "systemctl", *words), user=USER)
    await asyncio.sleep(5)  # of virtual time: until it has come up


def merged(engine: str, **of_engine: Any) -> dict[str, Any]:
    way = WAYS[engine][1]
    return {**way, "engine": {**way.get("engine", {}), **of_engine}}


def ending(ended: Rollout) -> tuple[str, int]:
    assert ended.concluded is not None
    return ended.concluded.outcome, ended.concluded.exit_code


@asynccontextmanager
async def keyed(engine: Any = "sglang") -> AsyncIterator[Rehearsal]:
    """A service that was started by hand with a key, and then by a rollout that was told its file."""
    async with rehearsal(engine=engine) as stage:
        await ask_for_a_key(stage)
        first = await stage.roll_out(**merged(engine, key_file=KEY_FILE))
        assert ending(first) == ("promoted", 0), first.concluded
        yield stage


async def nowhere(stage: Rehearsal, *keys: str) -> None:
    """In no event, and in no evidence that an event names; as it stands, as JSON and as a URL have it."""
    kept_at_all = False
    forms = [form for key in keys for form in (key, key.replace("/", r"\/"), key.replace("/", "%2F"))]
    for stream in await stage.store.streams():
        text = "\n".join([line async for line in export_lines(stage.store, stream, stage.evidence)])
        assert [form for form in forms if form in text] == [], stream
        for line in text.splitlines():
            digest = json.loads(line).get("evidence")
            kept = await stage.evidence.get(digest) if digest else b""
            assert [form for form in forms if form.encode() in kept] == [], kept[:200]
            kept_at_all |= bool(kept)
    assert kept_at_all, "there is no evidence to look into"
