"""Clean-up of an answer's text, and the grader that compares cleaned text."""

from __future__ import annotations

import re
import unicodedata

from graders.base import Grade, Verdict
from graders.extract import hash_answer

_VULGAR = {
    char: unicodedata.normalize("NFKC", char).replace("⁄", "/") for char in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
}
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿˣ⁽⁾", "0123456789+-nx()")
_SUB = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋ₙᵢⱼₖₓ", "0123456789+-nijkx")
_SIGNS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "‒": "-", "﹣": "-",
    "×": r"\times ", "✕": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ",
    "•": r"\cdot ", "÷": r"\div ", "∕": "/", "⁄": "/", "π": r"\pi ", "Π": r"\Pi ", "∞": r"\infty ",
    "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ",
    "±": r"\pm ", "∓": r"\mp ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R} ", "°": r"^\circ ", "º": r"^\circ ", "√": r"\surd ", "∛": r"\surd[3] ",
    "∜": r"\surd[4] ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ",
    "λ": r"\lambda ", "φ": r"\phi ", "ω": r"\omega ", "δ": r"\delta ", "σ": r"\sigma ",
    "μ": r"\mu ", "ρ": r"\rho ", "τ": r"\tau ", "⟨": "(", "⟩": ")", "∶": ":", "′": "'", "’": "'",
    "€": r"\text{ euros}", "✓": "", "✔": "", "…": "...", "⌊": r"\lfloor ", "⌋": r"\rfloor ",
    "⌈": r"\lceil ", "⌉": r"\rceil ", "∠": r"\angle ", "ℤ": r"\mathbb{Z} ", "ε": r"\epsilon ",
    "ψ": r"\psi ", "Δ": r"\Delta ", "ℓ": r"\ell ", "∖": r"\setminus ", "∣": "|", "∧": r"\land ",
    "∨": r"\lor ", "，": ",", "、": ",", "⁻": "-", "£": r"\text{ pounds}", "¢": r"\text{ cents}",
    "∗": "*", "≧": r"\ge ", "≦": r"\le ", "˚": r"^\circ ", "“": "", "”": "",
}  # fmt: skip
_TABLE = str.maketrans(_SIGNS)
_NOT_EQUAL = re.compile(r"\\not\s*=")
_DOLLAR = re.compile(r"(?<!\\)\$")
_TIMES = re.compile(r"(?<=\d)(?:\s*[xX]\s*(?=10\s*\^)|\s+[xX]\s+(?=\d))")
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\u00ad\x00]")
_RUN_SUPER = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿˣ⁽⁾]+")
_SMALL_FRACTION = re.compile("([⁰¹²³⁴⁵⁶⁷⁸⁹]+)[⁄/∕]([₀₁₂₃₄₅₆₇₈₉]+)")
_RUN_SUB = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋ₙᵢⱼₖₓ]+")
_DOUBLED = re.compile(r"\\\\(?=[a-zA-Z(\[{%$,!;])")
_LABEL = re.compile(
    r"(?:\\text\s*\{)?\s*(?:so|thus|hence|therefore)?,?\s*(?:the\s+)?(?:final\s+|correct\s+)?"
    r"answer\s*(?:is|:|=)\s*:?\s*\}?",
    re.IGNORECASE,
)
_DISPLAY = re.compile(
    r"\\begin\{((?:equation|align|gather|displaymath|math)\*?)\}(.*)\\end\{\1\}", re.DOTALL
)
_PAIRS = (
    ("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("*", "*"),
    ("```", "```"), ("`", "`"), ("__", "__"),
)  # fmt: skip
_SPACES = r"(?:\s|~|\\[,;:! ]|\\q?quad(?![a-zA-Z]))+"
_LEAD = re.compile(
    rf"^(?!~)(?:{_SPACES}|\\(?:displaystyle|therefore|implies|Rightarrow)(?![a-zA-Z])|=(?!=))+"
)


def fold_unicode(text: str) -> str:
    r"""Replaces the unicode spellings of mathematics by ASCII and LaTeX ones.

    Other scripts stay as they are: a Cyrillic letter is not the Latin one that it looks like.

    >>> fold_unicode("−３½ ≤ x²")
    '-3 1/2 \\le  x^{2}'
    """
    if text.isascii():
        return text.replace("\x00", "")
    text = _INVISIBLE.sub("", text)
    text = re.sub(
        "[¼-¾⅐-⅞]",
        lambda m: (
            (" " if m.start() and text[m.start() - 1].isdecimal() else "") + _VULGAR[m[0]]
            if m[0] in _VULGAR
            else m[0]
        ),
        text,
    )
    text = _SMALL_FRACTION.sub(lambda m: m[1].translate(_SUPER) + "/" + m[2].translate(_SUB), text)
    text = _RUN_SUPER.sub(lambda m: "^{" + m[0].translate(_SUPER) + "}", text)
    text = _RUN_SUB.sub(lambda m: "_{" + m[0].translate(_SUB) + "}", text)
    text = text.translate(_TABLE)
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text).translate(_TABLE)
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)


def tidy(text: str, doubled_backslashes: bool = True) -> str:
    r"""Strips what surrounds an answer: dollars, boxes, emphasis, labels, final punctuation.

    >>> [tidy(t) for t in ("$\\frac12$.", "**42**", "\\boxed{\\boxed{7}}", "the answer is $5$")]
    ['\\frac12', '42', '7', '5']
    """
    text = fold_unicode(text)
    if doubled_backslashes and "\\\\" in text and "\\begin" not in text:
        text = _DOUBLED.sub(r"\\", text)
    if "\\\\begin" in text:
        text = text.replace("\\\\", "\\")
    for _ in range(6):
        before = text
        text = text.strip()
        text = _LEAD.sub("", text, count=1)
        text = _strip_tail(text)
        for left, right in _PAIRS:
            inner = text[len(left) : len(text) - len(right)]
            if (
                len(text) > len(left) + len(right)
                and text.startswith(left)
                and text.endswith(right)
                and left not in inner
                and not (left == "$" and inner.endswith("\\"))
            ):
                text = inner
                break
        if text.startswith(("\\boxed", "\\fbox", "{", "\\text{the", "\\text{The")):
            text = unwrap(text)
        if text.startswith("\\begin"):
            text = _DISPLAY.sub(r"\2", text)
        match = _LABEL.match(text) if "nswer" in text[:60] else None
        if match and match.end() < len(text):
            text = text[match.end() :]
        if text == before:
            break
    if "/-" in text or "\\not" in text:
        text = _NOT_EQUAL.sub(r"\\ne ", text.replace("+/-", r"\pm "))
    if "x" in text or "X" in text:
        text = _TIMES.sub(r"\\times ", text)
    if "$" in text and len(_DOLLAR.findall(text)) % 2 == 0:
        text = _DOLLAR.sub(" ", text)  # pairs of them delimit mathematics
    elif "$" in text:
        text = re.sub(r"(?<!\\)\$(?!\s*\d)", " ", text)
    return text


def _strip_tail(text: str) -> str:
    """Drops trailing punctuation and spacing in linear time."""
    end = len(text)
    while end:
        char = text[end - 1]
        escaped = end > 1 and text[end - 2] == "\\"
        if char == "." and end > 1 and text[end - 2] == ".":  # an ellipsis is no full stop
            break
        if char.isspace() or char == "~" or (char in ".,;" and not escaped):
            end -= 1
        elif escaped and char in ",;:! ":
            end -= 2
        elif char == "\\":  # a lone one, or a row break at the end
            end -= 2 if escaped else 1
        else:
            break
        if end and text[end - 1] == "\\" and (end < 2 or text[end - 2] != "\\"):
            end -= 1
    return text[:end]


def unwrap(text: str) -> str:
    r"""Drops boxes and groups that hold the whole text, however many, in linear time.

    >>> unwrap("\\boxed{{x}}"), unwrap("{a}{b}")
    ('x', '{a}{b}')
    """
    closers: dict[int, int] = {}
    stack: list[int] = []
    index = 0
    while index < len(text):
        char = text[index]
        if char == "\\":
            index += 1
        elif char == "{":
            stack.append(index)
        elif char == "}" and stack:
            closers[stack.pop()] = index
        index += 1
    start, end = 0, len(text)
    opener = re.compile(r"\s*(?:\\(?:boxed|fbox)\s*)?\{")
    while True:
        match = opener.match(text, start)
        if match is None or closers.get(match.end() - 1) != end - 1:
            break
        start, end = match.end(), end - 1
        while end > start and text[end - 1].isspace():
            end -= 1
    return text[start:end].strip()


def text_key(text: str) -> str:
    r"""Key of a text answer: no wrappers, spaces, punctuation at the ends, or case.

    >>> text_key("\\text{Two  Lines.}") == text_key("two lines")
    True
    """
    text = re.sub(r"\\[a-zA-Z]+\*?(?=\s*\{)", "", fold_unicode(text))
    text = re.sub(r"\\[,;:! ]|\\q?quad(?![a-zA-Z])|[{}$\s~`*]", "", text)
    return text.casefold().strip(".,;:!()\"'")


def clean_text(text: str) -> str:
    """Folds case, compatibility forms and white space, and drops a final full stop.

    >>> clean_text("  Hello,   World. ")
    'hello, world'
    """
    text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split()).rstrip(" .")


def grade_exact(completion: str, answer: str) -> Grade:
    r"""Grades by equality of cleaned text: what follows the last ``####``, else all of the text.

    >>> grade_exact("The capital is\n#### Paris.", "paris").verdict
    <Verdict.CORRECT: 'correct'>
    """
    found = hash_answer(completion)
    extracted = completion.strip() if found is None else found
    if not answer.strip():
        return Grade(0.0, Verdict.UNDECIDED, extracted)
    if clean_text(extracted) == clean_text(answer):
        return Grade(1.0, Verdict.CORRECT, extracted)
    return Grade(0.0, Verdict.WRONG, extracted)
