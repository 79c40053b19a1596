"""Answers that can be checked by rule, and text that no working model writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.smoke import LONG_PROMPTS, QUESTIONS, Question, degenerate

ANSWERS = {
    "17 + 25": ("42", "17 + 25 = 42.", "**42**"),
    "capital of France": ("Paris", "paris.", "<think>\n\n</think>\n\nParis"),
    "9 * 8": ("72", "9 * 8 is 72."),
    "red planet": ("Mars", "mars!"),
    "Repeat exactly": ("interlock", "Interlock."),
    "100 - 37": ("63", "The answer is 63"),
    "formula of water": ("H2O", "H₂O", "$H_2O$", "h2o"),
    "days does a week": ("7", "Seven", "seven days"),
}


@pytest.mark.parametrize(
    ("part", "answer"),
    [pytest.param(part, answer, id=f"{part}: {answer!r}") for part, answers in ANSWERS.items() for answer in answers],
)
def test_right_answers(part: str, answer: str) -> None:
    (question,) = [q for q in QUESTIONS if part in q.prompt]
    assert question.right(answer)


def test_every_question_has_right_answers_here() -> None:
    assert all(any(part in q.prompt for part in ANSWERS) for q in QUESTIONS)
    assert len(QUESTIONS) == len(ANSWERS)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.prompt[:24])
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("", id="nothing"),
        pytest.param("I do not know.", id="no answer"),
        pytest.param("!!!!!!!!!!!!!!!!", id="one sign"),
        pytest.param("1423 6372 172 parishes marsh interlocking 17", id="right ones as parts of others"),
    ],
)
def test_wrong_answers(question: object, answer: str) -> None:
    assert not question.right(answer)  # type: ignore[attr-defined]  # the table's own type


PROSE = (
    "A railway interlocking keeps trains apart by letting no signal clear until every point on the route is locked. "
    "The route is released only when the train has passed, section by section, so that no second train can enter it."
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", None, id="nothing"),
        pytest.param("42", None, id="a short answer"),
        pytest.param("Seven days.", None, id="a short sentence"),
        pytest.param("!!!!!!!!!", True, id="short, but one sign"),
        pytest.param("0 0 0 0 0 0", True, id="short, but one sign and spaces"),
        pytest.param(PROSE, False, id="prose"),
        pytest.param(
            "1. Mix the flour.\n2. Add the water.\n3. Let it rest.\n4. Bake it for an hour.\n", False, id="a list"
        ),
        pytest.param("| a | b |\n|---|---|\n| one | two |\n| three | four |\n| five | six |\n", False, id="a table"),
        pytest.param("def f(x):\n    return x + 1\n\n\ndef g(x):\n    return f(x) * 2 - 3\n", False, id="code"),
        pytest.param(
            "铁路联锁装置确保列车之间保持安全距离。只有当进路上的所有道岔都已锁闭，信号机才会开放，" * 1,
            False,
            id="Chinese prose",
        ),
        pytest.param("!" * 200, True, id="one sign for ever"),
        pytest.param(" ".join("0" * 100), True, id="one digit for ever"),
        pytest.param("the the the the " * 20, True, id="one word for ever"),
        pytest.param("I am a model. " * 20, True, id="one sentence for ever"),
        pytest.param("好的" * 60, True, id="a loop without spaces"),
        pytest.param("abcabc" * 30, True, id="a loop inside one word"),
        pytest.param(PROSE + " and so on and so on and so on" * 12, True, id="prose that ends in a loop"),
        pytest.param("....,,,,;;;; ---- ,,,, .... ;;;; :::: ,,,, .... ::,, ;;", True, id="no letter at all"),
        pytest.param(PROSE + "<|im_end|>", True, id="a leaked special token"),
        pytest.param(PROSE + "<|END_OF_TURN_TOKEN|>", True, id="a leaked special token in capitals"),
        pytest.param(PROSE + "<｜end▁of▁sentence｜>", True, id="a leaked special token in wide bars"),
        pytest.param("ok <unk>", True, id="an unknown token, even in short text"),
        pytest.param(PROSE + "\ufffd\ufffd", True, id="bytes that are no text"),
        pytest.param(PROSE + "\ufffd", False, id="one sign cut by the token limit"),
        pytest.param(
            "Use a < b | c > d to compare, and x <y| z|> w is no token at all, only odd prose.", False, id="bars"
        ),
    ],
)
def test_degenerate_text(text: str, expected: bool | None) -> None:
    assert degenerate(text) is expected


@given(st.text(max_size=300))
def test_any_text_can_be_judged(text: str) -> None:
    assert degenerate(text) in (True, False, None)


@given(st.text("abcdefghij ", min_size=1, max_size=12).filter(str.strip), st.integers(40, 60))
def test_anything_said_forty_times_is_degenerate(piece: str, times: int) -> None:
    assert degenerate(piece * times) is not False


@pytest.mark.parametrize("prompt", LONG_PROMPTS)
def test_prompts_are_no_loops_themselves(prompt: str) -> None:
    assert degenerate(prompt) is not True


SALAD = "The route 的列车 удерживает 列車は次の 信号 を 기다립니다 пока поезд не прошёл 区间 и 다음 신호"


@pytest.mark.parametrize(
    ("text", "prompt", "expected"),
    [
        pytest.param(SALAD, "Describe a railway.", True, id="scripts mixed"),
        pytest.param("北京是中华人民共和国的首都也是全国的政治文化中心之一", "Hello", True, id="another script"),
        pytest.param(
            "北京是中华人民共和国的首都也是全国的政治文化中心之一", "中国的首都？", None, id="the prompt's own"
        ),
        pytest.param(
            "The word for Tokyo is 東京, and it is a city that lies in Japan.", "Explain it.", False, id="a few signs"
        ),
        pytest.param(
            "Let λ and μ be the rates; then ρ = λ/μ, and the queue is stable if ρ < 1.",
            "Explain it.",
            False,
            id="Greek",
        ),
        pytest.param(
            "Ça dépend où l'élève être né: à Zürich, à Gdańsk ou à Århus.", "Explain it.", False, id="accents are Latin"
        ),
    ],
)
def test_scripts_that_the_prompt_gives_no_reason_for(text: str, prompt: str, expected: bool | None) -> None:
    assert degenerate(text, prompt) is expected


@pytest.mark.parametrize(
    "pattern", [r"^(\w+[\s,]*)+!$", r"(a+)+$", r"(a|aa)+$", r"(a|a)*b", r"(.*)*x", ".*a" * 9 + "x"]
)
def test_a_pattern_takes_time_in_proportion_to_the_answer(pattern: str) -> None:
    """Python's own engine does not come back from the first ones within a lifetime."""
    assert not Question("p", pattern).right("a" * 20_000 + " ")


def test_a_match_ignores_case_and_takes_any_place() -> None:
    assert Question("p", r"\bparis\b").right("It is PARIS, of course.")
    assert not Question("p", r"\bparis\b").right("parish")
