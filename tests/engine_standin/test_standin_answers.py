"""Answers that a smoke test can check, and text that it must find sound or degenerate."""

import json
from itertools import islice

import pytest

from state.smoke import LONG_PROMPTS, QUESTIONS, Question, degenerate
from tasks.practice.engine.answers import answer
from tasks.practice.engine.compose import Wish, compose
from tasks.practice.engine.prose import pieces_of, prose
from tests.engine_standin.standin_launch import launched


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.prompt[:40])
def test_smoke_questions_are_answered_rightly(question: Question) -> None:
    pieces, finish = compose(launched(), Wish(question.prompt, most=64))
    assert question.right("".join(pieces))
    assert finish == "stop"


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        pytest.param("What is 17 + 25? Answer with the number only.", "42", id="sum"),
        pytest.param("Compute 12 times 12.", "144", id="product in words"),
        pytest.param("What is 3 minus 10?", "-7", id="negative difference"),
        pytest.param("The capital of Japan is", "Tokyo", id="capital, as a continuation"),
        pytest.param("What is the capital of the Netherlands?", "Amsterdam", id="capital with article"),
        pytest.param("Spell the word 'cat' with hyphens.", "c-a-t", id="spelling"),
        pytest.param("Repeat the word 'signal' three times.", "signal signal signal", id="repetition"),
        pytest.param("Reply with exactly the word 'ready'.", "ready", id="exact word"),
        pytest.param("Answer with only: yes", "yes", id="exact word without quotes"),
        pytest.param("Count from 1 to 5, separated by commas.", "1, 2, 3, 4, 5", id="counting"),
        pytest.param("Reverse the word stone.", "enots", id="reversal"),
        pytest.param("Tell me something about rivers.", None, id="nothing to check"),
        pytest.param("What is 4 / 0?", None, id="no division by zero"),
    ],
)
def test_answers(prompt: str, expected: str | None) -> None:
    assert answer(prompt) == expected


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        pytest.param('Return this JSON: {"a": [1, 2]}', {"a": [1, 2]}, id="spelt out"),
        pytest.param(
            'Give a JSON object with "status" set to "ok" and "count" set to 3.',
            {"status": "ok", "count": 3},
            id="pairs",
        ),
        pytest.param(
            'A JSON object with the keys "city" for the capital of Italy.', {"city": "Rome"}, id="key with a fact"
        ),
    ],
)
def test_json_objects(prompt: str, expected: object) -> None:
    assert json.loads(answer(prompt) or "") == expected


def test_json_fits_a_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"sum": {"type": "integer"}, "sure": {"type": "boolean"}, "unit": {"enum": ["m", "s"]}},
    }
    assert json.loads(answer("What is 2 + 3?", schema) or "") == {"sum": 5, "sure": True, "unit": "m"}


@pytest.mark.parametrize("prompt", LONG_PROMPTS)
@pytest.mark.parametrize("tokens", [64, 256, 2000])
def test_long_answers_are_not_degenerate(prompt: str, tokens: int) -> None:
    pieces, finish = compose(launched(), Wish(prompt, most=tokens, ignore_eos=True, raw=True))
    assert (len(pieces), finish) == (tokens, "length")
    assert degenerate("".join(pieces)) is False


@pytest.mark.parametrize("faults", ['[{"fault": "garbage-answers"}]', "[]"], ids=["fault", "simulated acceptance"])
def test_garbage_is_degenerate(faults: str) -> None:
    launch = launched(faults=faults, **({"SGLANG_SIMULATE_ACC_LEN": "4.0"} if faults == "[]" else {}))
    pieces, _ = compose(launch, Wish("What is 17 + 25?", most=64))
    assert degenerate("".join(pieces)) is True
    assert "42" not in "".join(pieces)


def test_wrong_answers_are_sound_text() -> None:
    pieces, _ = compose(launched(faults='[{"fault": "wrong-answers"}]'), Wish("What is 17 + 25?", most=64))
    assert degenerate("".join(pieces)) is False
    assert "42" not in "".join(pieces)


def test_a_stop_string_ends_the_answer_before_it() -> None:
    pieces, finish = compose(launched(), Wish("Count from 1 to 9.", most=64, stop=(" 4 5",)))
    assert ("".join(pieces), finish) == ("1 2 3", "stop")


def test_the_same_seed_gives_the_same_prose() -> None:
    assert list(islice(prose(1), 200)) == list(islice(prose(1), 200))
    assert list(islice(prose(1), 200)) != list(islice(prose(2), 200))


def test_pieces_lose_nothing() -> None:
    text = "Two  words,\nand (three) — signs!"
    assert "".join(pieces_of(text)) == text
