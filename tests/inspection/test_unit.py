# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Unit files as systemd 252 reads them, and what is found in them."""

import pytest

from state.inspection.report import UnitReport
from state.inspection.unit import parse_unit, read_unit
from state.inspection.unit_words import seconds_of, split_words

START = "ExecStart=/opt/venv/bin/python -m sglang.launch_server --model-path /m --tp-size 4"


def service(*lines: str, unit: str = "", name: str | None = "sglang.service") -> UnitReport:
    return read_unit("\n".join(("[Unit]", unit, "[Service]", *lines)), name)


def argvs(*lines: str, name: str | None = "sglang.service") -> tuple[tuple[str, ...], ...]:
    return parse_unit("\n".join(("[Service]", *lines)), name).exec_start


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("a  b\tc", ["a", "b", "c"], id="blanks"),
        pytest.param("\"a b\" 'c d'", ["a b", "c d"], id="quotes-around-words"),
        pytest.param("'{\"method\": \"mtp\", \"num_speculative_tokens\": 3}'", ['{"method": "mtp", "num_speculative_tokens": 3}'], id="json-in-single-quotes"),
        pytest.param('"" x', ["", "x"], id="an-empty-word"),
        pytest.param(r"a\x20b \x41 \s\t.", ["a b", "A", " \t."], id="escapes"),
        pytest.param(r'"say \"hi\""', ['say "hi"'], id="escaped-quotes"),
        pytest.param(r"C:\path", [r"C:\path"], id="an-unknown-escape-stays"),
        pytest.param("A=\"b c\"", ["A=b c"], id="a-quote-within-a-word"),
    ],
)  # fmt: skip
def test_words_are_split_as_systemd_splits_them(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("lines", "argv"),
    [
        pytest.param(("ExecStart=/bin/a \\", "  --x 1 \\", "# a comment", "; another", "  --y"), ("/bin/a", "--x", "1", "--y"), id="continuations-go-on-over-comments"),
        pytest.param(("ExecStart=-@/bin/a zero one",), ("/bin/a", "one"), id="special-prefixes"),
        pytest.param(("Environment=OPTS='--x 1' M=/m", "ExecStart=/bin/a $OPTS ${OPTS} ${M}/x $$HOME"), ("/bin/a", "--x", "1", "--x 1", "/m/x", "$HOME"), id="variables"),
        pytest.param(("EnvironmentFile=/e", "Environment=M=/m", "ExecStart=/bin/a ${M}"), ("/bin/a", "${M}"), id="a-file-may-say-otherwise"),
        pytest.param(("ExecStart=/bin/a ${GONE} $GONE",), ("/bin/a", "${GONE}", "$GONE"), id="unknown-variables-stay"),
        pytest.param(("ExecStart=/bin/old", "ExecStart=", "ExecStart=/bin/new"), ("/bin/new",), id="an-empty-assignment-resets"),
        pytest.param(("ExecStart=/bin/a %n %p 50%% %h",), ("/bin/a", "sglang.service", "sglang", "50%", "%h"), id="specifiers"),
    ],
)  # fmt: skip
def test_argv_is_what_systemd_would_run(lines: tuple[str, ...], argv: tuple[str, ...]) -> None:
    assert argvs(*lines) == (argv,)


def test_an_instance_is_known_from_the_name_and_unknown_in_a_template() -> None:
    assert argvs("ExecStart=/bin/a %i", name="llm@70b.service") == (("/bin/a", "70b"),)
    assert argvs("ExecStart=/bin/a %i", name="llm@.service") == (("/bin/a", "%i"),)
    assert argvs("ExecStart=/bin/a [%i]", name="llm.service") == (("/bin/a", "[]"),)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("1min 30s", 90.0),
        ("5min", 300.0),
        ("2h", 7200.0),
        ("500ms", 0.5),
        ("infinity", "infinity"),
        ("soon", None),
        ("1.5h", 5400.0),
    ],
)
def test_times_are_seconds(text: str, seconds: object) -> None:
    assert seconds_of(text) == seconds


def test_directives_that_are_not_set_are_unknown() -> None:
    unit = service(START).unit
    assert (
        unit.user,
        unit.restart,
        unit.kill_mode,
        unit.type,
        unit.timeout_start_s,
        unit.timeout_stop_s,
        unit.working_directory,
    ) == (None,) * 7


def test_arguments_have_their_types() -> None:
    report = service(
        'ExecStart=/usr/bin/vllm serve /m --tensor-parallel-size=2 --gpu-memory-utilization 0.9 --enforce-eager --speculative-config \'{"method": "mtp"}\' --api-key sk-1'
    )
    assert report.engine == "vllm"
    assert report.arguments == {
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.9,
        "enforce_eager": True,
        "speculative_config": '{"method": "mtp"}',
        "api_key": "<redacted>",
    }


def test_the_engine_is_seen_through_transparent_wrappers() -> None:
    report = service("ExecStart=/usr/bin/numactl --cpunodebind=0 /opt/venv/bin/python -m sglang.launch_server --port 3")
    assert (report.engine, dict(report.arguments), report.findings) == ("sglang", {"port": 3}, ())


FINDINGS = (
    ("misplaced", "misplaced-directive", "Restart", (START,), "Restart=always"),
    ("misplaced-limit", "misplaced-directive", "StartLimitIntervalSec", (START, "StartLimitIntervalSec=60"), ""),
    ("misplaced-burst", "misplaced-directive", "StartLimitBurst", (START, "StartLimitBurst=3"), ""),
    ("unknown", "unknown-directive", "ExecStrat", (START, "ExecStrat=/bin/a"), ""),
    ("specifier", "specifier-in-non-template", "Environment", (START, "Environment=M=%i"), ""),
    ("mustache", "placeholder-left", "Environment", (START, "Environment=M={{ model }}"), ""),
    ("change-me", "placeholder-left", "User", (START, "User=CHANGEME"), ""),
    ("path-to", "placeholder-left", "EnvironmentFile", (START, "EnvironmentFile=/path/to/env"), ""),
    ("angle", "placeholder-left", "ExecStart", (START + " --port <PORT>",), ""),
    ("path-variable", "path-not-expanded", "Environment", (START, "Environment=PATH=/opt/bin:$PATH"), ""),
    ("tilde", "path-not-expanded", "ExecStart", (START + " --download-dir ~/models",), ""),
    ("program", "path-not-expanded", "ExecStart", ("ExecStart=$HOME/bin/python -m sglang.launch_server",), ""),
    ("relative", "relative-path", "WorkingDirectory", (START, "WorkingDirectory=srv/llm"), ""),
    ("relative-program", "relative-path", "ExecStart", ("ExecStart=venv/bin/python -m sglang.launch_server",), ""),
    ("relative-file", "relative-path", "EnvironmentFile", (START, "EnvironmentFile=-llm.env"), ""),
    ("kill-mode", "leaves-processes", "KillMode", (START, "KillMode=process"), ""),
    ("send-kill", "leaves-processes", "SendSIGKILL", (START, "SendSIGKILL=no"), ""),
    ("shell", "hidden-argv", "ExecStart", ("ExecStart=/bin/bash -lc 'source run.sh'",), ""),
    ("wrapper", "hidden-argv", "ExecStart", ("ExecStart=/srv/run-sglang.sh",), ""),
    ("docker", "hidden-argv", "ExecStart", ("ExecStart=/usr/bin/docker run --rm --gpus all img python3 -m sglang.launch_server --port 3",), ""),
    ("oneshot", "oneshot-service", "Type", (START, "Type=oneshot"), ""),
    ("restarts", "restart-without-limit", "Restart", (START, "Restart=always", "RestartSec=10"), ""),
    ("restarts-unlimited", "restart-without-limit", "Restart", (START, "Restart=on-failure"), "StartLimitIntervalSec=0"),
    ("not-split", "argument-not-split", "ExecStart", (START + " ${EXTRA_ARGS}",), ""),
    ("missing", "missing-exec", "ExecStart", ("Type=simple",), ""),
    ("reset", "missing-exec", "ExecStart", (START, "ExecStart="), ""),
    ("secret", "secret-in-unit", "Environment", (START, "Environment=HF_TOKEN=hf_ExampleExample01"), ""),
    ("secret-flag", "secret-in-unit", "ExecStart", (START + " --api-key sk-unit-1",), ""),
    ("memory", "memory-limit", "MemoryMax", (START, "MemoryMax=64G"), ""),
)  # fmt: skip


@pytest.mark.parametrize(
    ("code", "directive", "lines", "unit"), [pytest.param(*rest, id=name) for name, *rest in FINDINGS]
)
def test_a_finding_is_made_where_it_is_due(code: str, directive: str, lines: tuple[str, ...], unit: str) -> None:
    report = service(*lines, unit=unit)
    assert (code, directive) in {(f.code, f.directive) for f in report.findings}
    assert "hf_Example" not in str(report)
    assert "sk-unit-1" not in str(report)


def test_a_sound_unit_has_no_findings() -> None:
    report = service(
        START, "Environment=CUDA_HOME=/usr/local/cuda NCCL_P2P_DISABLE=1", "EnvironmentFile=/etc/llm.env", "WorkingDirectory=/srv/llm", "User=llm",
        "Restart=on-failure", "RestartSec=5", "TimeoutStopSec=120", "KillMode=mixed", unit="StartLimitIntervalSec=600\nStartLimitBurst=3",
    )  # fmt: skip
    assert report.findings == ()


def test_lines_are_those_of_the_file() -> None:
    report = read_unit("[Unit]\nDescription=x\n\n[Service]\n" + START + " \\\n  --port 3\nKillMode=none\n", "a.service")
    assert [(f.code, f.line) for f in report.findings] == [("leaves-processes", 7)]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("Authorization: Bearer {}", id="header-in-three-words"),
        pytest.param("(b'authorization', b'Bearer {}')", id="header-as-bytes"),
        pytest.param("'--api-key', '{}'", id="argv-as-a-list"),
        pytest.param("{{'env': {{'HF_TOKEN': '{}'}}}}", id="nested-dict"),
        pytest.param('"api_key": "{}"', id="json"),
    ],
)
def test_quotes_that_splitting_takes_away_hide_no_secret(words: str) -> None:
    shown = words.format("Zq7-planted.9f3KxW2vB8")
    report = service(f"{START} {shown}", f"Environment={shown}", f"WorkingDirectory=rel/{shown}", f"Foo={shown}")
    assert "Zq7-planted" not in str(report)


@pytest.mark.parametrize(
    ("value", "name", "commands"),
    [
        pytest.param('/bin/a x %i y "%i" z%i', "llm.service", (("/bin/a", "x", "", "y", "", "z"),), id="an-empty-instance-leaves-an-empty-word"),
        pytest.param("/bin/a %I %f %j %P", "a-b@in-st.service", (("/bin/a", "in/st", "/in/st", "b", "a/b"),), id="unescaped-names"),
        pytest.param("/bin/a %f %j", "a-b.service", (("/bin/a", "/a/b", "b"),), id="a-plain-name-as-a-path"),
        pytest.param(r"/bin/a \; ';' ; /bin/b", "a.service", (("/bin/a", ";", ";"), ("/bin/b",)), id="only-a-bare-semicolon-separates"),
        pytest.param("/bin/a ; /bin/b 'x", "a.service", (("/bin/a",),), id="unbalanced-quotes-end-it"),
        pytest.param("/bin/a x\\\\\nUser=u", "a.service", (("/bin/a", "x\\"),), id="an-escaped-backslash-continues-nothing"),
    ],
)  # fmt: skip
def test_commands_are_those_of_systemd_252(value: str, name: str, commands: tuple[tuple[str, ...], ...]) -> None:
    """As `systemd --test` of version 252 lists them."""
    assert argvs(f"ExecStart={value}", name=name) == commands


def test_an_environment_that_systemd_ignores_is_none() -> None:
    report = service(START, "Environment=A=1 2B=2 F-1=3 x", "Environment=C=4 'D=5")
    assert report.unit.environment == {"A": "1", "C": "4"}


def test_unbalanced_quotes_are_told_as_what_they_are() -> None:
    report = service("Type=simple", 'ExecStart=/opt/venv/bin/vllm serve /m --speculative-config \'{"method": "mtp"}')
    (finding,) = [f for f in report.findings if f.code == "missing-exec"]
    assert (finding.line, "not balanced" in finding.text) == (5, True)
    assert report.unit.exec_start == ()


def test_systemctl_cat_names_the_unit_that_it_shows() -> None:
    shown = "# /etc/systemd/system/llm@.service\n[Service]\nExecStart=/bin/a %i\n\n# /etc/systemd/system/llm@.service.d/o.conf\n[Service]\nUser=u\n"
    report = read_unit(shown, "cat.txt")
    assert (report.unit.exec_start, report.unit.user) == ((("/bin/a", "%i"),), "u")
    assert "specifier-in-non-template" not in {f.code for f in report.findings}


def test_a_timer_needs_no_program() -> None:
    assert read_unit("[Unit]\nDescription=x\n[Timer]\nOnCalendar=daily\n", "x.timer").findings == ()
