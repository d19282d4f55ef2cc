"""Both cuts of mathematical prose: their rules, causality, and steps of the gold solutions."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lang_env.latex_sentences import latex_cuts
from lang_env.segmenters import get_segmenter, split_at
from lang_env.tokenizers import load_tokenizer

DATA = os.environ.get("LANG_ENV_DATA")
TOKENIZER = load_tokenizer("builtin")
SOME = "This is long enough"
FRAGMENTS = [
    "The sum of all of them", ". ", ".", " is 3.5", "5.", " Then", "\n", "\n\n", "$x + y$", "$",
    "$$", ".$", "\\[a = b", "\\]", "\\(", "\\)", "[asy]", "[/asy]", "draw(a);\n", ", ", ": ",
    "\\begin{align*}", "\\end{align*}", "\\\\", "\\$", "=", " e.g.", " and so on", "é€😀", "</s>",
]  # fmt: skip
PROSE = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)


def causal(text):
    tokens = TOKENIZER.encode(text)
    pieces = split_at(tokens, get_segmenter("sentences")(tokens, TOKENIZER))
    return [TOKENIZER.decode(piece) for piece in pieces]


def paper(text):
    cuts = latex_cuts(text)
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@pytest.mark.parametrize(
    "steps",
    [
        [f"{SOME}.", f" {SOME}!", f" {SOME}?", " End"],
        [f"{SOME}\n", f"{SOME}\n", "End"],
        [f"Hm. Well. {SOME}.", " End"],  # short parts go on
        [f"{SOME} by Mr. Li, e.g. by A. Li.", " End"],
        [f"{SOME} of 3.5 or 12. ", "Then we end"],  # a digit waits for white space
        [f"{SOME} of 12.\n", "\nEnd"],
        [f"{SOME} $x = 1.5.$", " End"],
        [f"{SOME} $x. y$ and $z$.", " End"],  # no sentence ends inside a formula
        [f"{SOME} \\[x = 5.\\]", " End"],
        [f"{SOME} \\(x.\\)", " End"],
        [f"{SOME} $$x.$$", " End"],
        [f"{SOME} costs \\$3 a piece.", " End"],
        [f"{SOME} [asy]draw(a, b);\ndraw(c. d);\n[/asy] is here.", " End"],
        ["\\begin{align*}\nx &= 3 + 4 + 5\\\\\n", "y &= 8 + 1. Not a stop\n", "\\end{align*}"],
        [f"{SOME} of $5 a\n", f"\n{SOME}.", " End"],  # a lone dollar sign ends at an empty line
        [f"{SOME} for all of these numbers that we have found,", " and more"],
        [f"{SOME} ${{x}} + 1000000000000000000000000000000000 =", " 2 + y$"],
        [f"{SOME} of $x$ (see [1]).", " End"],
        [f"{SOME}.", ".. End"],
        ["\n\n  ab"],
    ],
)
def test_sentences(steps):
    assert causal("".join(steps)) == steps


@pytest.mark.parametrize(
    "steps",
    [
        [f"{SOME} it.", f" {SOME}! {SOME}? So be it."],
        [f"{SOME}. but no capital.", " End of it all."],
        [f"{SOME} it", f"\n{SOME}", "\nEnd of it"],
        [f"{SOME} by A. Li of St. Li.", " End of it all."],
        [f"{SOME} of 12.", " End of it all."],
        [f"{SOME} $x = 5.$", " and then the end."],
        [f"{SOME} of it \\[x = 5.\\]", " and then the end."],
        [f"{SOME} of $x$. y", "\nand so on, and so on."],
        [f"{SOME} $\\frac{{1}}{{2}}$.", " Yes.", " It is so, of course."],
        ["\\begin{align*}\nx &= 3 + 4 + 5\\\\", "\ny &= 8 + 1", "\n\\end{align*}"],
        ["$$\nx + 3 + 4 + 5", "\n+ y$$"],
        ["Short.", " Shorter.", " So it is, of course."],
        ["short\nshort and then more of this"],
        [f"{SOME} for all of the many numbers,", f" {SOME} for all of the other numbers here"],
        [f"{SOME} of what we were asked for here", f" and {SOME} of all the rest of it all now"],
        [f"${{x}} + {'1' * 45} ", f"= {'2' * 60}$"],
    ],
)
def test_latex_sentences(steps):
    assert paper("".join(steps)) == steps


@settings(deadline=None)
@given(text=PROSE)
def test_the_papers_cuts_are_places_of_the_text(text):
    cuts = latex_cuts(text)
    assert cuts == sorted(set(cuts)) and all(0 < cut < len(text) for cut in cuts)


@settings(deadline=None, max_examples=300)
@given(text=PROSE, other=PROSE, data=st.data())
def test_sentences_ignore_what_follows(text, other, data):
    tokens, suffix = TOKENIZER.encode(text), TOKENIZER.encode(other)
    place = data.draw(st.integers(0, len(tokens)))
    cut = get_segmenter("sentences")
    before = [border for border in cut([*tokens, 40], TOKENIZER) if border <= place]
    changed = cut([*tokens[:place], *suffix, 40], TOKENIZER)
    assert before[:1] == [0]
    assert before == [border for border in changed if border <= place]


def test_the_papers_rule_is_not_causal():
    segmenter = get_segmenter("latex_sentences")
    first, second = (TOKENIZER.encode(f"{SOME} it.{rest}") for rest in (" Then we go", " then we"))
    assert not segmenter.causal
    assert segmenter(first, TOKENIZER) != segmenter(second, TOKENIZER)[: len(second)]
    assert len(segmenter(second, TOKENIZER)) == 1


def test_every_token_is_a_border():
    segmenter = get_segmenter("every_token")
    assert segmenter.causal
    assert (segmenter([5, 6, 7], TOKENIZER), segmenter([], TOKENIZER)) == ([0, 1, 2], [])


@pytest.mark.skipif(not DATA, reason="LANG_ENV_DATA names no folder with the public data sets")
@pytest.mark.parametrize(
    ("file", "column", "name", "mean", "median", "p90", "largest"),
    [
        # The authors' splitter: mean 9.6 to 10.9, median 7, p90 21 to 23, at most 67 to 104.
        ("math500/test", "solution", "latex_sentences", 9.56, 7, 21, 64),
        pytest.param(
            "math/train", "solution", "latex_sentences", 9.88, 7, 21, 167, marks=pytest.mark.slow
        ),
        pytest.param(
            "math/test", "solution", "latex_sentences", 9.5, 6, 21, 94, marks=pytest.mark.slow
        ),
        ("math500/test", "solution", "sentences", 7.59, 6, 15.1, 33),
        pytest.param(
            "math/train", "solution", "sentences", 7.65, 6, 15, 56, marks=pytest.mark.slow
        ),
        pytest.param("math/test", "solution", "sentences", 7.39, 6, 14, 65, marks=pytest.mark.slow),
        # The authors' splitter on GSM8K: mean 3.6, at most 9 to 11.
        ("gsm8k/test", "answer", "newline_paper", 3.66, 3, 6, 11),
        pytest.param(
            "gsm8k/train", "answer", "newline_paper", 3.58, 3, 6, 9, marks=pytest.mark.slow
        ),
        pytest.param("gsm8k/train", "answer", "sentences", 5.02, 5, 7, 18, marks=pytest.mark.slow),
    ],
)
def test_steps_of_the_gold_solutions(file, column, name, mean, median, p90, largest):
    segmenter = get_segmenter(name)
    counts = []
    for line in Path(DATA, f"{file}.jsonl").read_bytes().splitlines():
        tokens = TOKENIZER.encode(json.loads(line)[column])
        borders = segmenter(tokens, TOKENIZER)
        assert sum(map(len, split_at(tokens, borders))) == len(tokens)
        counts.append(len(borders))
    found = (np.mean(counts), np.median(counts), np.quantile(counts, 0.9), max(counts))
    assert found == pytest.approx((mean, median, p90, largest), abs=0.01)
