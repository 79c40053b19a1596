# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""The command: kinds told by themselves, exit statuses, JSON and the page, and no secret in either."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deployments.inspect import inspect, main
from tests.inspection.failure_cases import SGLANG_ARGS, SGLANG_READY, VLLM_START

LOG = (
    f"{SGLANG_ARGS.replace('api_key=None', chr(97) + 'pi_key=' + chr(39) + 'sk-demo-1234' + chr(39))}\n{SGLANG_READY}\n"
)
KINDS = (
    ("log", LOG),
    ("log", VLLM_START + "\n"),
    ("log", "Oct 07 10:00:00 gpu-a systemd[1]: sglang.service: Start request repeated too quickly.\n"),
    ("log", "sglang serve: error: unrecognized arguments: --x\n"),
    ("kernel", "Oct 07 10:00:00 gpu-a kernel: NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.\n"),
    ("kernel", "[   12.345678] Linux version 6.8.12\n[   13.345678] pci 0000:41:00.0: Adding to iommu group 31\n"),
    ("kernel", json.dumps({"_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "__CURSOR": "s", "MESSAGE": "NVRM: loading"}) + "\n"),
    ("unit", "[Unit]\nDescription=x\n[Service]\nExecStart=/usr/bin/vllm serve /m --api-key sk-demo-1234\n"),
    ("metrics", "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{tp_rank=\"0\"} 1.0\n"),
    ("metrics", "vllm:num_requests_running{engine=\"0\"} 1.0\nvllm:num_requests_waiting{engine=\"0\"} 1.0\n"),
    ("server-info", json.dumps({"model_path": "/m", "tp_size": 1, "api_key": "sk-demo-1234", "speculative_algorithm": None, "internal_states": []})),
    ("answer", json.dumps({"text": "x", "meta_info": {"completion_tokens": 3, "finish_reason": {"type": "stop"}}})),
    ("answer", json.dumps([{"text": "x", "meta_info": {"completion_tokens": 3}}, {"text": "y", "meta_info": {"completion_tokens": 4}}])),
    ("answer", json.dumps({"choices": [{"message": {"content": "x"}, "finish_reason": "stop", "stop_reason": None}], "usage": {"completion_tokens": 1}}, indent=2)),
    ("answer", 'data: {"text": "a", "meta_info": {"completion_tokens": 1}}\n\ndata: {"text": "ab", "meta_info": {"completion_tokens": 2, "spec_verify_ct": 1}}\n\ndata: [DONE]\n'),
    ("answer", ': ping\n\nevent: message\ndata: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'),
    ("answer", 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nauthorization: Bearer sk-demo-1234\r\n\r\n{"text": "x", "meta_info": {"completion_tokens": 3}}'),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), [pytest.param(k, t, id=f"{k}-{n}") for n, (k, t) in enumerate(KINDS)])
def test_the_kind_is_told_by_the_content(
    kind: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "artefact"
    file.write_text(text)
    assert inspect(str(file), "auto", "auto", as_json=True) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["schema"], printed["kind"]) == ("inspection/1", kind)
    assert inspect(str(file), kind, "auto", as_json=False) == 0
    page = capsys.readouterr().out
    assert page.strip()
    assert "sk-demo" not in page + json.dumps(printed)


@pytest.mark.parametrize(
    "compress",
    [
        pytest.param(gzip.compress, id="gzip"),
        pytest.param(bz2.compress, id="bzip2"),
        pytest.param(lzma.compress, id="xz"),
    ],
)
def test_a_compressed_file_is_read_as_what_it_holds(
    compress: Callable[[bytes], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, packed = tmp_path / "log", tmp_path / "log.packed"
    plain.write_text(LOG)
    packed.write_bytes(compress(LOG.encode()))
    assert [inspect(str(path), "auto", "auto", as_json=True) for path in (plain, packed)] == [0, 0]
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


ZSTD, LZ4, ZIP, JOURNAL = b"\x28\xb5\x2f\xfd..", b"\x04\x22\x4d\x18..", b"PK\x03\x04..", b"LPKSHHRH.."


@pytest.mark.parametrize(
    ("data", "kind", "status", "said"),
    [
        pytest.param(b"", "auto", 3, "is empty", id="empty"),
        pytest.param(ZSTD, "auto", 2, "compressed by zstd; try: zstdcat ", id="zstd"),
        pytest.param(LZ4, "auto", 2, "compressed by lz4; try: lz4cat ", id="lz4"),
        pytest.param(ZIP, "auto", 2, "a zip archive; try: unzip -p ", id="zip"),
        pytest.param(JOURNAL, "auto", 2, "try: journalctl --file ", id="journal-file"),
        pytest.param(gzip.compress(LOG.encode())[:-20], "auto", 2, "damaged or ends early; zcat", id="cut-gzip"),
        pytest.param(gzip.compress(LOG.encode())[:20] + b"xx", "auto", 2, "cannot read", id="damaged-gzip"),
    ],
)
def test_an_input_that_cannot_be_read_is_told_with_the_remedy(
    data: bytes, kind: str, status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "input"
    file.write_bytes(data)
    assert inspect(str(file), kind, "auto", as_json=True) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1


PEAK = """
import re, sys
from deployments.inspect import main
code = main(sys.argv[1:])
print(int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) // 1024)
sys.exit(code)
"""
"""The peak of this program alone, in MiB: that of getrusage(2) counts whoever started it."""


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        pytest.param("auto", "a line of more than 16 MiB", id="auto"),
        pytest.param("log", "a line of more than 16 MiB", id="log"),
        pytest.param("kernel", "a line of more than 16 MiB", id="kernel"),
        pytest.param("unit", "more than 64 MiB", id="unit"),
        pytest.param("answer", "more than 64 MiB", id="answer"),
    ],
)
def test_an_endless_stream_ends_in_bounded_memory(kind: str, said: str) -> None:
    """`/dev/zero` has no line end for ever."""
    ran = subprocess.run(
        [sys.executable, "-c", PEAK, "--kind", kind, "/dev/zero"], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr
    assert int(ran.stdout) < 200


def test_inspect_needs_nothing_of_the_orchestrator() -> None:
    """So that it starts at once: neither the command line nor the inspection imports what it does not use."""
    heavy = ("prefect", "sqlalchemy", "asyncssh", "httpx", "pydantic", "multiprocessing")
    script = (
        f"import sys; from deployments import cli, inspect; print([name for name in {heavy} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        pytest.param(("--json", "{shopping}"), 3, id="nothing-recognised"),
        pytest.param(("--json", "{empty}"), 3, id="an-empty-file"),
        pytest.param(("--json", "{missing}"), 2, id="no-such-file"),
        pytest.param(("--json", "{folder}"), 2, id="a-folder"),
        pytest.param(("inspect", "--kind", "log", "--json", "{log}"), 0, id="read"),
        pytest.param(("--engine", "vllm", "--json", "{log}"), 3, id="another-engine-only"),
        pytest.param(("--kind", "unit", "--json", "{log}"), 3, id="another-kind"),
    ],
)  # fmt: skip
def test_exit_statuses(words: tuple[str, ...], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {name: str(tmp_path / name) for name in ("shopping", "empty", "missing", "log")} | {"folder": str(tmp_path)}
    Path(names["shopping"]).write_text("Shopping list\n- bread\n")
    Path(names["empty"]).write_text("")
    Path(names["log"]).write_text(LOG)
    assert main([word.format(**names) for word in words]) == status
    captured = capsys.readouterr()
    assert bool(captured.out) is (status == 0)
    assert bool(captured.err) is (status != 0)


def test_unusable_arguments_exit_with_two() -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--kind", "poem", "x"])
    assert raised.value.code == 2


def test_standard_input_is_read_and_the_start_is_light() -> None:
    script = "import sys; from deployments.inspect import main; status = main(['--json', '-']); print(sorted({'prefect', 'sqlalchemy', 'pydantic', 'rich', 'httpx'} & set(sys.modules)), file=sys.stderr); sys.exit(status)"
    done = subprocess.run(
        [sys.executable, "-c", script], input=LOG.encode(), capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["boots"][0]["outcome"] == "ready"
    assert done.stderr.decode().strip() == "[]"


def test_the_page_begins_with_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "artefact"
    file.write_text(
        f"{SGLANG_ARGS}\n[2026-10-07 10:00:05] ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 3): address already in use\n"
    )
    assert inspect(str(file), "auto", "auto", as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "FAILED: port-in-use, speculation configured"
    assert any("port-in-use (line 2)" in line for line in lines)
    assert any(line.strip().startswith("→ Stop the process that holds the port") for line in lines)


def test_a_server_info_longer_than_the_sample_is_recognised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "artefact"
    info = {
        "model_path": "/m",
        "tp_size": 1,
        "speculative_algorithm": None,
        "internal_states": [{"padding": "x" * 400_000}],
    }
    file.write_text(json.dumps(info))
    assert inspect(str(file), "auto", "auto", as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["speculation"]["state"] == "off"
