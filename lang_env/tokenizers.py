"""Tokenizers as the environment sees them: the built-in one and any of Hugging Face's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as RustTokenizer

BUILTIN = "builtin"
PAD, BOS, EOS = "<pad>", "<s>", "</s>"
WORDS = ("####", *"the of to and is in a you how many each what have".split())
_SPLIT = r"\d|\n| ?[A-Za-z]+|[^\sA-Za-z\d]+|\s"
_ASSET = "builtin_tokenizer.json"


@runtime_checkable
class Tokenizer(Protocol):
    """What environments, segmenters and engines need of a tokenizer.

    Attributes:
        name: How it was loaded: "builtin", a folder or a hub name.
        fingerprint: Hash of the vocabulary; two tokenizers with the same one give ids the same
            meaning.
        bos_token_id: Id that starts every text, or None.
        eos_token_id: Id that ends a text, or None.
        pad_token_id: Id that fills unused places, or None.
    """

    name: str
    fingerprint: str
    bos_token_id: int | None
    eos_token_id: int | None
    pad_token_id: int | None

    def __len__(self) -> int:
        """Returns the number of ids; every id is below it."""
        ...

    def encode(self, text: str) -> list[int]:
        """Returns the ids of ``text`` with no special token added."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of ``tokens``; special tokens have none."""
        ...


class RustBackedTokenizer:
    """A Tokenizer over the ``tokenizers`` library, without transformers."""

    def __init__(self, backend: RustTokenizer, name: str) -> None:
        """Wraps ``backend``; text that spells a special token is encoded as plain characters."""
        backend.encode_special_tokens = True
        self.backend = backend
        self.name = name
        self.bos_token_id = backend.token_to_id(BOS)
        self.eos_token_id = backend.token_to_id(EOS)
        self.pad_token_id = backend.token_to_id(PAD)
        self.fingerprint = _fingerprint(backend.get_vocab(with_added_tokens=True))

    def __len__(self) -> int:
        """Returns the number of ids."""
        return int(self.backend.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> list[int]:
        """Returns the ids of ``text`` with no special token added."""
        return self.backend.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text, in one call."""
        encodings = self.backend.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of ``tokens``; special tokens have none."""
        return self.backend.decode(list(tokens), skip_special_tokens=True)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as the tokenizer's JSON."""
        return _from_json, (self.backend.to_str(), self.name)


class HubTokenizer:
    """A Tokenizer over one of transformers' tokenizers.

    Its BOS is what the tokenizer itself puts in front of a text, as its model was trained; some
    tokenizers name a BOS and do not use it.
    """

    def __init__(self, backend: Any, name: str) -> None:
        """Wraps ``backend``, a ``PreTrainedTokenizerBase``."""
        self.backend = backend
        self.name = name
        self.bos_token_id = _leading_bos(backend)
        self.eos_token_id = backend.eos_token_id
        self.pad_token_id = backend.pad_token_id
        self._size: int = max(backend.get_vocab().values()) + 1
        self.fingerprint = _fingerprint(backend.get_vocab())

    def __len__(self) -> int:
        """Returns one more than the largest id."""
        return self._size

    def encode(self, text: str) -> list[int]:
        """Returns the ids of ``text`` with no special token added."""
        return list(self.backend.encode(text, add_special_tokens=False))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text, in one call."""
        return [list(ids) for ids in self.backend(list(texts), add_special_tokens=False).input_ids]

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of ``tokens``; special tokens have none."""
        text = self.backend.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return str(text)

    def apply_chat_template(self, messages: Sequence[dict[str, str]], **options: Any) -> str:
        """Returns the text of a conversation; ``options`` are transformers' and the template's.

        Raises:
            ValueError: There is no template, or it refuses the conversation.
        """
        try:
            text = self.backend.apply_chat_template(list(messages), tokenize=False, **options)
        except Exception as error:  # the template is anybody's program
            raise ValueError(
                f"the chat template of tokenizer {self.name!r} failed: {str(error)[:200]}. Use an "
                "instruction model's tokenizer, or chat_template=false"
            ) from error
        return str(text)


def _leading_bos(backend: Any) -> int | None:
    """Returns the BOS that a transformers tokenizer puts in front of a text by itself, or None."""
    bos: int | None = backend.bos_token_id
    if bos is None or backend("1").input_ids[:1] != [bos]:
        return None
    return bos


def _fingerprint(vocabulary: dict[str, int]) -> str:
    data = json.dumps(sorted(vocabulary.items(), key=lambda item: (item[1], item[0])))
    return hashlib.blake2b(data.encode(), digest_size=8).hexdigest()


def _from_json(data: str, name: str) -> RustBackedTokenizer:
    return RustBackedTokenizer(RustTokenizer.from_str(data), name)


def build_builtin() -> RustTokenizer:
    """Builds the built-in tokenizer: bytes, single digits and a few whole words.

    Any UTF-8 text is encoded, byte by byte where no whole word fits, and decodes to itself.
    The shipped file is the result of this function; a test compares them.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    spelled = WORDS + tuple(f" {word}" for word in WORDS if word.isalpha())
    whole = [byte_level.pre_tokenize_str(word)[0][0] for word in spelled]
    pieces = [PAD, BOS, EOS, *alphabet, *(word for word in whole if word not in alphabet)]
    tokenizer = RustTokenizer(
        models.BPE(
            vocab={piece: index for index, piece in enumerate(pieces)},
            merges=[],
            ignore_merges=True,
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"), byte_level]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(piece, special=True, normalized=False) for piece in (PAD, BOS, EOS)]
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(  # for those who load it elsewhere
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B:1", special_tokens=[(BOS, pieces.index(BOS))]
    )
    return tokenizer


def character_tokenizer(alphabet: str) -> RustBackedTokenizer:
    r"""Returns a tokenizer of single characters, for small vocabularies; it has no BOS.

    Args:
        alphabet: The characters, each once; a text with another one cannot be encoded.

    Raises:
        ValueError: A character occurs twice, or there is none.

    >>> tokenizer = character_tokenizer("()\n")
    >>> len(tokenizer), tokenizer.encode("()\n"), tokenizer.decode([2, 3, 4, 1])
    (5, [2, 3, 4], '()\n')
    """
    if not alphabet or len(set(alphabet)) < len(alphabet):
        raise ValueError(f"alphabet must hold each character once, got {alphabet!r}")
    pieces = [PAD, EOS, *alphabet]
    tokenizer = RustTokenizer(
        models.WordLevel({piece: index for index, piece in enumerate(pieces)})
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    special = [AddedToken(piece, special=True, normalized=False) for piece in (PAD, EOS)]
    tokenizer.add_special_tokens(special)
    return RustBackedTokenizer(tokenizer, "characters")


@lru_cache(maxsize=1)
def _builtin() -> RustBackedTokenizer:
    data = (
        resources.files("lang_env").joinpath("assets").joinpath(_ASSET).read_text(encoding="utf-8")
    )
    return _from_json(data, BUILTIN)


def load_tokenizer(name: str, *, trust_remote_code: bool = False) -> Tokenizer:
    r"""Loads a tokenizer.

    Args:
        name: "builtin", a folder that holds a tokenizer, or a hub name.
        trust_remote_code: Whether code from the folder or hub may run; off unless asked for.

    Raises:
        ValueError: Nothing loadable under that name; says what to pass instead.

    >>> tokenizer = load_tokenizer("builtin")
    >>> tokenizer.decode(tokenizer.encode("a:=3+4;\n#### 7"))
    'a:=3+4;\n#### 7'
    """
    if name == BUILTIN:
        return _builtin()
    from transformers import AutoTokenizer

    try:
        backend = AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code)
    except Exception as error:  # transformers raises what its many parts raise
        where = "the folder holds none" if Path(name).is_dir() else "no such folder or hub name"
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"cannot load tokenizer {name!r} ({where}): {reason} "
            "Pass 'builtin', a folder with tokenizer.json, or a hub name while online."
        ) from error
    return HubTokenizer(backend, name)
