"""Places of a text as borders of its tokens: exact for every decoder, linear for the usual ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from lang_env.decoding import token_borders, token_texts
from lang_env.segmenters import SEGMENTERS, get_segmenter, split_at
from lang_env.tokenizers import RustBackedTokenizer, load_tokenizer

TEXT = "Für €5 kauft Zoë 😀. Dann 3·4 = 12 – „gut“.\n日本語 $x$ 日本語.\n"


def byte_level():
    """A byte-level BPE with merges inside and across characters of several bytes, as GPT-2's."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator([TEXT, "語本日 é è ê € ₤ 😀😁"], trainer)
    return RustBackedTokenizer(backend, "byte_level")


def stripping():
    """A tokenizer as Llama's: words with their space, bytes in between, no space at the start."""
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces += ["<unk>", "▁a", "a", ".", "▁", "é", "▁B\n"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    strip = decoders.Strip(" ", 1, 0)
    space, fuse = decoders.Replace("▁", " "), decoders.Fuse()
    backend.decoder = decoders.Sequence([space, decoders.ByteFallback(), fuse, strip])
    return RustBackedTokenizer(backend, "stripping")


TOKENIZERS = {
    "builtin": load_tokenizer("builtin"),
    "byte_level": byte_level(),
    "stripping": stripping(),
}
IDS = st.integers(0, 400) | st.sampled_from([ord("\n"), ord("."), 0xC3, 0xA9, 0xE2, 0x82, 0xAC])


class Counting:
    """A tokenizer that counts how many ids it decodes."""

    def __init__(self, tokenizer):
        self.tokenizer, self.decoded = tokenizer, 0
        self.fingerprint = tokenizer.fingerprint

    def decode(self, tokens):
        self.decoded += len(tokens)
        return self.tokenizer.decode(tokens)


def covered(tokens, count, text, tokenizer):
    """How many characters of the text are certain after ``count`` tokens, by the definition."""
    part = tokenizer.decode(tokens[:count])
    return next((i for i, pair in enumerate(zip(part, text, strict=False)) if len({*pair}) == 2),
                min(len(part), len(text)))  # fmt: skip


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(deadline=None, max_examples=150)
@given(ids=st.lists(IDS, max_size=24))
def test_a_place_moves_to_the_end_of_its_token(name, ids):
    tokenizer = TOKENIZERS[name]
    tokens = [token % len(tokenizer) for token in ids]
    text = tokenizer.decode(tokens)
    borders = token_borders(range(len(text) + 1), tokens, tokenizer)
    if "\N{REPLACEMENT CHARACTER}" in text:  # which byte is which wrong character is not defined
        assert all(0 <= border <= len(tokens) for border in borders)
        return
    ends = [covered(tokens, count, text, tokenizer) for count in range(len(tokens) + 1)]
    for cut, border in enumerate(borders):
        assert border == next(count for count, end in enumerate(ends) if end >= cut)


def test_the_byte_level_tokenizer_splits_characters():
    tokenizer = TOKENIZERS["byte_level"]
    tokens = tokenizer.encode("語 ₣😃 日本語")
    assert tokenizer.decode(tokens) == "語 ₣😃 日本語"
    assert any("\N{REPLACEMENT CHARACTER}" in tokenizer.decode([token]) for token in tokens)


def test_the_text_of_a_token_keeps_its_space():
    tokenizer = TOKENIZERS["stripping"]
    tokens = [257, 258, 257]
    assert tokenizer.decode(tokens) == "aa a"
    assert [token_texts(tokenizer)[token] for token in tokens] == [" a", "a", " a"]


@pytest.mark.parametrize("name", [*SEGMENTERS, "fixed_tokens:3"])
@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
def test_pieces_join_to_the_response(name, tokenizer):
    for length in range(len(TEXT)):
        tokens = tokenizer.encode(TEXT[:length] + "\n" + TEXT)
        pieces = split_at(tokens, get_segmenter(name)(tokens, tokenizer))
        assert all(pieces) and [token for piece in pieces for token in piece] == tokens


@pytest.mark.parametrize("name", SEGMENTERS)
@pytest.mark.parametrize(
    "text", [TEXT, "\n", "$a.$\n", "\\[", "$$\n", "ab, ", "x = 3. Then y\n", "\N{EURO SIGN}5. "]
)
def test_the_work_grows_with_the_length_alone(name, text):
    counting = Counting(TOKENIZERS["builtin"])
    tokens = TOKENIZERS["builtin"].encode(text * (4000 // len(text)))
    get_segmenter(name)(tokens, counting)
    assert counting.decoded < 12 * len(tokens) + 3 * len(counting.tokenizer)
