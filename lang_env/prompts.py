r"""Prompt templates: how a question is put to the model, and how its solution answers.

A template is data. The text of the prompt, the tokenizer's chat template, the special token at the
beginning and the text that supervised fine-tuning trains on all come from here, so that each is
applied in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graders.resolve import resolve
from lang_env.chat import Message, checked_chat, render_chat, turn_end
from lang_env.problem import Problem
from lang_env.tokenizers import Tokenizer

_QUESTION, _SOLUTION = "{question}", "{solution}"


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    r"""A prompt as data.

    Attributes:
        name: What ``prompt=`` calls it.
        template: Text with ``{question}`` in one place; other braces stand for themselves.
        target_template: What the model should answer, with ``{solution}`` in one place.
        stop: Strings that end a response, unless the environment is told otherwise.
        few_shot: Problems shown with their solutions before the question.
        separator: What stands between two shown problems; not in a chat.
        chat: Whether the tokenizer's chat template is applied, or options for it, such as
            ``{"enable_thinking": False}``. Then the question and each shown problem is a user's
            turn, and each shown solution an assistant's, without blanks around them.
        system: What a chat begins with, if not empty.

    >>> template = PromptTemplate("qa", "Q: {question}\nA:", " {solution}\n", stop=("\nQ:",))
    >>> template.text(Problem("p", "1+1?", "2", "2"))
    'Q: 1+1?\nA:'
    >>> template.target(Problem("p", "1+1?", "2", "2"))
    ' 2\n'
    """

    name: str
    template: str
    target_template: str = _SOLUTION
    stop: tuple[str, ...] = ()
    few_shot: tuple[Problem, ...] = ()
    separator: str = "\n\n\n"
    chat: bool | Mapping[str, Any] = False
    system: str = ""

    def __post_init__(self) -> None:
        """Checks that each placeholder stands in one place."""
        checked_chat(self.chat)
        places = ((self.template, _QUESTION), (self.target_template, _SOLUTION))
        for text, placeholder in places:
            if text.count(placeholder) != 1:
                raise ValueError(
                    f"prompt template {self.name!r} needs {placeholder} in exactly one place, "
                    f"got {text!r}"
                )

    def text(self, problem: Problem) -> str:
        """Returns the prompt's text where no chat template is applied."""
        shown = "".join(
            self._ask(example) + self.target(example) + self.separator for example in self.few_shot
        )
        return shown + self._ask(problem)

    def target(self, problem: Problem) -> str:
        """Returns the text that follows the prompt when ``problem.solution`` is the answer."""
        text = self.target_template.replace(_SOLUTION, problem.solution)
        return text.strip() if self.is_chat else text

    def messages(self, problem: Problem) -> list[Message]:
        """Returns the conversation to which a chat template is applied.

        >>> shown = Problem("s", "0+0?", "0", "#### 0")
        >>> template = PromptTemplate("qa", "Q: {question}", chat=True, few_shot=(shown,))
        >>> [tuple(message.values()) for message in template.messages(Problem("p", "1+1?", "2"))]
        [('user', 'Q: 0+0?'), ('assistant', '#### 0'), ('user', 'Q: 1+1?')]
        """
        found = [{"role": "system", "content": self.system}] if self.system else []
        for example in self.few_shot:
            found.append(self._turn(example))
            found.append({"role": "assistant", "content": self.target(example)})
        return [*found, self._turn(problem)]

    def rendered(self, problem: Problem, tokenizer: Tokenizer) -> str:
        """Returns the text that is encoded; that of a chat spells its special tokens.

        Raises:
            ValueError: A chat is wanted and the tokenizer has no chat template.
        """
        if self.is_chat:
            return render_chat(tokenizer, self.messages(problem), self.chat)
        return self.text(problem)

    def encode(self, problem: Problem, tokenizer: Tokenizer) -> list[int]:
        """Returns the prompt's ids, with the tokenizer's BOS, if it has one, exactly once."""
        return with_bos(tokenizer.encode(self.rendered(problem, tokenizer)), tokenizer)

    def end(self, tokenizer: Tokenizer) -> int | None:
        """Returns the token that ends an answer: of the turn in a chat, else the EOS; or None."""
        found = turn_end(tokenizer, self.chat) if self.is_chat else None
        return tokenizer.eos_token_id if found is None else found

    @property
    def is_chat(self) -> bool:
        """Whether the tokenizer's chat template is applied."""
        return self.chat is not False

    def _turn(self, problem: Problem) -> Message:
        return {"role": "user", "content": self._ask(problem).strip()}

    def _ask(self, problem: Problem) -> str:
        return self.template.replace(_QUESTION, problem.question)


def with_bos(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """Returns ``ids`` with the BOS id in front, unless there is none or it is there already."""
    bos = tokenizer.bos_token_id
    return ids if bos is None or ids[:1] == [bos] else [bos, *ids]


PLAIN = PromptTemplate("plain", "{question}\n")
"""The question, a newline, and the solution as it is: the procedural families."""

GSM8K = PromptTemplate(
    "gsm8k",
    "[MATH_TASK] Problem:\n{question}\n\nSolution:",
    "\n{solution}\n",
    stop=("\n\n\nProblem:",),
)
"""The VinePPO paper's template (arXiv 2410.01679)."""

MATH = PromptTemplate("math", GSM8K.template, GSM8K.target_template, GSM8K.stop)
"""The same template under the name of the other data set."""

PROMPTS = {
    "plain": "lang_env.prompts:PLAIN",
    "gsm8k": "lang_env.prompts:GSM8K",
    "math": "lang_env.prompts:MATH",
    "word_chat": "lang_env.chat_prompts:WORD_CHAT",
    "gsm8k_chat": "lang_env.chat_prompts:GSM8K_CHAT",
    "math_chat": "lang_env.chat_prompts:MATH_CHAT",
}
"""Short names of the templates, each with the object that it stands for."""


def get_prompt(name: str | Mapping[str, Any] | PromptTemplate) -> PromptTemplate:
    r"""Returns the template that ``name`` stands for.

    Args:
        name: A key of ``PROMPTS``, a JSON file (``"own.json"``) or a mapping as in
            ``lang_env.prompt_files``, ``"pkg.mod:attr"`` for one of your own, or a template.

    Raises:
        ValueError: Unknown name, a file that is no template, or the object is no PromptTemplate.

    >>> get_prompt("plain").text(Problem("p", "1+1?", "2"))
    '1+1?\n'
    """
    if isinstance(name, Mapping) or (isinstance(name, str) and name.endswith(".json")):
        from lang_env.prompt_files import prompt_from, read_prompt  # they build a PromptTemplate

        return prompt_from(name) if isinstance(name, Mapping) else read_prompt(name)
    found = resolve(name, PROMPTS, "prompt") if isinstance(name, str) else name
    if not isinstance(found, PromptTemplate):
        raise ValueError(f"prompt {name!r} is a {type(found).__name__}, not a PromptTemplate")
    return found
