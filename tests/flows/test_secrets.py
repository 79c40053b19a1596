"""Secrets of the old configuration, whatever is rolled out: none in the store, none in what is shown."""

import asyncio
import json

from state.store.export import export_lines
from tasks.practice.scene import UNIT, UNIT_FILE, USER
from tests.flows.rehearsal import Rehearsal, rehearsal
from tests.practice.virtual_time import in_virtual_time

SECRETS = ("sk-secret-123", "adm-777", "hf_secret_5")
KEY_FILE = "/etc/interlock/qwen.key"
IGNORED = {"fault": "flag-ignored", "when": {"speculative_algorithm": "NEXTN"}}


@in_virtual_time
async def test_a_key_in_the_old_units_command_line_is_neither_stored_nor_lost() -> None:
    async with rehearsal(faults=[IGNORED]) as stage:
        await run_with_secrets(stage)
        before = await stage.state()
        assert SECRETS[0] in before.argv
        stage.scene.serving.files.put(KEY_FILE, SECRETS[0], mode=0o600)
        ended = await stage.roll_out(engine={"key_file": KEY_FILE})
        assert ended.concluded is not None
        assert ended.concluded.outcome == "rolled-back", ended.concluded.summary
        assert await stage.state() == before
        assert {v.outcome for v in ended.judged["old:1"].verdicts} == {"held"}
        for stream in await stage.store.streams():
            text = "\n".join([line async for line in export_lines(stage.store, stream, stage.evidence)])
            assert [secret for secret in SECRETS if secret in text] == [], stream
            for line in text.splitlines():
                kept = await evidence(stage, line)
                assert [secret for secret in SECRETS if secret.encode() in kept] == []


async def evidence(stage: Rehearsal, line: str) -> bytes:
    digest = json.loads(line).get("evidence")
    return await stage.evidence.get(digest) if digest else b""


async def run_with_secrets(stage: Rehearsal) -> None:
    files = stage.scene.serving.files
    text = files.read(UNIT_FILE).decode()
    text = text.replace("--tp-size 4", f"--tp-size 4 --api-key {SECRETS[0]} --admin-api-key={SECRETS[1]}")
    files.put(UNIT_FILE, text.replace("[Service]", f"[Service]\nEnvironment=HF_TOKEN={SECRETS[2]}"))
    for words in (("daemon-reload",), ("restart", "--", UNIT)):
        await stage.scene.serving.execute(("sudo", "-n", "--", "systemctl", *words), user=USER)
    await asyncio.sleep(5)  # of virtual time: until it has come up
