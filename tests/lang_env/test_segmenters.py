"""Segmenters: pieces join to the response, causal ones ignore what follows, rules hold."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lang_env.decoding import token_borders
from lang_env.segmenters import (
    SEGMENTERS,
    Segmenter,
    fixed_tokens,
    get_segmenter,
    split_at,
)
from lang_env.tokenizers import load_tokenizer

TOKENIZER = load_tokenizer("builtin")
EOS = TOKENIZER.eos_token_id
NAMES = [*SEGMENTERS, "fixed_tokens:1", "fixed_tokens:3"]
ALPHABET = [*sorted(set(TOKENIZER.encode("\n\n #### a7é€ the"))), EOS, TOKENIZER.bos_token_id]
RESPONSES = st.lists(st.sampled_from(ALPHABET), max_size=30)


class Merging:
    """A tokenizer with newlines inside tokens, and a decoder that strips the first space."""

    name, fingerprint = "merging", "merging"
    bos_token_id = eos_token_id = pad_token_id = None
    pieces = ("a", " b", "\n", "\n\n", ".\n", "\nx", "\n#### ", "7", " \n", "")

    def __len__(self):
        return len(self.pieces)

    def encode(self, text):
        raise NotImplementedError

    def decode(self, tokens):
        return "".join(self.pieces[token] for token in tokens).removeprefix(" ")


MERGING = Merging()
CASES = st.tuples(st.just(TOKENIZER), RESPONSES) | st.tuples(
    st.just(MERGING), st.lists(st.integers(0, len(MERGING) - 1), max_size=30)
)


def texts(name, text):
    tokens = TOKENIZER.encode(text)
    borders = get_segmenter(name)(tokens, TOKENIZER)
    return [TOKENIZER.decode(piece) for piece in split_at(tokens, borders)]


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)
@given(case=CASES)
def test_pieces_join_to_the_response(name, case):
    tokenizer, tokens = case
    borders = get_segmenter(name)(tokens, tokenizer)
    pieces = split_at(tokens, borders)
    assert [token for piece in pieces for token in piece] == tokens
    assert all(pieces)
    assert borders[:1] == ([0] if tokens else [])
    assert borders == sorted(set(borders)) and all(0 <= b < len(tokens) for b in borders)


def decided_by_the_past(segmenter, tokenizer, tokens, suffix, t):
    """Whether each border up to ``t`` stays one when everything from ``t`` on is replaced."""
    before = [b for b in segmenter(tokens, tokenizer) if b <= t]
    return before == [b for b in segmenter([*tokens[:t], *suffix], tokenizer) if b <= t]


@pytest.mark.parametrize("name", [name for name in NAMES if get_segmenter(name).causal])
@settings(deadline=None)
@given(case=CASES, data=st.data())
def test_causal_means_the_suffix_does_not_matter(name, case, data):
    tokenizer, tokens = case
    t = data.draw(st.integers(0, max(0, len(tokens) - 1)))
    suffix = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), min_size=1, max_size=8))
    if tokens:
        assert decided_by_the_past(get_segmenter(name), tokenizer, tokens, suffix, t)


def test_the_papers_rule_is_not_causal():
    segmenter = get_segmenter("newline_paper")
    tokens = TOKENIZER.encode("a\nb")
    assert not segmenter.causal
    assert not decided_by_the_past(segmenter, TOKENIZER, tokens, [EOS], 1)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ["a"]),
        ("a\nb", ["a\n", "b"]),
        ("\na\n\nb\n#### 7", ["\na\n", "\nb\n", "#### 7"]),
        ("a\nb\n", ["a\n", "b\n"]),
        ("\n \n", ["\n \n"]),
        ("a \n \n", ["a \n", " \n"]),
        ("é\n€\n", ["é\n", "€\n"]),
    ],
)
def test_newline(text, steps):
    assert texts("newline", text) == steps


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ["a"]),
        ("a\nb", ["a", "\nb"]),
        ("\n\na\nb\n#### 7", ["\n\na", "\nb\n#### 7"]),
        ("a\nb\n\n#### 7\n", ["a", "\nb\n\n#### 7\n"]),
        ("a\n\nb", ["a", "\n", "\nb"]),
        ("a\n", ["a\n"]),
        ("#### 7", ["#### 7"]),
        ("\n#### 7", ["\n#### 7"]),
        ("a\n#### 7\nb\n#### 8", ["a\n#### 7\nb\n#### 8"]),
        ("\n \n", ["\n \n"]),
        ("é\n€\nb", ["é", "\n€", "\nb"]),
    ],
)
def test_newline_paper(text, steps):
    assert texts("newline_paper", text) == steps


def test_a_border_inside_a_token_moves_to_its_end():
    pieces = ["a", ".\n", " b", "\nx", "a", "\n\n", "7"]
    tokens = [MERGING.pieces.index(piece) for piece in pieces]
    causal = get_segmenter("newline")(tokens, MERGING)
    assert causal == [0, 2, 4, 6]  # after '.\n', after '\nx', after '\n\n'
    paper = get_segmenter("newline_paper")(tokens, MERGING)
    # before '\n' of '.\n' -> after it; before '\nx'; before and inside '\n\n' -> one at each
    assert paper == [0, 2, 3, 5, 6]


def test_what_follows_a_blank_newline_inside_its_token_counts():
    tokens = [MERGING.pieces.index(piece) for piece in ("\nx", "\n", "7", "\n", "\nx")]
    assert get_segmenter("newline")(tokens, MERGING) == [0, 2, 4]


def test_token_borders_by_prefix_lengths():
    tokens = TOKENIZER.encode("a€b")
    assert len(tokens) == 5
    assert token_borders([0, 1, 2, 3], tokens, TOKENIZER) == [0, 1, 4, 5]


def test_fixed_tokens():
    assert fixed_tokens(4)(list(range(9)), TOKENIZER) == [0, 4, 8]
    assert fixed_tokens(4)(list(range(8)), TOKENIZER) == [0, 4]
    with pytest.raises(ValueError, match="size >= 1, got 0"):
        get_segmenter("fixed_tokens:0")


def test_segmenters_by_name_and_of_ones_own():
    assert get_segmenter("lang_env.segmenters:NEWLINE").name == "newline"
    own = Segmenter("halves", True, lambda tokens, tokenizer: [0])
    assert get_segmenter(own) is own
    for name in NAMES:
        assert get_segmenter(name).name == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("newlin", "unknown segmenter 'newlin'. Did you mean 'newline'"),
        ("fixed_tokens", "as in 'fixed_tokens:16'"),
        ("fixed_tokens:x", "as in 'fixed_tokens:16'"),
        ("math:sqrt", "wrap it as lang_env.segmenters.Segmenter"),
        (len, "wrap it as lang_env.segmenters.Segmenter"),
    ],
)
def test_unknown_segmenters_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        get_segmenter(name)
