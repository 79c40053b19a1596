"""Each failure code: one entry a cause, in a boot that failed, with a remedy, and its line found by the prefilter."""

import pytest

from state.inspection.engines import readings, remedy
from state.inspection.log import read_log
from state.inspection.report import LogReport
from state.inspection.runtime_failures import REMEDIES
from tests.inspection.failure_cases import SGLANG, VLLM

CASES = [pytest.param("sglang", code, text, id=name) for name, code, text in SGLANG] + [
    pytest.param("vllm", code, text, id=name) for name, code, text in VLLM
]


def read(text: str) -> LogReport:
    return read_log(text.encode().splitlines(keepends=True))


@pytest.mark.parametrize(("engine", "code", "text"), CASES)
def test_a_cause_is_named_once(engine: str, code: str, text: str) -> None:
    boot = read(text).boots[-1]
    assert [entry.code for entry in boot.failures] == [code]
    assert boot.outcome == "failed" or (code == "stop-timeout" and boot.outcome == "stopped")


@pytest.mark.parametrize(("engine", "code", "text"), CASES)
def test_the_line_is_the_one_that_names_the_cause(engine: str, code: str, text: str) -> None:
    entry = read(text).boots[-1].failures[0]
    line = text.split("\n")[entry.line - 1]
    assert entry.text.rstrip("…")[-40:] in " ".join(line.split())


@pytest.mark.parametrize("code", sorted(REMEDIES))
def test_every_code_has_a_remedy_of_one_sentence_for_every_engine(code: str) -> None:
    for reading in readings():
        sentence = remedy(reading.name, code)
        assert sentence.endswith(".")
        assert len(sentence) > 20


def test_every_code_is_covered_by_a_case() -> None:
    assert {code for _, code, _ in (*SGLANG, *VLLM)} == set(REMEDIES)
