"""Stop rules against a plain definition, on a byte-level and on a space-stripping tokenizer."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from lang_env.stopping import StopChecker
from lang_env.tokenizers import RustBackedTokenizer, load_tokenizer

BUILTIN = load_tokenizer("builtin")
EOS = BUILTIN.eos_token_id


class Stripping:
    """A tokenizer whose decoder drops the space in front of a text, as SentencePiece does."""

    name, fingerprint = "stripping", "stripping"
    bos_token_id, eos_token_id, pad_token_id = 0, 1, None
    pieces = ("", "", " a", " b", "a", "b", " ", ":", "\n", "x:\n")

    def __len__(self):
        return len(self.pieces)

    def encode(self, text):
        assert text == "a"
        return [2]

    def decode(self, tokens):
        return "".join(self.pieces[token] for token in tokens).removeprefix(" ")


def reference(tokenizer, stop_ids, stop, response):
    """Plays the definition: (tokens played, reason) of the first end, or None."""
    for end in range(1, len(response) + 1):
        if response[end - 1] in stop_ids:
            return end, "stop_token"
        text = tokenizer.decode(list(response[:end]))
        if any(string in text for string in stop):
            return end, "stop_string"
    return None


def by_finish(checker, response):
    for end in range(1, len(response) + 1):
        reason = checker.finish(response[:end])
        assert reason is None or checker.may_stop(response[end - 1])
        if reason is not None:
            return end, reason
    return None


def byte_fallback():
    """A tokenizer as Llama's: a run of byte tokens decodes as a whole, or to U+FFFD each."""
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces += ["<unk>", "▁a", "a", ":", "▁", "é", "▁:\n"]
    model = models.BPE(
        {piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>", byte_fallback=True
    )
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return RustBackedTokenizer(backend, "byte_fallback")


FALLBACK = byte_fallback()
BYTES = [0x0A, 0xE2, 0x82, 0xAC, 0xC3, 0xA9, 0x3A, *range(257, len(FALLBACK))]


@settings(deadline=None)
@given(
    response=st.lists(st.sampled_from(BYTES), max_size=9),
    split=st.integers(0, 9),
    stop=st.sampled_from([("\n",), ("\n\n",), ("€",), ("a€",), ("\n:",), ("é\n", "a")]),
)
def test_runs_of_bytes_that_are_no_text(response, split, stop):
    checker = StopChecker(FALLBACK, [FALLBACK.encode("é")[-1]], stop)
    expected = reference(FALLBACK, checker.stop_token_ids, stop, response)
    assert by_finish(checker, response) == expected
    if expected is None or expected[0] > split:
        got = checker.first_end(response[:split], response[split:])
        assert (got and (got[0] + split, got[1])) == expected


def test_a_later_byte_does_not_take_a_stop_back():
    checker = StopChecker(FALLBACK, [], ["\n"])
    response = [0x0A, 0xE2]
    assert FALLBACK.decode(response) == "\ufffd\ufffd"
    assert checker.first_end((), response) == (1, "stop_string")


STOPS = [(), ("\n\n",), ("€",), ("a€", ":\n"), (" the", "7"), ("\n\n\nProblem:",), ("x",), ("é\n",)]
ALPHABET = sorted(
    set(BUILTIN.encode("\n\n:€é the a7 x#### Problem")) | {EOS, BUILTIN.bos_token_id, 200, 150}
)


@given(
    response=st.lists(st.sampled_from(ALPHABET), max_size=14),
    split=st.integers(0, 14),
    stop=st.sampled_from(STOPS),
    stop_ids=st.sampled_from([(EOS,), (), (EOS, BUILTIN.encode("\n")[0])]),
)
def test_first_end_and_finish_are_the_definition(response, split, stop, stop_ids):
    checker = StopChecker(BUILTIN, stop_ids, stop)
    expected = reference(BUILTIN, stop_ids, stop, response)
    assert by_finish(checker, response) == expected
    if expected is None or expected[0] > split:
        prefix, tokens = response[:split], response[split:]
        got = checker.first_end(prefix, tokens)
        assert (got and (got[0] + len(prefix), got[1])) == expected


@pytest.mark.parametrize("stop", [("a b",), ("a",), (":\n",), (" ",), ("b a", "ab")])
def test_a_decoder_that_strips_the_first_space(stop):
    tokenizer = Stripping()
    checker = StopChecker(tokenizer, [1], stop)
    for response in itertools.product(range(1, len(tokenizer)), repeat=4):
        expected = reference(tokenizer, [1], stop, response)
        assert by_finish(checker, response) == expected
        assert checker.first_end((), response) == expected


def test_a_character_spread_over_bytes_ends_at_its_last_byte():
    response = BUILTIN.encode("a€b")
    checker = StopChecker(BUILTIN, [], ["€"])
    assert checker.first_end((), response) == (4, "stop_string")


@pytest.mark.parametrize(
    ("text", "reason", "shown"),
    [
        ("5\n\n\nProblem:", "stop_string", "5"),
        ("5\n\n\nProblem:\n\n\nProblem:", "stop_string", "5"),
        ("5", None, "5"),
        ("5", "stop_token", "5"),
    ],
)
def test_graded_text_leaves_out_what_ended_it(text, reason, shown):
    checker = StopChecker(BUILTIN, [EOS], ["\n\n\nProblem:", "lem:"])
    response = BUILTIN.encode(text) + ([EOS] if reason == "stop_token" else [])
    assert checker.text(response, reason) == shown


def test_a_stop_token_with_a_text_is_left_out_too():
    newline = BUILTIN.encode("\n")[0]
    checker = StopChecker(BUILTIN, [newline], ["a\n"])
    response = BUILTIN.encode("a\n")
    assert checker.finish(response) == "stop_token"
    assert checker.text(response, "stop_token") == "a"


def test_only_candidates_are_asked():
    checker = StopChecker(BUILTIN, [EOS], ["\n\n\nProblem:"])
    assert checker.stop_candidates == {EOS, BUILTIN.encode(":")[0]}
    assert checker.finish([]) is None


@pytest.mark.parametrize(
    ("ids", "stop", "message"),
    [
        ([285], (), "stop token id 285 is outside the vocabulary of 285 ids"),
        ([-1], (), "stop token id -1"),
        ([], ("",), "non-empty text without"),
        ([], ("a\ufffd",), "non-empty text without"),
    ],
)
def test_rules_that_cannot_hold_are_refused(ids, stop, message):
    with pytest.raises(ValueError, match=message):
        StopChecker(BUILTIN, ids, stop)
