"""Services that ask for an API key, through the command line and over real SSH: what is refused before anything stops,
what is proven, and that the key is nowhere afterwards."""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from state.store.connect import open_stores
from state.store.export import export_lines
from tasks.practice.scene import UNIT
from tests.cli.practice import Ran, Stage, stage

KEY, OTHER = "Zebra/rosa+41", "Okapi-blau-77"
"""Of no shape that redaction knows."""

CONFIG, KEY_FILE = "/etc/interlock/sglang.yaml", "/etc/interlock/qwen.key"
BAD = "/etc/interlock/bad"

Changes = Mapping[str, Any]


def put(made: Stage, path: str, text: str) -> None:
    async def write() -> None:
        made.scene.serving.files.put(path, text, mode=0o600)

    made.do(write())


def engine(key_file: str | None, config: str | None = CONFIG) -> Changes:
    return {"engine": {"key_file": key_file, "arguments": {"config": config}}}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The hand-written unit asks for KEY."""
    with stage(tmp_path_factory.mktemp("keys")) as made:
        put(made, KEY_FILE, f"{KEY}\n")
        put(made, CONFIG, f"api-key: {KEY}\n")
        unit = made.facts().unit_file or b""
        made.write_unit(unit.replace(b"--tp-size 4", f"--tp-size 4 --config {CONFIG}".encode()))
        made.on_host("systemctl", "restart", "--", UNIT)
        made.do(made.scene.until_it_answers(key=KEY))
        yield made


REFUSED = [
    # content of the file that is named, None for none there; what is said of it, what to do
    pytest.param(None, f"engine.key_file: {BAD} does not exist on serving", "mend these", id="missing"),
    pytest.param("", f"engine.key_file: {BAD} on serving is empty", "mend these", id="empty"),
    pytest.param("y" * 5000, f"{BAD} on serving holds 5000 characters", "mend these", id="far-too-long"),
    pytest.param(f"{KEY}\n{OTHER}\n", f"{BAD} on serving has 2 lines", "mend these", id="two-lines"),
    pytest.param(f"SGLANG_API_KEY={KEY}\n", f"{BAD} on serving sets a variable", "mend these", id="a-variable"),
    pytest.param(f"{OTHER}\n", f"does not take the API key in {BAD} (HTTP 401)", "the service was started", id="wrong"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "said", "hint"), REFUSED)
def test_a_bad_key_file_is_refused_before_anything_stops(
    keyed: Stage, content: str | None, said: str, hint: str
) -> None:
    keyed.on_host("rm", "-f", "--", BAD)
    if content is not None:
        put(keyed, BAD, content)
    refused(keyed, engine(BAD), said, hint)


def test_a_key_file_that_cannot_be_read_is_refused_before_anything_stops(keyed: Stage) -> None:
    refused(keyed, engine("/etc/interlock"), "/etc/interlock on serving cannot be read: Is a directory", "mend these")


def test_a_key_that_nobody_named_is_refused_before_anything_stops(keyed: Stage) -> None:
    said = "on serving asks for an API key (HTTP 401), and `engine.key_file` names none"
    refused(keyed, engine(None), said, "name it as `engine.key_file`")


def test_a_key_file_is_refused_with_everything_else(keyed: Stage) -> None:
    changes = {**engine("/etc/interlock/none"), "unit": {"secrets": ["/etc/interlock/none.env"]}}
    ran = refused(keyed, changes, "engine.key_file: /etc/interlock/none does not exist on serving", "mend these")
    assert "unit.secrets: /etc/interlock/none.env does not exist on serving" in one_line(ran)


def refused(made: Stage, changes: Changes, said: str, hint: str) -> Ran:
    """Nothing but the lease's mark is on the host afterwards."""
    before = made.facts()
    ran = made.interlock("apply", made.manifest(**changes))
    assert ran.code == 3, ran.err
    assert said in one_line(ran)
    assert hint in one_line(ran)
    assert replace(made.facts(), interlock_files=("fence",)) == replace(before, interlock_files=("fence",))
    assert made.facts().interlock_files == ("fence",)
    nowhere(made, ran)
    return ran


def one_line(ran: Ran) -> str:
    return " ".join(f"{ran.out} {ran.err}".split())


LOOKED_AT = [
    # the file that is named; what is said, what to do
    pytest.param(None, "asks for an API key (HTTP 401), and `engine.key_file` names none", "name it as", id="no-key"),
    pytest.param(
        "/etc/interlock/none", "engine.key_file: /etc/interlock/none does not exist", "put the key", id="none"
    ),
]


@pytest.mark.parametrize(("key_file", "said", "hint"), LOOKED_AT)
def test_a_service_that_is_looked_at_without_its_key_says_so(
    keyed: Stage, key_file: str | None, said: str, hint: str
) -> None:
    ran = keyed.interlock("verify", "--bare", keyed.manifest(**engine(key_file)))
    assert ran.code == 3, ran.err
    assert said in one_line(ran)
    assert hint in one_line(ran)


def test_with_the_right_key_it_is_promoted_and_the_key_is_nowhere(tmp_path: Path) -> None:
    with stage(tmp_path) as made:
        put(made, KEY_FILE, f"{KEY}\n")
        put(made, CONFIG, f"api-key: {KEY}\n")
        manifest = made.manifest(**engine(KEY_FILE))
        planned = made.interlock("plan", "--json", manifest)
        first = made.interlock("apply", "--json", manifest)
        assert first.code == 0, first.err
        assert first.json["outcome"] == "promoted"
        shown = made.interlock("show", first.json["rollout"])
        verified = made.interlock("verify", "--bare", manifest)
        assert verified.code == 0, verified.err
        nowhere(made, planned, first, shown, verified)


def test_a_start_that_wants_a_key_all_at_once_goes_back_before_the_timeout(tmp_path: Path) -> None:
    with stage(tmp_path) as made:
        put(made, CONFIG, f"api-key: {KEY}\n")
        before = made.facts().unit_file
        begun = time.monotonic()
        ran = made.interlock("apply", "--bare", made.manifest(**engine(None), readiness={"timeout": "10m"}))
        assert time.monotonic() - begun < 60
        assert ran.code == 1, ran.err
        assert "asks for an API key (HTTP 401), and `engine.key_file` names none" in one_line(ran)
        assert "The old state is back" in one_line(ran)
        assert made.facts().unit_file == before
        nowhere(made, ran)


def nowhere(made: Stage, *ran: Ran) -> None:
    """Neither printed, nor on disk beside the manifest, nor in an event, nor in evidence."""
    forms = [form for key in (KEY, OTHER) for form in (key, key.replace("/", r"\/"), key.replace("/", "%2F"))]
    told = "\n".join(f"{one.out}\n{one.err}" for one in ran)
    kept = b"\n".join(path.read_bytes() for path in made.directory.rglob("*") if path.is_file())
    stored = asyncio.run(everything(f"sqlite:///{made.directory / 'interlock.db'}"))
    assert stored
    for place, content in {"printed": told.encode(), "on disk": kept, "stored": stored}.items():
        assert [form for form in forms if form.encode() in content] == [], place


async def everything(url: str) -> bytes:
    """All events of the store, and all evidence that they name."""
    found: list[bytes] = []
    async with open_stores(url, lambda: datetime.now(UTC)) as stores:
        for stream in await stores.events.streams():
            async for line in export_lines(stores.events, stream, stores.evidence):
                digest = json.loads(line).get("evidence")
                found += [line.encode(), await stores.evidence.get(digest) if digest else b""]
    return b"\n".join(found)
