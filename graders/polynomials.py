r"""Sums of products with rational coefficients: the arithmetic under ``graders.forms``.

A polynomial is a dict from monomial to Fraction; a monomial is a sorted tuple of (generator,
exponent). Generators are strings with a tag: ``s:x`` a variable, ``p:2`` a prime under a root,
``i`` the imaginary unit, ``c:pi`` and ``c:e``, ``E:`` and ``X:`` exponentials, ``L:`` logarithms,
``r:`` and ``f:`` values that are opaque. Powers of primes with exponents in [0, 1) are linearly
independent over the rationals, so that equality of constants under roots of rationals is decided.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from graders.limits import MAX_BITS, MAX_TERMS, LimitReachedError, Work

Mono = tuple[tuple[str, Fraction], ...]
Poly = dict[Mono, Fraction]

ONE: Poly = {(): Fraction(1)}


def constant(value: Fraction | int) -> Poly:
    """The polynomial of one rational number."""
    return {(): Fraction(value)} if value else {}


def power_bits(base: Fraction, exponent: int) -> int:
    """An upper estimate of the bits of ``base ** exponent``."""
    size = max(abs(base.numerator), base.denominator)
    return 0 if size <= 1 else size.bit_length() * abs(exponent)


def rational_power(base: Fraction, exponent: int) -> Fraction:
    """``base ** exponent``, its size estimated first.

    >>> rational_power(Fraction(2, 3), -2)
    Fraction(9, 4)
    """
    if power_bits(base, exponent) > MAX_BITS:
        raise LimitReachedError("a power too large to compute")
    return base**exponent


def mono_times(left: Mono, right: Mono) -> tuple[Mono, Fraction]:
    """The product of two monomials, with the rational factor that falls out.

    >>> root2 = (("p:2", Fraction(1, 2)),)
    >>> mono_times(root2, root2)
    ((), Fraction(2, 1))
    """
    if not left:
        return right, Fraction(1)
    if not right:
        return left, Fraction(1)
    exponents = dict(left)
    for generator, exponent in right:
        exponents[generator] = exponents.get(generator, Fraction(0)) + exponent
    return settle(exponents)


def settle(exponents: dict[str, Fraction]) -> tuple[Mono, Fraction]:
    """Normal form of a product of generator powers: whole powers of primes and of i fall out."""
    factor = Fraction(1)
    result: list[tuple[str, Fraction]] = []
    for generator, exponent in sorted(exponents.items()):
        if not exponent:
            continue
        if generator[0] == "p":
            whole = exponent.numerator // exponent.denominator
            if whole:
                factor *= rational_power(Fraction(int(generator[2:])), whole)
                exponent -= whole
        elif generator == "i":
            turns = exponent.numerator % 4
            factor *= -1 if turns >= 2 else 1
            exponent = Fraction(turns % 2)
        elif generator == "E:i":  # e^(i pi c): half turns change the sign
            whole = exponent.numerator // exponent.denominator
            factor *= -1 if whole % 2 else 1
            exponent -= whole
        if exponent:
            result.append((generator, exponent))
    return tuple(result), factor


def charge(work: Work, left: Fraction, right: Fraction) -> None:
    """Charges for arithmetic with large numbers, quadratic where common factors are sought."""
    top = left.numerator.bit_length() + right.numerator.bit_length()
    bottom = left.denominator.bit_length() + right.denominator.bit_length()
    if top + bottom > 4000:
        if top + bottom > 2 * MAX_BITS:
            raise LimitReachedError("a number too large to compute")
        work.spend((top + bottom >> 12) + 2 * (top >> 11) * (bottom >> 11))


def poly_add(left: Poly, right: Poly, work: Work, scale: int = 1) -> Poly:
    """``left + scale * right``."""
    work.spend(len(right) + 1)
    result = dict(left)
    for mono, coefficient in right.items():
        known = result.get(mono)
        value = scale * coefficient
        if known is not None:
            charge(work, known, value)
            value += known
        if value:
            result[mono] = value
        else:
            result.pop(mono, None)
    return result


def poly_mul(left: Poly, right: Poly, work: Work) -> Poly:
    """The product, its number of terms bounded."""
    if len(left) * len(right) > 4 * MAX_TERMS:
        raise LimitReachedError("an expansion of too many terms")
    work.spend(2 * len(left) * len(right) + 1)
    result: Poly = {}
    for mono_left, a in left.items():
        for mono_right, b in right.items():
            mono, factor = mono_times(mono_left, mono_right)
            charge(work, a, b)
            value = result.get(mono, Fraction(0)) + a * b * factor
            if value:
                result[mono] = value
            else:
                result.pop(mono, None)
    if len(result) > MAX_TERMS:
        raise LimitReachedError("an expansion of too many terms")
    return result


def poly_key(poly: Poly) -> str:
    """A name for a polynomial, the same for equal ones."""
    terms = sorted(poly.items())
    size = sum(abs(c.numerator).bit_length() + c.denominator.bit_length() for _, c in terms)
    if size > 8000 or len(terms) > 60:
        raise LimitReachedError("too large under a function")
    return "(" + "+".join(f"{c}*{mono_key(m)}" for m, c in terms) + ")"


def mono_key(mono: Mono) -> str:
    """A name for a monomial."""
    return ".".join(f"{generator}^{exponent}" for generator, exponent in mono)


@lru_cache(maxsize=4096)
def factorize(number: int) -> tuple[tuple[tuple[int, int], ...], bool]:
    """Prime powers of a positive integer, and whether all of the bases are known to be prime.

    Trial division by small numbers; a cofactor is tested as a prime power.

    >>> factorize(360)
    (((2, 3), (3, 2), (5, 1)), True)
    """
    if number.bit_length() > 1400:
        raise LimitReachedError("too large to factor")
    factors: list[tuple[int, int]] = []
    candidate = 2
    while candidate < 3000 and candidate * candidate <= number:
        count = 0
        while number % candidate == 0:
            number //= candidate
            count += 1
        if count:
            factors.append((candidate, count))
        candidate += 1 + (candidate > 2)
    sure = True
    if number > 1:
        base, exponent = perfect_power(number)
        sure = base < 9_000_000 or is_prime(base)
        factors.append((base, exponent))
    return tuple(factors), sure


def perfect_power(number: int) -> tuple[int, int]:
    """Writes a number as base ** exponent with the largest exponent below 40."""
    for exponent in (37, 31, 29, 23, 19, 17, 13, 11, 7, 5, 3, 2):
        if number.bit_length() < exponent:
            continue
        root = integer_root(number, exponent)
        if root > 1 and root**exponent == number:
            base, inner = perfect_power(root)
            return base, inner * exponent
    return number, 1


def integer_root(number: int, index: int) -> int:
    """The floor of the index-th root.

    >>> integer_root(10**30, 3)
    10000000000
    """
    low, high = 0, 1 << (number.bit_length() // index + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**index <= number:
            low = middle
        else:
            high = middle - 1
    return low


def is_prime(number: int) -> bool:
    """Miller-Rabin with fixed bases: a proof below 3.3e24, near certainty above."""
    if number < 2 or number % 2 == 0:
        return number == 2
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41):
        if base % number == 0:
            continue
        x = pow(base, odd, number)
        if x in (1, number - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % number
            if x == number - 1:
                break
        else:
            return False
    return True
