r"""Exact normal forms: an expression as a quotient of two polynomials in generators.

Rational numbers, roots of them, pi, e, i, variables, exponentials, logarithms and trigonometric
functions (as exponentials) are reduced exactly, so that two equal expressions have the same form.
Where a value is opaque (a root of a sum, an unknown angle), ``exact`` is False: then unequal
forms prove nothing and ``graders.equivalence`` looks at high-precision values.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from graders.limits import MAX_BITS, LimitReachedError, Work
from graders.nodes import Node, UnreadableError
from graders.polynomials import (
    ONE,
    Mono,
    Poly,
    constant,
    factorize,
    mono_key,
    poly_add,
    poly_key,
    poly_mul,
    rational_power,
    settle,
)


class UndefinedError(Exception):
    """A value that does not exist, as 1/0."""


class Form:
    """A quotient of polynomials; ``top`` alone where the denominator is one term."""

    __slots__ = ("bottom", "top")

    def __init__(self, top: Poly, bottom: Poly = ONE) -> None:
        """Stores the two polynomials."""
        self.top = top
        self.bottom = bottom

    def rational(self) -> Fraction | None:
        """The value, if it is a rational number."""
        if self.bottom is not ONE and self.bottom != ONE:
            return None
        if not self.top:
            return Fraction(0)
        return self.top.get(()) if len(self.top) == 1 else None

    def key(self) -> str:
        """A name, the same for the same quotient."""
        return poly_key(self.top) + ("" if self.bottom == ONE else "/" + poly_key(self.bottom))


class Forms:
    """Builds and combines forms; ``exact`` turns False once an opaque value is met."""

    def __init__(self, work: Work, log_base: int = 0) -> None:
        """Starts with a step counter; ``log_base`` is the base of a bare log, 0 for e."""
        self.work = work
        self.exact = True
        self.log_base = log_base
        self.bound: dict[str, Fraction] = {}

    # --- arithmetic --------------------------------------------------------------------------

    def add(self, left: Form, right: Form, scale: int = 1) -> Form:
        """``left + scale * right``."""
        if left.bottom == right.bottom:
            return self.quotient(poly_add(left.top, right.top, self.work, scale), left.bottom)
        a = poly_mul(left.top, right.bottom, self.work)
        b = poly_mul(right.top, left.bottom, self.work)
        bottom = poly_mul(left.bottom, right.bottom, self.work)
        return self.quotient(poly_add(a, b, self.work, scale), bottom)

    def mul(self, left: Form, right: Form) -> Form:
        """The product."""
        top = poly_mul(left.top, right.top, self.work)
        if left.bottom is ONE and right.bottom is ONE:
            return Form(top)
        return self.quotient(top, poly_mul(left.bottom, right.bottom, self.work))

    def div(self, left: Form, right: Form) -> Form:
        """The quotient; division by zero is an UndefinedError."""
        return self.mul(left, self.quotient(right.bottom, right.top))

    def quotient(self, top: Poly, bottom: Poly) -> Form:
        """Makes a form; a denominator of one term goes into the numerator."""
        if not bottom:
            raise UndefinedError("division by zero")
        if bottom is ONE or len(bottom) > 1:
            return Form(top, bottom)
        ((mono, coefficient),) = bottom.items()
        inverse, factor = settle({g: -e for g, e in mono})
        return Form(poly_mul(top, {inverse: factor / coefficient}, self.work))

    def equal(self, left: Form, right: Form) -> bool:
        """Tells whether the forms are the same, by cross multiplication."""
        if left.bottom == right.bottom:
            return left.top == right.top
        a = poly_mul(left.top, right.bottom, self.work)
        b = poly_mul(right.top, left.bottom, self.work)
        return not poly_add(a, b, self.work, -1)

    def opaque(self, name: str, *arguments: Form) -> Form:
        """A generator for a value that is not reduced."""
        self.exact = False
        key = ",".join(argument.key() for argument in arguments)
        return Form({((f"f:{name}:{key}", Fraction(1)),): Fraction(1)})

    # --- powers ------------------------------------------------------------------------------

    def power(self, base: Form, exponent: Form) -> Form:
        """``base ** exponent``."""
        value = exponent.rational()
        if value is not None:
            return self.rational_power(base, value)
        if base.bottom is ONE and len(base.top) == 1 and exponent.bottom is ONE:
            ((mono, coefficient),) = base.top.items()
            if coefficient > 0 and all(g != "i" for g, _ in mono):
                if sum(g[0] == "s" for g, _ in mono) > 1:
                    self.exact = False
                return self.exponential(mono, coefficient, exponent.top)
        return self.opaque("pow", base, exponent)

    def exponential(self, mono: Mono, coefficient: Fraction, exponent: Poly) -> Form:
        """A product of generators raised to a sum: one exponential generator for each term."""
        exponents: dict[str, Fraction] = {}
        bases = list(mono)
        for number, sign in ((coefficient.numerator, 1), (coefficient.denominator, -1)):
            primes, sure = factorize(number)
            self.exact &= sure
            bases += [(f"p:{prime}", Fraction(sign * count)) for prime, count in primes]
        unit = Form(ONE)
        for term, scale in exponent.items():
            self.work.spend(3)
            for generator, power in bases:
                if not term:
                    name = generator
                elif generator == "c:e" and term == (("c:pi", Fraction(1)), ("i", Fraction(1))):
                    unit = self.mul(unit, self.root_of_unity(scale * power))
                    continue
                elif generator == "c:e" and len(term) == 1 and term[0][0][:2] == "L:":
                    name = term[0][0][2:]
                else:
                    name = f"E:{generator}:{mono_key(term)}"
                exponents[name] = exponents.get(name, Fraction(0)) + scale * power
        settled, factor = settle(exponents)
        return self.mul(unit, Form({settled: factor}))

    def root_of_unity(self, turns: Fraction) -> Form:
        """``e^(i pi turns)``; exact where the denominator divides 12."""
        i: Mono = (("i", Fraction(1)),)
        if 12 % turns.denominator == 0:
            sine = poly_mul({i: Fraction(1)}, self.cosine(turns - Fraction(1, 2)), self.work)
            return Form(poly_add(self.cosine(turns), sine, self.work))
        self.exact = False
        mono, factor = settle({"E:i": turns})
        return Form({mono: factor})

    def cosine(self, turns: Fraction) -> Poly:
        """The cosine of ``turns`` half turns, for multiples of a twelfth."""
        turns = abs(turns) % 2
        if turns > 1:
            turns = 2 - turns
        if turns > Fraction(1, 2):
            return {mono: -c for mono, c in self.cosine(1 - turns).items()}
        two, three = ("p:2", Fraction(1, 2)), ("p:3", Fraction(1, 2))
        half, quarter = Fraction(1, 2), Fraction(1, 4)
        table: dict[int, Poly] = {
            0: ONE, 2: {(three,): half}, 3: {(two,): half}, 4: {(): half}, 6: {},
            1: {(two, three): quarter, (two,): quarter},
            5: {(two, three): quarter, (two,): -quarter},
        }  # fmt: skip
        return table[int(turns * 12)]

    def rational_power(self, base: Form, value: Fraction) -> Form:
        """A power with a rational exponent."""
        if value.denominator != 1:
            return self.root(base, value)
        exponent = value.numerator
        if exponent < 0:
            return self.rational_power(self.quotient(base.bottom, base.top), -value)
        if not base.top:
            if exponent == 0:
                raise UndefinedError("0 to the power 0")
            return base
        if base.bottom is ONE and len(base.top) == 1:
            ((mono, coefficient),) = base.top.items()
            settled, factor = settle({g: e * exponent for g, e in mono})
            return Form({settled: factor * rational_power(coefficient, exponent)})
        if exponent > 200:
            raise LimitReachedError("a power of a sum too large to expand")
        result = Form(ONE)
        while exponent:
            if exponent & 1:
                result = self.mul(result, base)
            exponent >>= 1
            if exponent:
                base = self.mul(base, base)
        return result

    def root(self, base: Form, value: Fraction) -> Form:
        """A fractional power: exact for positive constants and single variables."""
        if not base.top:
            if value < 0:
                raise UndefinedError("0 to a negative power")
            return base
        if base.bottom is not ONE:
            top, bottom = Form(base.top), Form(base.bottom)
            if all(not mono for mono in base.bottom) or all(not mono for mono in base.top):
                return self.div(self.root(top, value), self.root(bottom, value))
            return self.opaque(f"root{value}", base)
        content = _content(base.top)
        sign = 1
        if len(base.top) == 1:
            ((mono, coefficient),) = base.top.items()
            if coefficient < 0:
                if value.denominator % 2:
                    sign = -1 if value.numerator % 2 else 1
                elif value.denominator == 2:
                    i = Form({(("i", Fraction(1)),): Fraction(1)})
                    positive = self.root(Form({mono: -coefficient}), value)
                    return self.mul(self.rational_power(i, Fraction(value.numerator)), positive)
                else:
                    return self.opaque(f"root{value}", base)
            if len(mono) == 1 and mono[0][0][0] == "s" and not mono[0][1] % 2:
                size = self.opaque("abs", Form({((mono[0][0], Fraction(1)),): Fraction(1)}))
                unit = self.number_root(abs(coefficient), value)
                power = mono[0][1] * value
                if value.denominator == 2 and coefficient > 0:
                    return self.mul(unit, self.rational_power(size, power))
            tags = [g for g, e in mono if g[0] not in "pc" and not (g[0] == "s" and e == 1)]
            if not tags and sum(g[0] == "s" for g, _ in mono) <= 1:
                rest, factor = settle({g: e * value for g, e in mono})
                unit = self.number_root(abs(coefficient), value)
                return self.mul(unit, Form({rest: sign * factor}))
        scaled = Form({mono: c / content for mono, c in base.top.items()})
        unit = self.number_root(content, value)
        whole = value.numerator // value.denominator
        opaque = self.opaque(f"root{value - whole}", scaled)
        return self.mul(unit, self.mul(opaque, self.rational_power(scaled, Fraction(whole))))

    def number_root(self, number: Fraction, value: Fraction) -> Form:
        """A fractional power of a positive rational."""
        exponents: dict[str, Fraction] = {}
        for part, sign in ((number.numerator, 1), (number.denominator, -1)):
            primes, sure = factorize(part)
            self.exact &= sure
            for prime, count in primes:
                exponents[f"p:{prime}"] = sign * count * value
                if abs(count * value) * prime.bit_length() > MAX_BITS:
                    raise LimitReachedError("a power too large to compute")
        settled, factor = settle(exponents)
        return Form({settled: factor})

    # --- from trees --------------------------------------------------------------------------

    def build(self, node: Node) -> Form:
        """The form of an expression.

        Raises:
            LimitReachedError: A number or an expansion would become too large.
            UnreadableError: The node is no expression.
            UndefinedError: A part has no value.
        """
        self.work.spend(2)
        kind = node.kind
        if kind == "num":
            return Form(constant(node.value))
        if kind == "sym":
            if node.value in self.bound:
                return Form(constant(self.bound[node.value]))
            return Form({((f"s:{node.value}", Fraction(1)),): Fraction(1)})
        if kind == "const" and node.value != "inf":
            name = "i" if node.value == "i" else f"c:{node.value}"
            return Form({((name, Fraction(1)),): Fraction(1)})
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, node)
        if kind in ("fn", "fact", "sum", "prod"):
            from graders.function_forms import function_form  # needs Form

            return function_form(self, node)
        raise UnreadableError(f"{kind} inside an expression")


def _content(poly: Poly) -> Fraction:
    """The positive rational whose division leaves coprime integer coefficients."""
    from math import gcd, lcm

    top = gcd(*(abs(c.numerator) for c in poly.values()))
    return Fraction(top, lcm(*(c.denominator for c in poly.values())))


def _add(forms: Forms, node: Node) -> Form:
    result = forms.build(node.args[0])
    for argument in node.args[1:]:
        result = forms.add(result, forms.build(argument))
    return result


def _mul(forms: Forms, node: Node) -> Form:
    result = forms.build(node.args[0])
    for argument in node.args[1:]:
        result = forms.mul(result, forms.build(argument))
    return result


def _scaled(factor: Form, forms: Forms, node: Node) -> Form:
    return forms.mul(factor, forms.build(node.args[0]))


def _application(forms: Forms, node: Node) -> Form:
    key = ",".join(forms.build(argument).key() for argument in node.args)
    return Form({((f"a:{node.value}({key})", Fraction(1)),): Fraction(1)})


_DEGREE = Form({(("c:pi", Fraction(1)),): Fraction(1, 180)})
_HANDLERS: dict[str, Callable[[Forms, Node], Form]] = {
    "add": _add,
    "mul": _mul,
    "div": lambda f, n: f.div(f.build(n.args[0]), f.build(n.args[1])),
    "neg": lambda f, n: _scaled(Form(constant(-1)), f, n),
    "pow": lambda f, n: f.power(f.build(n.args[0]), f.build(n.args[1])),
    "deg": lambda f, n: _scaled(_DEGREE, f, n),
    "pct": lambda f, n: _scaled(Form(constant(Fraction(1, 100))), f, n),
    "app": _application,
}
