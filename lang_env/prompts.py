r"""Prompt templates: how a question is put to the model, and how its solution answers.

A template is data. The text of the prompt, the beginning-of-sequence token and the text that
supervised fine-tuning trains on all come from here, so that each is applied in one place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graders.resolve import resolve
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
        separator: What stands between two shown problems.

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

    def __post_init__(self) -> None:
        """Checks that each placeholder stands in one place."""
        places = ((self.template, _QUESTION), (self.target_template, _SOLUTION))
        for text, placeholder in places:
            if text.count(placeholder) != 1:
                raise ValueError(
                    f"prompt template {self.name!r} needs {placeholder} in exactly one place, "
                    f"got {text!r}"
                )

    def text(self, problem: Problem) -> str:
        """Returns the prompt's text."""
        shown = "".join(
            self._ask(example) + self.target(example) + self.separator for example in self.few_shot
        )
        return shown + self._ask(problem)

    def target(self, problem: Problem) -> str:
        """Returns the text that follows the prompt when ``problem.solution`` is the answer."""
        return self.target_template.replace(_SOLUTION, problem.solution)

    def encode(self, problem: Problem, tokenizer: Tokenizer) -> list[int]:
        """Returns the prompt's ids, with the tokenizer's BOS, if it has one, exactly once."""
        return with_bos(tokenizer.encode(self.text(problem)), tokenizer)

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
