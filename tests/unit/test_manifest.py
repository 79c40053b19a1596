"""A manifest is read whole, or every mistake in it is told with its line, its field and what was expected."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from state.errors import ManifestInvalid
from state.manifest.claim_specs import (
    AcceptLengthSpec,
    AnswersSpec,
    FirstTokenSpec,
    GoodputSpec,
    InterTokenSpec,
    ThroughputSpec,
)
from state.manifest.load import load_manifest
from state.manifest.model import Manifest
from state.manifest.quantities import parse_change, parse_duration, parse_path, parse_pci_address

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "reference" / "example.yaml"

SOUND = """\
interlock: 1
service: qwen
hosts:
  serving: {address: llm.example, user: interlock}
unit:
  host: serving
  name: sglang.service
  user: sglang
engine:
  kind: sglang
  command: [/opt/sglang/bin/python, -m, sglang.launch_server]
  endpoint: http://127.0.0.1:30000
  arguments: {model_path: /m}
"""


def mistakes(text: str) -> tuple[str, ...]:
    with pytest.raises(ManifestInvalid) as caught:
        load_manifest(text, "m.yaml")
    return caught.value.mistakes


def changed(**sections: Any) -> str:
    """The sound manifest with sections replaced, or parts of them where both are mappings."""
    raw = yaml.safe_load(SOUND)
    for name, value in sections.items():
        raw[name] = {**raw[name], **value} if isinstance(value, dict) and name in raw else value
    return yaml.safe_dump(raw, sort_keys=False)


def test_the_full_example_is_read_and_uses_every_field() -> None:
    manifest = load_manifest(EXAMPLE.read_text(), "example.yaml")
    assert manifest.model_fields_set == set(Manifest.model_fields)
    assert manifest.gpus is not None
    for part in (
        manifest.unit, manifest.unit.stop, manifest.engine, manifest.gpus, manifest.policy, manifest.hosts["serving"]
    ):  # fmt: skip
        assert part.model_fields_set == set(type(part).model_fields)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "deployments" / "manifests").glob("*.yaml")), ids=lambda path: path.name
)
def test_every_manifest_that_ships_is_sound(path: Path) -> None:
    assert load_manifest(path.read_text(), path.name).interlock == 1


def test_the_reference_page_shows_the_example_as_it_is() -> None:
    page = (EXAMPLE.parent / "manifest.md").read_text()
    assert f"<!-- example.yaml -->\n```yaml\n{EXAMPLE.read_text()}```\n" in page


def test_the_example_means_what_it_says() -> None:
    manifest = load_manifest(EXAMPLE.read_text(), "example.yaml")
    assert manifest.unit.stop.drain == 60
    assert manifest.readiness.timeout == 600
    length, throughput, first, inter, goodput, answers = manifest.claims
    assert length == AcceptLengthSpec(at_least=2.0, confidence=0.95, within=180.0, inconclusive="hold")
    assert throughput == ThroughputSpec(against="baseline", at_least="+12%", concurrency=(1, 8, 32))
    assert first == FirstTokenSpec(at_most=0.8, concurrency=(8,))
    assert inter == InterTokenSpec(at_most="+10%", concurrency=(8,))
    assert goodput == GoodputSpec(at_least=0.95, first_token=2.0, inter_token=0.05, concurrency=(8,))
    assert isinstance(answers, AnswersSpec)
    assert answers.questions[0].matches == r"\b144\b"
    assert (manifest.traffic.tokens, manifest.traffic.budget, manifest.traffic.rate) == (256, 180, 8)
    assert manifest.policy.timer == 300
    assert manifest.gpus is not None
    assert manifest.gpus.drivers["nvidia"][1] == "0000:11:00.0"


def test_a_manifest_survives_json() -> None:
    manifest = load_manifest(EXAMPLE.read_text(), "example.yaml")
    assert Manifest.model_validate(manifest.as_json()) == manifest


def test_ten_mistakes_give_ten_sentences_with_their_lines() -> None:
    text = """\
interlock: 1
service: Qwen 122B
hosts:
  serving: {adress: 10.0.0.1, address: 10.0.0.1, user: interlock}
unit:
  host: serving
  name: etc/sglang.service
  user: sglang
  environment:
    COUNTRY: no
    HF_TOKEN: hf_abcdef
  secrets: [/etc/interlock/../shadow]
  stop: {drain: soon}
engine:
  kind: sglang
  command: [/opt/sglang/bin/python, -m, sglang.launch_server]
  endpoint: http://127.0.0.1:8000
  arguments:
    speculative_num_steps: 5
gpus:
  host: serving
  drivers:
    nvidia: ["01:00.0"]
    vfio-pci: ["0000:01:00.0"]
"""
    assert mistakes(text) == (
        "m.yaml:2: service: `Qwen 122B` does not fit; expected a name of lower-case letters, digits, - and .",
        "m.yaml:4: hosts.serving.adress: is not known here; did you mean `address`?",
        "m.yaml:7: unit.name: `etc/sglang.service` has a slash in it; expected a unit name, not a path",
        'm.yaml:10: unit.environment.COUNTRY: `no` is a boolean to some readers of YAML; expected false, or "no" in'
        " quotes",
        "m.yaml:11: unit.environment.HF_TOKEN: holds a secret; expected it in a root-only file on the host that is"
        " named under `unit.secrets`",
        "m.yaml:12: unit.secrets[0]: `/etc/interlock/../shadow` has `.` or `..` in it; expected a path without them",
        "m.yaml:13: unit.stop.drain: `soon` is no duration; expected one such as 90s, 10m or 1h30m",
        "m.yaml:17: engine.endpoint: names port 8000, but the engine's default is 30000; expected the same port",
        "m.yaml:19: engine.arguments.speculative_num_steps: has no effect without `speculative_algorithm`; expected"
        " both or neither",
        "m.yaml:24: gpus.drivers.vfio-pci[0]: `0000:01:00.0` is listed under `nvidia` already; expected each GPU once",
    )


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        pytest.param(
            {"policy": {"hold": {"deadline": "0s"}}},
            "policy.hold.deadline: `0.0` does not fit; expected a duration from 1s to 7d, such as 2h",
            id="a-hold-of-no-time",
        ),
        pytest.param(
            {"policy": {"hold": {"deadline": "8d"}}}, "expected a duration from 1s to 7d", id="a-hold-for-ever"
        ),
        pytest.param(
            {"policy": {"hold": {"default": "promote"}}},
            "policy.hold.default: `promote` does not fit; expected `rollback` or `accept`",
            id="a-default-that-is-none",
        ),
        pytest.param(
            {"policy": {"hold": "2h"}},
            "policy.hold: `2h` does not fit; expected a mapping of deadline and default",
            id="a-hold-that-is-no-mapping",
        ),
        pytest.param(
            {"policy": {"hold": {"dealine": "2h"}}}, "is not known here; did you mean `deadline`?", id="a-hold-misspelt"
        ),
        *(
            pytest.param(
                {"readiness": {"timeout": written}},
                f"m.yaml:21: readiness.timeout: `{read}` does not fit; expected a duration of at least 1s, such as 10m",
                id=f"a-start-that-may-take-{written}",
            )
            for written, read in ((0, "0.0"), ("0s", "0.0"), ("999ms", "0.999"))
        ),
        *(
            pytest.param(
                {"unit": {"stop": stop}},
                "unit.stop.timeout: `0` without a `drain` would have systemd wait for ever, which takes 0 for no limit;"
                " expected a duration such as 90s",
                id=f"a-stop-{words}",
            )
            for words, stop in {
                "in-no-time-at-all": {"timeout": 0},
                "without-drain-and-timeout": {"drain": "0s", "timeout": 0},
            }.items()
        ),
        pytest.param({"readiness": {"timeout": f"{'9' * 400}d"}}, "999...` is out of range; expected", id="not-finite"),
        pytest.param({"policy": {"soak": "11575d"}}, "seconds from 0 up, below 1000000000", id="a-soak-of-32-years"),
        pytest.param({"unit": {"host": "other"}}, "unit.host: `other` is not among the hosts", id="unit-on-no-host"),
        pytest.param(
            {"gpus": {"host": "x", "drivers": {}}}, "gpus.host: `x` is not among the hosts", id="gpus-on-no-host"
        ),
        pytest.param(
            {"gpus": {"host": "serving", "drivers": {}, "persist": True}},
            "gpus.persist: `true` does not fit; expected `none` or `boot`",
            id="persist-is-a-choice-of-two",
        ),
        pytest.param(
            {"gpus": {"host": "serving", "drivers": {}, "persists": "boot"}},
            "gpus.persists: is not known here; did you mean `persist`?",
            id="persist-misspelt",
        ),
        pytest.param({"unit": {"name": "sglang@.service"}}, "is a template", id="a-template-is-no-unit-to-start"),
        pytest.param({"unit": {"name": "sglang.timer"}}, "is no service unit", id="a-timer-is-no-service"),
        pytest.param({"unit": {"environment": {"A": 1}}}, "is a number; expected text", id="a-number-in-environment"),
        pytest.param(
            {"unit": {"environment": {"A": True}}}, "is a boolean; expected text", id="a-boolean-in-environment"
        ),
        pytest.param({"unit": {"environment": {"MY_PASSWORD": "x"}}}, "holds a secret", id="a-password"),
        pytest.param(
            {"unit": {"environment": {"URL": "postgres://u:p@h/"}}}, "holds a secret", id="a-password-in-a-url"
        ),
        pytest.param({"unit": {"environment": {"A": "x\ny"}}}, "A: `x", id="a-line-break-in-environment"),
        pytest.param({"engine": {"key_file": "etc/x.key"}}, "key_file: is no absolute path", id="a-relative-key-file"),
        pytest.param(
            {"unit": {"secrets": ["/etc/x.env"]}, "engine": {"key_file": "/etc/x.env"}},
            "engine.key_file: `/etc/x.env` is under `unit.secrets` as well, which sets variables; expected a file with",
            id="a-file-of-variables-as-the-key",
        ),
        pytest.param({"unit": {"secrets": ["etc/x.env"]}}, "secrets[0]: is no absolute path", id="a-relative-path"),
        pytest.param({"unit": {"secrets": ["/etc/*.env"]}}, "not written plainly", id="a-glob-in-a-path"),
        pytest.param({"unit": {"secrets": ["/etc//x.env"]}}, "not written plainly", id="a-path-that-is-not-normalised"),
        pytest.param({"unit": {"limits": {"LimitNOFIL": 1}}}, "is no limit that is known", id="an-unknown-limit"),
        pytest.param({"unit": {"limits": {"LimitNOFILE": "many"}}}, "is no limit; expected", id="a-limit-in-words"),
        pytest.param({"unit": {"restart": False}}, 'expected "no" (in quotes)', id="restart-no-without-quotes"),
        pytest.param({"unit": {"working_directory": "~"}}, "is no absolute path", id="a-home-as-folder"),
        pytest.param({"engine": {"kind": "sglan"}}, "expected `sglang`", id="an-unknown-engine"),
        pytest.param({"engine": {"command": []}}, "engine.command: is empty", id="no-command"),
        pytest.param({"engine": {"command": ["python"]}}, "no plain absolute path", id="a-program-without-its-path"),
        pytest.param(
            {"engine": {"command": ["/p", "-m", "sglang.launch_server", "--tp", "4"]}},
            "has the engine's flag `tp_size`",
            id="a-flag-in-the-command",
        ),
        pytest.param({"engine": {"command": ["/p", "--api-key", "k"]}}, "holds a secret", id="a-secret-in-the-command"),
        pytest.param({"engine": {"arguments": {"api_key": "k"}}}, "api_key: is a secret", id="an-api-key"),
        pytest.param(
            {"engine": {"arguments": {"tp-size": 4}}}, "the engine's Python name, `tp_size`", id="a-flag-as-name"
        ),
        pytest.param(
            {"engine": {"arguments": {"x": {1: "a"}}}}, "cannot be a key; expected text", id="a-number-as-a-key-of-json"
        ),
        pytest.param({"engine": {"arguments": {"x": []}}}, "is an empty list", id="an-empty-list"),
        pytest.param({"engine": {"arguments": {"x": [True]}}}, "has `true` in its list", id="a-boolean-in-a-list"),
        pytest.param({"engine": {"arguments": {"x": ["-a"]}}}, "would take for a flag", id="a-dash-in-a-list"),
        pytest.param({"engine": {"arguments": {"x": float("nan")}}}, "no finite number", id="not-a-number"),
        pytest.param({"engine": {"arguments": {"port": 1}}}, "`engine.arguments.port` is 1", id="two-ports"),
        pytest.param({"engine": {"endpoint": "https://h:1"}}, "is no endpoint", id="https-to-the-engine"),
        pytest.param({"engine": {"endpoint": "http://h"}}, "names no port", id="an-endpoint-without-port"),
        pytest.param(
            {"engine": {"endpoint": "http://h:30000/v1"}}, "more or less than a host", id="a-path-in-the-endpoint"
        ),
        pytest.param({"engine": {"endpoint": "http://h:99999"}}, "names no port", id="a-port-out-of-range"),
        pytest.param({"engine": {"version": 0.5}}, "version: `0.5` is a number", id="a-version-as-number"),
        pytest.param(
            {"hosts": {"serving": {"address": "u@h", "user": "u"}}}, "is no host address", id="a-user-in-the-address"
        ),
        pytest.param(
            {"hosts": {"serving": {"address": "h", "user": "u", "host_key": "AAAA"}}},
            "public key line",
            id="half-a-host-key",
        ),
        pytest.param({"claims": [{"claim": "acept-length"}]}, "did you mean `accept-length`?", id="an-unknown-claim"),
        pytest.param({"claims": [{"at_least": 2}]}, "claims[0]: names no claim", id="a-claim-without-a-name"),
        pytest.param(
            {"claims": [{"claim": "throughput", "at_least": "12%"}]}, "expected +12% or -12%", id="a-bare-change"
        ),
        pytest.param(
            {"claims": [{"claim": "throughput", "at_least": "fast"}]},
            "is no throughput; expected",
            id="a-word-as-speed",
        ),
        pytest.param(
            {"claims": [{"claim": "throughput", "at_least": "-100%"}]}, "a change to nothing", id="a-change-to-nothing"
        ),
        pytest.param(
            {"claims": [{"claim": "throughput", "at_least": 900, "concurrency": [8, 8]}]},
            "names a concurrency twice",
            id="a-level-twice",
        ),
        pytest.param(
            {"claims": [{"claim": "throughput", "at_least": 900, "concurrency": [5000]}]},
            "from 1 to 4096",
            id="too-many-at-once",
        ),
        pytest.param(
            {
                "claims": [
                    {"claim": "throughput", "at_least": "+12%", "concurrency": [1, 8]},
                    {"claim": "throughput", "at_least": "+20%", "concurrency": [8]},
                ]
            },
            "claims[1]: claims throughput at concurrency 8 as claims[0] does",
            id="one-verdict-asked-for-twice",
        ),
        pytest.param(
            {"claims": [{"claim": "time-to-first-token", "at_most": "soon"}]},
            "no duration; expected one such as 90s",
            id="a-word-as-latency",
        ),
        pytest.param(
            {"claims": [{"claim": "inter-token-latency", "at_most": "0s"}]}, "is no latency", id="no-latency-at-all"
        ),
        pytest.param(
            {"claims": [{"claim": "goodput", "at_least": 95, "first_token": "2s", "inter_token": "50ms"}]},
            "no share in per cent; expected one such as 95%",
            id="a-share-as-a-bare-number",
        ),
        pytest.param(
            {"claims": [{"claim": "goodput", "at_least": "95%", "first_token": "2s"}]},
            "claims[0].inter_token: is missing; expected a duration such as 50ms",
            id="goodput-without-a-bound",
        ),
        pytest.param(
            {"claims": [{"claim": "answers", "at_least": "90%", "questions": [{"prompt": "2 + 2?", "matches": "4("}]}]},
            "claims[0].questions[0].matches: `4(` is no regular expression (missing ): 4(); expected one in RE2",
            id="a-broken-pattern",
        ),
        pytest.param(
            {"claims": [{"claim": "answers", "at_least": "90%", "questions": [{"prompt": "2 + 2?", "matches": ".*"}]}]},
            "matches an empty answer",
            id="a-pattern-that-every-answer-matches",
        ),
        pytest.param(
            {"claims": [{"claim": "accept-length", "at_least": 2, "within": "7h"}]},
            "claims[0].within: `7h` does not fit; expected a duration of up to 6h",
            id="a-claim-that-takes-all-day",
        ),
        pytest.param(
            {"claims": [{"claim": "accept-length", "at_least": 2, "inconclusive": "ask"}]},
            "expected `rollback`, `hold` or `accept`",
            id="a-claim-of-unknown-policy",
        ),
        pytest.param({"traffic": {"prompts": ["  "]}}, "traffic.prompts[0]: `  ` asks nothing", id="an-empty-prompt"),
        pytest.param({"traffic": {"tokens": 4}}, "from 8 to 16384", id="too-few-tokens"),
        pytest.param({"traffic": {"rate": 0}}, "above 0 and up to 1000", id="no-request-ever"),
        pytest.param({"traffic": {"budget": "1d"}}, "a duration of up to 6h", id="a-budget-of-a-day"),
        pytest.param(
            {"claims": [{"claim": "accept-length", "at_least": 0.5}]}, "a number from 1 up", id="too-short-to-be"
        ),
        pytest.param({"policy": {"timer": "1s"}}, "at least 10s", id="a-timer-that-would-fire-at-once"),
        pytest.param({"policy": {"soack": "1s"}}, "did you mean `soak`?", id="a-misspelt-field"),
        pytest.param({"schedule": [{"cron": "0 7 * *", "revision": "day"}]}, "is no cron line", id="four-cron-fields"),
        pytest.param(
            {"schedule": [{"cron": "0 25 * * *", "revision": "d"}]}, "from 0 to 23", id="an-hour-out-of-range"
        ),
        pytest.param({"schedule": [{"cron": "0 7 * * *", "revision": "../d"}]}, "schedule[0].revision", id="a-way-out"),
        pytest.param({"interlock": 2}, "expected 1, the version", id="a-future-format"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(sections: dict[str, Any], sentence: str) -> None:
    (told,) = mistakes(changed(**sections))
    assert sentence in told
    assert re.match(r"m\.yaml:\d+: [a-z]", told)
    assert not re.search(r"pydantic|type=|str_type|Input should|\n", told)


def test_an_engine_that_is_only_read_is_not_rolled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state.manifest.quantities.NAMES", ("sglang", "read-alone"))
    (told,) = mistakes(changed(engine={"kind": "read-alone"}))
    assert "can be inspected but not rolled out by this release; expected `sglang`" in told


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("a: [1\nb: {", "m.yaml:2: the file is no YAML at column 2: ", id="broken-syntax"),
        pytest.param("a: 1\n\tb: 2", "m.yaml:2: the file is no YAML at column 1: ", id="a-tab-as-indent"),
        pytest.param("", "m.yaml:1: the file holds `null`; expected a mapping", id="nothing"),
        pytest.param("- a", "m.yaml:1: the file holds a list; expected a mapping", id="a-list"),
        pytest.param("a: 1\n---\nb: 2", "m.yaml:2: the file begins a second document", id="two-documents"),
        pytest.param("[" * 2000, "m.yaml:1: the file is nested deeper than 20 levels", id="deep-nesting"),
        pytest.param("a: &a [*a]", "m.yaml:1: the file grows beyond measure", id="an-alias-to-itself"),
        pytest.param(
            "a: &a [x]\nb: [" + "*a, " * 51 + "]", "m.yaml:2: the file has more than 50 aliases", id="many-aliases"
        ),
        pytest.param("x" * 300_000, "m.yaml:1: the file is longer than 256 Ki characters", id="a-huge-file"),
        pytest.param(
            "a: 1\nb: \x01", "m.yaml:2: the file has a character that YAML does not allow", id="a-control-character"
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_sentence(text: str, sentence: str) -> None:
    (told,) = mistakes(text)
    assert told.startswith(sentence)


def test_aliases_cannot_multiply_without_bound() -> None:
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 6))
    (told,) = mistakes(f"a0: &a0 [x, x, x, x, x, x, x, x, x]\n{levels}\n")
    assert "grows beyond measure" in told


@pytest.mark.parametrize(
    ("scalar", "words"),
    [
        pytest.param("yes", "boolean to some readers", id="yes"),
        pytest.param("Off", "boolean to some readers", id="off"),
        pytest.param("010", "read differently", id="octal"),
        pytest.param("0x10", "read differently", id="hexadecimal"),
        pytest.param("1_000", "read differently", id="underscore"),
        pytest.param("1:30", "read differently", id="base-sixty"),
        pytest.param("1e3", "read differently", id="exponent-without-dot"),
        pytest.param("2026-01-01", "read differently", id="date"),
        pytest.param("!!python/name:os.system", "has the tag", id="python-tag"),
        pytest.param("!!binary aGk=", "has the tag", id="binary-tag"),
        pytest.param("!!python/object/apply:os.system [x]", "has the tag", id="python-object"),
    ],
)
def test_what_readers_of_yaml_disagree_on_is_refused(scalar: str, words: str) -> None:
    (told,) = mistakes(SOUND.replace("model_path: /m", f"x: {scalar} "))
    assert words in told
    assert told.startswith("m.yaml:13: engine.arguments.x: ")


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        pytest.param("0.75", 0.75, id="fraction"),
        pytest.param("1.0e-3", 0.001, id="exponent-with-dot"),
        pytest.param('"no"', "no", id="quoted-no"),
        pytest.param("'010'", "010", id="quoted-octal"),
        pytest.param("true", True, id="true"),
        pytest.param("null", None, id="null"),
        pytest.param("0.5.23", "0.5.23", id="a-version-is-text"),
        pytest.param("-1", -1, id="negative"),
    ],
)
def test_plain_scalars_keep_their_meaning(scalar: str, value: object) -> None:
    manifest = load_manifest(SOUND.replace("model_path: /m", f"x: {scalar}"), "m.yaml")
    got = manifest.engine.arguments["x"]
    assert (got, type(got)) == (value, type(value))


def test_a_key_that_stands_twice_is_told_with_both_lines() -> None:
    assert mistakes(SOUND + "service: other\n") == (
        "m.yaml:14: service: stands twice, first in line 2; expected it once",
    )


def test_merge_keys_are_not_read() -> None:
    (told,) = mistakes(SOUND.replace("{model_path: /m}", "{<<: {a: 1}}"))
    assert "`<<` cannot be a key" in told


def test_a_missing_section_is_told_at_its_parent() -> None:
    text = SOUND.replace("  kind: sglang\n", "")
    assert mistakes(text) == ("m.yaml:9: engine.kind: is missing; expected an engine, such as `sglang`",)


def test_a_manifest_made_without_text_is_held_to_the_same_rules() -> None:
    raw = yaml.safe_load(changed(unit={"host": "other"}))
    with pytest.raises(ValidationError, match=r"unit\.host: `other` is not among the hosts"):
        Manifest.model_validate(raw)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60s", 60),
        ("10m", 600),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("2d", 172800),
        ("1m30s", 90),
        (90, 90),
    ],
)
def test_durations_are_seconds(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "sections",
    [
        pytest.param({"unit": {"stop": {"drain": "60s", "timeout": 0}}}, id="a-drain-is-time-enough-for-a-stop"),
        pytest.param({"unit": {"stop": {"drain": 0}}}, id="so-is-the-usual-timeout"),
        pytest.param({"unit": {"stop": {"timeout": "1ms"}}}, id="and-a-millisecond"),
        pytest.param({"readiness": {"timeout": "1s"}}, id="a-second-to-be-ready"),
        pytest.param({"policy": {"soak": 0}}, id="no-soak"),
        pytest.param({"traffic": {"budget": "1ms"}}, id="hardly-any-traffic"),
    ],
)
def test_a_short_time_is_taken_where_it_can_be_kept(sections: dict[str, Any]) -> None:
    assert load_manifest(changed(**sections), "m.yaml").interlock == 1


@pytest.mark.parametrize("text", ["", "10", "m", "30m1h", "1h 30m", "-1s", -1, True, None, "10 s", "1e3s", 10**400])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(PydanticCustomError, match=r"expected"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "ratio"), [("+12%", 0.12), ("-5%", -0.05), ("150%", 1.5), ("+0.5%", 0.005), (0.12, 0.12)]
)
def test_changes_are_ratios(text: object, ratio: float) -> None:
    assert parse_change(text) == ratio


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("0000:01:00.0", "0000:01:00.0", id="whole"),
        pytest.param("E1:00.0", "0000:e1:00.0", id="without-domain-and-in-capitals"),
        pytest.param("00000000:01:00.0", "0000:01:00.0", id="as-nvidia-smi-prints-it"),
        pytest.param("0001:01:1f.7", "0001:01:1f.7", id="another-domain"),
    ],
)
def test_pci_addresses_are_normalised(text: str, address: str) -> None:
    assert parse_pci_address(text) == address


@pytest.mark.parametrize(
    "text", ["01:00", "0000:01:20.0", "0000:01:00.8", "0000:01:00.0/../x", "", None, 12, "10de:2bb1"]
)
def test_what_is_no_pci_address_is_refused(text: object) -> None:
    with pytest.raises(PydanticCustomError, match=r"is no PCI address"):
        parse_pci_address(text)


@pytest.mark.parametrize("text", ["", "x", "/", "/a/", "/a/../b", "/a/./b", "/a b", "/a\n", "/$x", "/a;b", None])
def test_paths_cannot_leave_their_place(text: object) -> None:
    with pytest.raises(PydanticCustomError, match=r"expected"):
        parse_path(text)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"engine": {"key_file": "sk-abcdef1234567890"}}, id="where-its-file-is-named"),
        pytest.param({"unit": {"secrets": ["sk-abcdef1234567890"]}}, id="among-the-files-of-secrets"),
    ],
)
def test_a_secret_in_place_of_its_path_is_not_shown(changes: dict[str, Any]) -> None:
    told = " ".join(mistakes(changed(**changes)))
    assert "not shown, since it may be the secret" in told
    assert "abcdef" not in told
