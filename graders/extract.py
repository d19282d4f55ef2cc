r"""The final answer inside a completion; apart from the question whether it is right.

The order of the rules is the same for every format: the last balanced box, else what follows the
last ``####``, else the last claim ("the answer is x"), else, by option, a bare answer or (GSM8K)
the last number. An empty or unterminated last box is no answer. All scans are linear.
"""

from __future__ import annotations

import collections
import re

from graders.limits import MAX_COMPLETION
from graders.options import DEFAULTS, Options

_STOP_TOKENS = ("</s>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|im_start|>", "<|end|>",
                "<|end_of_text|>", "<|start_header_id|>", "<end_of_turn>", "<｜end▁of▁sentence｜>",
                "[INST]", "<|user|>", "<eos>")  # fmt: skip
_STOP_LINE = re.compile(
    r"\n[ \t>*#]*(?:Question|Problem|Q|User|Human|Instruction|Exercise)[ \t*]*:"
)
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![A-Za-z])\s*")
_JOINT = re.compile(
    r"(?:[\s$,;.]|\\[,;:! ()\[\]]|\\q?quad(?![A-Za-z])|\\text\s*\{\s*(?:and|or)\s*,?\s*\}"
    r"|\band\b|\bor\b|(?<![A-Za-z])[A-Za-z](?:_\{?\w\}?)?\s*=)*"
)
_JOINER = re.compile(r",|;|\band\b|\bor\b")
_CLAIM = re.compile(
    r"(?:\banswers?(?:\s+(?:to\s+[^.\n:]{1,80}?|here))?\s{0,9}(?:\*\*)?\s{0,9}(?:is|are|equals|was|(?:should|would|must|will)\s+be|=|:)"
    r"(?:\s*(?:\*\*|therefore|thus|simply|just|indeed|equal to|given by)?\s*:?)*)",
    re.IGNORECASE,
)
_HEADING = re.compile(r"(?:^|\n)[ \t#*]*(?:final\s+)?answer[ \t*:]*\n\s*", re.IGNORECASE)
_CLAIM_END = re.compile(r"\n|(?<![A-Z][a-z])[.!](?=\s+[A-Z]|\s*$)|(?<=[.!])\s|\$\$?\s*[.]\s")
_AFTERTHOUGHT = re.compile(
    r"[,;]?\s+(?:as|so|because|since|which|where|when|for|by|after|in total|hence|thus|i\.e\.)\b.*"
    r"|,\s+(?:and\s+)?(?:we|this|it|that|not)\b.*",
    re.DOTALL,
)
_LAST_NUMBER = re.compile(
    r"(?<![\d.,:/A-Za-z_])(?:-\s?)?\$?\s?(?:\d{1,3}(?:,\d{3})+|\d{1,60})(?:\.\d{1,60})?(?![\d:])"
    r"(?:\s?/\s?\d{1,60})?%?"
)
_HASHES = re.compile(r"(?:^|\n)[ \t]*###[ \t]*(?=[-+$\\\d])")


def hash_answer(text: str) -> str | None:
    r"""Returns what follows the last ``####``, on its line or the next; None without a mark.

    >>> hash_answer("2 + 2 = 4\n#### 4 apples\n")
    '4 apples'
    """
    start = text.rfind("####")
    if start < 0:
        return None
    start += 4
    while start < len(text) and text[start].isspace():
        start += 1
    end = text.find("\n", start)
    return text[start : len(text) if end < 0 else end].strip(" \t\r#")


def cut_stops(text: str) -> str:
    r"""Drops thinking parts, and what follows a stop sequence or the next chat turn.

    >>> cut_stops("<think>5?</think>It is 6.<|im_end|>7"), cut_stops("6.\nQuestion: 2+2?")
    ('It is 6.', '6.')
    """
    if "<think>" in text or "</think>" in text:
        text = text.rpartition("</think>")[2]
        text = text.partition("<think>")[0]
    end = len(text)
    for token in _STOP_TOKENS if "<" in text or "[INST]" in text else ():
        found = text.find(token, 0, end)
        if found >= 0:
            end = found
    text = text[:end]
    if ":" not in text or "\n" not in text:
        return text
    lead = len(text) - len(text.lstrip())
    match = _STOP_LINE.search(text, lead)
    return text[: match.start()] if match else text


def boxes(text: str) -> list[tuple[int, int, str | None]]:
    """The outermost boxes: start, end and content; None where a box is not closed."""
    starts = [(match.start(), match.end()) for match in _BOX.finditer(text)]
    if not starts:
        return []
    partner: dict[int, int] = {}
    stack: list[int] = []
    for match in re.finditer(r"\\.|[{}]", text[starts[0][0] :], re.DOTALL):
        position = match.start() + starts[0][0]
        if match[0] == "{":
            stack.append(position)
        elif match[0] == "}" and stack:
            partner[stack.pop()] = position
    found: list[tuple[int, int, str | None]] = []
    for start, inside in starts:
        if found and start < found[-1][1]:
            continue
        opening = text[inside : inside + 1]
        if opening == "{":
            end = partner.get(inside)
            found.append((start, inside + 1 if end is None else end + 1,
                          None if end is None else text[inside + 1 : end]))  # fmt: skip
        elif opening == "(":
            end = text.find(")", inside)
            found.append(
                (start, end + 1, text[inside + 1 : end]) if end >= 0 else (start, inside, None)
            )
        else:
            bare = re.compile(r"[^\s$.,;{}]*(?:[.,]\d+)*").match(text, inside)
            end = bare.end() if bare else inside
            found.append((start, end, text[inside:end]))
    return found


def boxed_answer(text: str, join: bool = True) -> str | None:
    r"""The answer in the last box; boxes joined by "and", "or" or commas form one list.

    Returns:
        None without a box; an empty string where the last box is empty or not closed.

    >>> boxed_answer("first $\\boxed{3}$, then its square is $\\boxed{9}$")
    '9'
    >>> boxed_answer("$\\boxed{3}$ or $\\boxed{4}$"), boxed_answer("\\boxed{7} but \\boxed{9")
    ('3, 4', '')
    """
    found = boxes(text)
    if not found:
        return None
    _, _, content = found[-1]
    if content is None or not content.strip():
        return ""
    parts = [content]
    index = len(found) - 1
    while join and index:
        start, (_, before, earlier) = found[index][0], found[index - 1]
        between = text[before:start]
        if len(between) > 60 or earlier is None or not earlier.strip():
            break
        joined = _JOINT.fullmatch(between)
        if not joined or not _JOINER.search(between) or "." in between:
            break
        parts.append(earlier)
        index -= 1
    if len(parts) == 1:
        return content.strip()
    return ", ".join(part.strip() for part in reversed(parts))


def _last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = collections.deque(pattern.finditer(text), maxlen=1)
    return found[0] if found else None


def claimed_answer(text: str) -> str | None:
    """What the last "the answer is" or "Answer:" claims, up to the end of its sentence.

    >>> claimed_answer("The answer is 5. No wait. The answer is 7, as required.")
    '7'
    """
    match = _last_match(_CLAIM, text)
    heading = _last_match(_HEADING, text)
    if heading is not None and (match is None or match.end() <= heading.end()):
        match = heading
    if match is None:
        return None
    claim = text[match.end() :].strip()[:2000]
    if claim.startswith(("$", "\\(", "\\[")):
        close = {"$": "$", "\\": "\\)" if claim[1:2] == "(" else "\\]"}[claim[0]]
        lead = 2 if claim[0] == "\\" or claim.startswith("$$") else 1
        end = claim.find(close, lead)
        if end > 0 and not re.match(r"[\s$]*(?:,|;|or\b|and\b)\s*\$", claim[end + len(close) :]):
            return claim[lead:end].strip()
    end_match = _CLAIM_END.search(claim)
    if end_match:
        claim = claim[: end_match.start() + (end_match[0][:1] == "$")]
    return _AFTERTHOUGHT.sub("", claim).strip().rstrip(".").strip("* ")


def extract_answer(text: str, format: str, options: Options = DEFAULTS) -> str | None:
    r"""Finds the final answer of a completion.

    Args:
        text: The completion.
        format: ``"math"`` or ``"gsm8k"``.
        options: Which rules apply; ``STRICT`` leaves the marks alone.

    Returns:
        The answer's text, or None where there is none.

    >>> extract_answer("so it is\n#### 72 clips", "gsm8k"), extract_answer("no\nidea", "math")
    ('72 clips', None)
    """
    if len(text) > MAX_COMPLETION:
        text = text[-MAX_COMPLETION:]
    if options.stop_texts:
        text = cut_stops(text)
    if "\\boxed" in text or "\\fbox" in text or "\\framebox" in text:
        boxed = boxed_answer(text, options.join_boxes)
        if boxed is not None:
            return boxed or None
    marked = hash_answer(text)
    if marked is None and format == "gsm8k" and options.claims:
        hashes = _last_match(_HASHES, text)
        if hashes:
            marked = text[hashes.end() :].partition("\n")[0].strip()
    if marked is not None:
        claim = claimed_answer(marked) if options.claims else None
        return claim or marked or None
    if options.claims:
        claim = claimed_answer(text)
        if claim:
            return claim
    stripped = text.strip()
    if options.last_number and format == "gsm8k":
        number = _last_match(_LAST_NUMBER, text)
        if number is not None:
            return number[0]
    if options.bare_answer and format == "math" and "\n" not in stripped and len(stripped) <= 400:
        return stripped or None
    return None
