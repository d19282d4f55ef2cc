"""Chat templates: how a conversation becomes the text that an instruction model was trained on.

The template belongs to the tokenizer (a Jinja text, run in transformers' sandbox) and is applied
here and nowhere else. Its text holds the special tokens, BOS too where the model wants one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lang_env.tokenizers import Tokenizer

Message = dict[str, str]
"""``{"role": "system" | "user" | "assistant", "content": text}``."""

_RESERVED = frozenset(
    "conversation tokenize add_generation_prompt continue_final_message return_dict "
    "return_tensors return_assistant_tokens_mask".split()
)
_PROBE = "42"  # an answer whose end of turn is looked at


def checked_chat(chat: Any) -> bool | Mapping[str, Any]:
    """Returns what ``PromptTemplate.chat`` may be: whether, or options for the template.

    Raises:
        ValueError: It is neither, or an option is not for the user to set.
    """
    if isinstance(chat, bool):
        return chat
    if not isinstance(chat, Mapping) or not all(isinstance(key, str) for key in chat):
        raise ValueError(
            "chat_template must be true, false or options for the tokenizer's template such as "
            f'{{"enable_thinking": false}}, got {chat!r:.80}'
        )
    for key in chat:
        if key in _RESERVED:
            raise ValueError(f"chat_template: {key!r} is set by the environment; leave it out")
    return chat


def render_chat(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    options: bool | Mapping[str, Any] = True,
    *,
    answer_follows: bool = True,
) -> str:
    """Returns the text of a conversation, special tokens spelt out.

    Args:
        tokenizer: One with a chat template.
        messages: The conversation.
        options: More for the template, such as ``{"enable_thinking": False}``.
        answer_follows: Whether to begin the assistant's next turn.

    Raises:
        ValueError: The tokenizer has no template, or the template refuses the conversation.
    """
    apply = getattr(tokenizer, "apply_chat_template", None)
    if apply is None:
        raise ValueError(
            f"tokenizer {tokenizer.name!r} has no chat template; use an instruction model's "
            "tokenizer, or chat_template=false"
        )
    more = options if isinstance(options, Mapping) else {}
    return str(apply(list(messages), add_generation_prompt=answer_follows, **more))


def turn_end(tokenizer: Tokenizer, options: bool | Mapping[str, Any] = True) -> int | None:
    """Returns the special token that ends the assistant's turn, or None if the template has none.

    It need not be the tokenizer's EOS: many base tokenizers with a chat template end a text by one
    token and a turn by another.
    """
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _PROBE}]
    text = render_chat(tokenizer, messages, options, answer_follows=False)
    behind = text.rpartition(_PROBE)[2]
    return next(
        (token for token in tokenizer.encode(behind) if not tokenizer.decode([token])), None
    )
