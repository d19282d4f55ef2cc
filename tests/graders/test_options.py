"""Each option switches one convention off, and the strict mode takes marks alone."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from graders import Verdict
from graders.extract import boxed_answer, claimed_answer, cut_stops, extract_answer, hash_answer
from graders.math_grader import MathGrader
from graders.numeric import GSM8KGrader
from graders.options import DEFAULTS, STRICT, Options

# Option: a pair (gold, pred) that is CORRECT with it and not without it.
PAIRS = {
    "percent_optional": ("35", "35\\%"),
    "degrees_convert": ("\\frac{\\pi}{6}", "30^\\circ"),
    "money_converts": ("\\$0.75", "75\\text{ cents}"),
    "decimal_comma": ("2.5", "2,5"),
    "drop_label": ("5", "x=5"),
    "drop_parentheses": ("(3,-5)", "3,-5"),
    "set_of_one": ("\\{2\\}", "2"),
    "assignments_as_points": ("(1,2)", "x=1, y=2"),
    "comma_unions": ("(1,2)\\cup(3,4)", "(1,2),(3,4)"),
    "drop_base": ("2021_3", "2021"),
    "ratios_by_value": ("3:5", "6:10"),
    "solved_inequalities": ("[3,\\infty)", "x\\ge 3"),
    "choice_with_value": ("\\text{(C)}", "\\text{(C) } 24"),
    "approximate_twin": ("\\frac{13}{6}", "2.17\\approx\\frac{13}{6}"),
    "doubled_backslashes": ("\\frac{1}{2}", "\\\\frac12"),
    "number_words": ("5", "five"),
    "sampled_identities": ("|x||y|", "|xy|"),
}
# Option: format, completion and gold that are CORRECT with it and not without it.
COMPLETIONS = {
    "stop_texts": ("math", "\\boxed{6}\nProblem: 1+1\n\\boxed{2}", "6"),
    "join_boxes": ("math", "\\boxed{2} or \\boxed{3}", "2,3"),
    "claims": ("gsm8k", "The answer is 7, not 8.", "7"),
    "last_number": ("gsm8k", "So she has 7.", "7"),
    "bare_answer": ("math", "7", "7"),
}


def test_every_option_has_an_example() -> None:
    names = {field.name for field in fields(Options)}
    assert names == set(PAIRS) | set(COMPLETIONS)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_option_of_comparison(name: str) -> None:
    gold, pred = PAIRS[name]
    assert MathGrader(symbolic=False).grade_answer(pred, gold).verdict is Verdict.CORRECT
    off = MathGrader(replace(DEFAULTS, **{name: False}), symbolic=False)
    assert off.grade_answer(pred, gold).verdict is not Verdict.CORRECT


@pytest.mark.parametrize("name", sorted(COMPLETIONS))
def test_option_of_extraction(name: str) -> None:
    kind, completion, gold = COMPLETIONS[name]
    off = replace(DEFAULTS, **{name: False})
    graders = {
        "math": (MathGrader(), MathGrader(off)),
        "gsm8k": (GSM8KGrader(), GSM8KGrader(off)),
    }[kind]
    verdicts = [grader(completion, gold).verdict for grader in graders]
    assert verdicts[0] is Verdict.CORRECT and verdicts[1] is not Verdict.CORRECT


# The table of docs/graders.md: completion, format, lenient answer, strict answer.
EXTRACTION = [
    ("so $\\boxed{7}$.", "math", "7", "7"),
    ("\\boxed{3} then \\boxed{9}", "math", "9", "9"),
    ("\\boxed{3} or \\boxed{9}", "math", "3, 9", "9"),
    ("\\boxed{\\frac{1}{2}}", "math", "\\frac{1}{2}", "\\frac{1}{2}"),
    ("\\fbox{7}", "math", "7", "7"),
    ("\\boxed 7.", "math", "7", "7"),
    ("\\boxed{7", "math", None, None),
    ("\\boxed{7} but \\boxed{}", "math", None, None),
    ("The answer is 7.", "math", "7", None),
    ("**Answer:** $7$", "math", "7", None),
    ("7", "math", "7", None),
    ("x is 7\nI think", "math", None, None),
    ("#### 7 eggs", "gsm8k", "7 eggs", "7 eggs"),
    ("####\n7", "gsm8k", "7", "7"),
    ("### 7", "gsm8k", "7", None),
    ("#### The answer is 7", "gsm8k", "7", "The answer is 7"),
    ("so she has 7.", "gsm8k", "7", None),
    ("#### 7\n\nQuestion: 1+1?\n#### 2", "gsm8k", "7", "7"),
    ("<think>#### 5</think>#### 7", "gsm8k", "7", "7"),
    ("#### 7<|im_end|>#### 8", "gsm8k", "7", "7"),
]


@pytest.mark.parametrize(("text", "kind", "lenient", "strict"), EXTRACTION)
def test_extraction_table(text: str, kind: str, lenient: str | None, strict: str | None) -> None:
    assert extract_answer(text, kind) == lenient
    assert extract_answer(text, kind, STRICT) == strict


def test_the_documentation_holds_the_table() -> None:
    from pathlib import Path

    page = Path(__file__).parents[2] / "docs" / "graders.md"
    text = page.read_text(encoding="utf-8")
    for field in fields(Options):
        assert f"`{field.name}`" in text
    for completion, _, _, _ in EXTRACTION:
        shown = completion.replace("\n", "⏎").replace("|", "\\|")
        assert f"`{shown}`" in text, shown


def test_parts_of_extraction() -> None:
    assert hash_answer("no mark") is None
    assert boxed_answer("no box") is None
    assert claimed_answer("no claim") is None
    assert cut_stops("<think>never ends") == ""
    assert extract_answer("x" * 500_000 + "\\boxed{4}", "math") == "4"
