"""Fuzz tests that run on few inputs by default and on many under ``-m slow``."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FEW = 60

SIGNS = st.sampled_from(
    [
        "\x1b[31m", "\x1b]0;title\x07", "\x9b2J", "\x00", "\r", "\n", "\u202e", "\u2066", "\ud800",
        "\udfff", "[red]", "[/]", "[link=http://x]", "<script>alert(1)</script>", "</style>",
        "&lt;",
        "\\boxed{", "}", "#### ", "$", "{question}", "{{7*7}}", "%s", "../", "__import__('os')",
        "9^{9^{9}}", "\\frac{1}{", "NaN", "1e999", "-0", "é", "漢字", "🙂", "a\u0301", "\ufeff",
        "\t",
    ]
)  # fmt: skip
TEXTS = st.lists(st.one_of(SIGNS, st.text(max_size=8)), max_size=12).map("".join)
"""What a model may write: text of any kind, with what terminals, pages and parsers act on."""

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


def fuzzed(many, **strategies):
    """Makes a test of a function that must hold for every input.

    Args:
        many: Inputs of the slow test.
        strategies: One for each argument.
    """

    def decorate(check):
        @pytest.mark.parametrize("inputs", [FEW, pytest.param(many, marks=pytest.mark.slow)])
        def test(inputs):
            options = settings(
                max_examples=inputs,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            options(given(**strategies)(check))()

        return test

    return decorate
