"""The vocabulary of answers: commands, function names, units of measure, number words."""

from __future__ import annotations

import re
from fractions import Fraction

COMMANDS = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom",
    "leq": "le", "leqslant": "le", "geq": "ge", "geqslant": "ge", "neq": "ne", "lt": "<",
    "gt": ">", "varnothing": "emptyset", "degree": "circ", "textdegree": "circ",
    "ast": "times", "cdot": "times", "bullet": "times", "ldotp": ".", "rightarrow": "to",
    "land": "and", "wedge": "and", "lor": "or", "vee": "or", "lbrack": "[", "rbrack": "]",
    "lparen": "(", "rparen": ")", "vert": "|", "lvert": "|", "rvert": "|", "mid": "|",
    "langle": "(", "rangle": ")", "colon": ":", "setminus": "setminus", "backslash": "setminus",
    "Reals": "reals", "R": "reals", "ensuremath": "relax", "arcsec": "arcsec", "thickapprox":
    "approx", "simeq": "approx", "sim": "approx", "textdollar": "dollar", "pounds": "pounds",
    "varphi": "phi", "vartheta": "theta", "varepsilon": "epsilon", "bar": "overline", "bmod":
    "mod", "infin": "infty", "bigcup": "cup", "bigcap": "cap",
    "dots": "ldots", "dot": "overline", "cdots": "ldots", "dotsc": "ldots",
    "sphericalangle": "angle", "measuredangle": "angle",
}  # fmt: skip
"""Commands that mean the same as another."""

IGNORED = frozenset(
    """left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm middle
    displaystyle textstyle scriptstyle limits nolimits relax strut mathstrut boxed fbox framebox
    checkmark square blacksquare qed Box hfill noindent centering large Large small normalsize
    underline mathopen mathclose mathbin mathrel mathord boldmath bm hline itshape bfseries
    mathcal mathbb thinspace negthinspace nobreak allowbreak""".split()
) - {"mathbb"}
"""Commands of layout alone; the group that follows one stands for itself."""

TEXT_COMMANDS = frozenset(
    """text textbf textit textrm textsf texttt textnormal textup textsc emph mbox hbox mathrm
    mathbf mathit mathsf mathtt boldsymbol operatorname rm bf""".split()
)
"""Commands whose group is words."""

FUNCTIONS = frozenset(
    """sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc sinh cosh tanh coth
    sech csch ln log lg exp sqrt cbrt gcd lcm abs floor ceil ceiling binom frac max min
    asin acos atan det mod cis""".split()
)
"""Function names that are read with or without a backslash."""

NAMES = {
    "pi": "pi", "Pi": "Pi", "infinity": "infty", "infty": "infty", "inf": "infty", "oo": "infty",
    "Infinity": "infty", "theta": "theta", "alpha": "alpha", "beta": "beta", "gamma": "gamma",
    "lambda": "lambda", "phi": "phi", "omega": "omega", "emptyset": "emptyset", "union": "cup",
    "cup": "cup", "times": "times", "sigma": "sigma", "mu": "mu", "rho": "rho", "tau": "tau",
}  # fmt: skip
"""Words that stand for a command."""

GREEK = frozenset(
    """alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau
    upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega
    ell hbar Alpha Beta""".split()
)

_UNIT_GROUPS = """
cm centimeter centimeters centimetre centimetres
mm millimeter millimeters millimetre millimetres
km kilometer kilometers kilometre kilometres
meter meters metre metres
in inch inches
ft foot feet
yd yard yards
mile miles mi
kg kilogram kilograms
mg milligram milligrams
gram grams
pound pounds lb lbs
ounce ounces oz
ton tons
liter liters litre litres
ml milliliter milliliters mL
gallon gallons gal
second seconds sec secs
minute minutes min mins
hour hours hr hrs
day days
week weeks
month months
year years yr yrs
mph
kph kmh
dollar dollars usd
cent cents
euro euros eur
degree degrees deg
percent pct percentage
unit units
radian radians rad
pm
am
square sq
cubic cu
acre acres
newton newtons
joule joules
watt watts
hertz hz
"""
UNITS = {word: line.split()[0] for line in _UNIT_GROUPS.split("\n") for word in line.split()}
"""Unit words to the first word of their line of synonyms."""

UNIT_ABBREVIATIONS = frozenset({"m", "g", "s", "h", "l", "L", "d"})
"""One-letter units: read as units inside text commands only."""

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
SCALES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
NUMBER_WORDS = {word: value for value, word in enumerate(_SMALL)} | {
    word: 10 * (index + 2) for index, word in enumerate(_TENS)
}
_NUMERAL = re.compile(r"\d{1,30}(?:\.\d{1,30})?")

HEDGES = frozenset(
    """of if else for not is was about than or the answer nor but to approx
    approximately maybe probably perhaps roughly around possibly likely nearly almost either never
    correct wrong true false must any every unknown minus plus""".split()
)
"""Words after a value that make it no answer, or another one."""


def is_word(letters: str) -> bool:
    """Tells whether a run of letters reads as a word and not as a product of variables.

    >>> [is_word(run) for run in ("cm", "and", "teachers", "Evelyn", "ab", "xyz", "abcd")]
    [True, True, True, True, False, False, False]
    """
    low = letters.lower()
    if low in UNITS or low in NUMBER_WORDS or low in SCALES or low in _COMMON:
        return True
    if len(letters) < 4 or low in "abcdefghijklmnopqrstuvwxyz":
        return False
    return low[0] in "aeiou" or any(letter in "aeiouy" for letter in low[1:])


_COMMON = frozenset(
    """and or the is not no yes per none dne nan true false if of to for in all set are mod
    about base odd even red blue dog dogs cat cats real reals to""".split()
)


def word_number(text: str) -> Fraction | None:
    """Reads a number that is written in words, or a numeral with a scale word.

    >>> word_number("minus five"), word_number("two hundred and six"), word_number("1.5 million")
    (Fraction(-5, 1), Fraction(206, 1), Fraction(1500000, 1))
    >>> word_number("five apples") is None
    True
    """
    words = text.lower().replace("-", " ").split()
    sign = -1 if words[:1] in (["minus"], ["negative"]) else 1
    spelled = sign == -1
    words = [word for word in words[sign == -1 :] if word != "and"]
    if not words or len(words) > 12:
        return None
    total = Fraction(0)
    part = Fraction(0)
    for word in words:
        if word in NUMBER_WORDS:
            part += NUMBER_WORDS[word]
        elif word == "hundred":
            part *= 100
        elif word in SCALES:
            total += part * SCALES[word]
            part = Fraction(0)
            spelled = True
            continue
        elif (len(words) > 1 or spelled) and word is words[0] and _NUMERAL.fullmatch(word):
            part = Fraction(word)
            continue
        else:
            return None
        spelled = True
    return sign * (total + part) if spelled else None


def unit_key(words: list[str]) -> tuple[tuple[str, int], ...]:
    """Normal form of a unit: synonyms merged, powers counted, plurals cut, sorted.

    >>> unit_key(["square", "centimeters"]) == unit_key(["cm", "^2"])
    True
    >>> unit_key(["miles", "per", "hour"]) == unit_key(["mph"])
    True
    """
    text = " ".join(words).replace(".", " ").replace("mph", "miles per hour")
    text = text.replace("kmh", "km per hour").replace("kph", "km per hour")
    parts: dict[str, int] = {}
    power, sign = 1, 1
    last = ""
    for word in text.replace("/", " per ").replace("^", " ^").split():
        low = word.lower()
        if word.startswith("^"):
            if last and word[1:].isdigit() and len(word) < 4:
                parts[last] = parts[last] * int(word[1:])
            continue
        if low == "per":
            sign = -1
            continue
        if low in ("squared", "cubed") and last:
            parts[last] *= 2 if low == "squared" else 3
            continue
        name = UNITS.get(low, low)
        name = {"m": "meter", "g": "gram", "s": "second", "h": "hour", "l": "liter"}.get(low, name)
        if name in ("square", "cubic"):
            power = 2 if name == "square" else 3
            continue
        if name == low and len(low) > 3 and low.endswith("s") and not low.endswith("ss"):
            name = low[:-1]
        parts[name] = parts.get(name, 0) + sign * power
        last, power = name, 1
    return tuple(sorted(parts.items()))
