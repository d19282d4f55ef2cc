"""Normal forms of the functions: trigonometry, logarithms, roots, whole-number functions."""

from __future__ import annotations

from fractions import Fraction
from math import comb, factorial, gcd, lcm, prod

from graders.evaluate import Evaluator, variables
from graders.forms import Form, Forms, UndefinedError
from graders.limits import MAX_BITS, MAX_FACTORIAL, MAX_RANGE, LimitReachedError
from graders.nodes import Node, UnreadableError
from graders.polynomials import ONE, constant, factorize

_I = Form({(("i", Fraction(1)),): Fraction(1)})
_E = (("c:e", Fraction(1)),)
_CIRCULAR = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})
_HYPERBOLIC = frozenset({"sinh", "cosh", "tanh", "coth", "sech", "csch"})
_ARCS = {"arcsin": "sin", "arccos": "cos", "arctan": "tan", "arccot": "cot", "arcsec": "sec",
         "arccsc": "csc"}  # fmt: skip


def function_form(forms: Forms, node: Node) -> Form:
    """The form of a ``fn``, ``fact``, ``sum`` or ``prod`` node."""
    if node.kind in ("sum", "prod"):
        return _running(forms, node)
    if node.kind == "fact":
        return _factorial(forms, node)
    name: str = node.value
    if name == "abs" and node.args[0].kind in ("matrix", "mul", "div"):
        from graders.matrices import as_matrix, determinant

        matrix = as_matrix(node.args[0])
        if matrix is not None:
            return determinant(forms, matrix)
    arguments = [forms.build(argument) for argument in node.args]
    if name in ("floor", "ceil") and arguments[0].rational() is None and not variables(node):
        return Form(constant(int(Evaluator(60, {}, forms.work, forms.log_base).value(node))))
    if name in _CIRCULAR or name in _HYPERBOLIC:
        return _trigonometric(forms, name, arguments[0])
    if name in _ARCS:
        return _arc(forms, name, arguments[0])
    if name in ("ln", "log"):
        value = _logarithm(forms, arguments[0])
        if name == "log" and forms.log_base:
            return forms.div(value, _logarithm(forms, Form(constant(forms.log_base))))
        return value
    if name == "root":
        index = arguments[1].rational()
        if index is None or index.denominator != 1 or index == 0:
            return forms.power(arguments[0], forms.div(Form(ONE), arguments[1]))
        return forms.rational_power(arguments[0], 1 / index)
    if name == "abs":
        return _absolute(forms, arguments[0])
    return _whole(forms, name, arguments)


def _trigonometric(forms: Forms, name: str, argument: Form) -> Form:
    turn = Form(ONE) if name in _HYPERBOLIC else _I
    angle = forms.mul(turn, argument)
    if angle.bottom is not ONE:
        return forms.opaque(name, argument)
    up = forms.exponential(_E, Fraction(1), angle.top)
    down = forms.exponential(_E, Fraction(1), {mono: -c for mono, c in angle.top.items()})
    cosine = forms.mul(forms.add(up, down), Form(constant(Fraction(1, 2))))
    sine = forms.div(forms.add(up, down, -1), forms.mul(turn, Form(constant(2))))
    short = name.rstrip("h")
    if short == "sin":
        return sine
    if short == "cos":
        return cosine
    if short in ("tan", "cot"):
        return forms.div(sine, cosine) if short == "tan" else forms.div(cosine, sine)
    return forms.div(Form(ONE), cosine if short == "sec" else sine)


def _arc(forms: Forms, name: str, argument: Form) -> Form:
    """An inverse function: exact where the angle is a multiple of a twelfth of pi."""
    low = {"arccos": 0, "arcsec": 0, "arccot": 0}.get(name, -6)
    if all(not mono or all(g[0] == "p" for g, _ in mono) for mono in argument.top):
        for twelfths in range(low, low + 13):
            angle = Form({(("c:pi", Fraction(1)),): Fraction(twelfths, 12)} if twelfths else {})
            try:
                value = _trigonometric(forms, _ARCS[name], angle)
            except UndefinedError:
                continue
            if forms.equal(value, argument):
                return angle
    return forms.opaque(name, argument)


def _logarithm(forms: Forms, argument: Form) -> Form:
    if not argument.top:
        raise UndefinedError("the logarithm of 0")
    if argument.bottom is not ONE:
        top, bottom = Form(argument.top), Form(argument.bottom)
        return forms.add(_logarithm(forms, top), _logarithm(forms, bottom), -1)
    if len(argument.top) > 1:
        return forms.opaque("ln", argument)
    ((mono, coefficient),) = argument.top.items()
    if coefficient < 0:
        if mono:
            return forms.opaque("ln", argument)
        turn = Form({(("c:pi", Fraction(1)), ("i", Fraction(1))): Fraction(1)})
        return forms.add(turn, _logarithm(forms, Form({mono: -coefficient})))
    result: dict[tuple[tuple[str, Fraction], ...], Fraction] = {}
    for number, sign in ((coefficient.numerator, 1), (coefficient.denominator, -1)):
        primes, sure = factorize(number)
        forms.exact &= sure
        for prime, count in primes:
            result[((f"L:p:{prime}", Fraction(1)),)] = Fraction(sign * count)
    for generator, exponent in mono:
        if generator == "c:e":
            key: tuple[tuple[str, Fraction], ...] = ()
        elif generator[0] in "ps" or generator == "c:pi":
            key = ((f"L:{generator}", Fraction(1)),)
        else:
            return forms.opaque("ln", argument)
        if generator[0] == "s" and exponent != 1:
            forms.exact = False
        result[key] = result.get(key, Fraction(0)) + exponent
    return Form({mono: value for mono, value in result.items() if value})


def _absolute(forms: Forms, argument: Form) -> Form:
    value = argument.rational()
    if value is not None:
        return Form(constant(abs(value)))
    if argument.bottom is not ONE:
        return forms.div(
            _absolute(forms, Form(argument.top)), _absolute(forms, Form(argument.bottom))
        )
    imaginary = {m: c for m, c in argument.top.items() if ("i", Fraction(1)) in m}
    constants = all(g[0] in "pc" or g == "i" for mono in argument.top for g, _ in mono)
    if imaginary and constants:
        real = Form({m: c for m, c in argument.top.items() if m not in imaginary})
        other = forms.div(Form(imaginary), _I)
        square = forms.add(forms.mul(real, real), forms.mul(other, other))
        return forms.rational_power(square, Fraction(1, 2))
    if len(argument.top) == 1:
        ((mono, coefficient),) = argument.top.items()
        if all(g[0] in "pc" for g, _ in mono):
            return Form({mono: abs(coefficient)})
        inner = forms.opaque("abs", Form({mono: Fraction(1)}))
        return forms.mul(Form(constant(abs(coefficient))), inner)
    if argument.top[min(argument.top)] < 0:
        argument = Form({mono: -c for mono, c in argument.top.items()})
    return forms.opaque("abs", argument)


def _factorial(forms: Forms, node: Node) -> Form:
    argument = forms.build(node.args[0])
    value = argument.rational()
    if value is None:
        return forms.opaque(f"factorial{node.value}", argument)
    if value.denominator != 1 or value < 0:
        raise UndefinedError("a factorial of no whole number")
    if value > MAX_FACTORIAL:
        raise LimitReachedError(f"a factorial of more than {MAX_FACTORIAL}")
    number = value.numerator
    return Form(constant(factorial(number) if node.value == 1 else prod(range(number, 0, -2))))


def _whole(forms: Forms, name: str, arguments: list[Form]) -> Form:
    """Functions of whole or rational numbers."""
    values = [argument.rational() for argument in arguments]
    if name == "binom":
        return _binomial(forms, arguments, values)
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return forms.opaque(name, *arguments)
    if name in ("max", "min"):
        return Form(constant(max(known) if name == "max" else min(known)))
    if name == "floor":
        return Form(constant(known[0].numerator // known[0].denominator))
    if name == "ceil":
        return Form(constant(-(-known[0].numerator // known[0].denominator)))
    if any(value.denominator != 1 for value in known):
        return forms.opaque(name, *arguments)
    numbers = [value.numerator for value in known]
    if name == "gcd":
        return Form(constant(gcd(*numbers)))
    if name == "lcm":
        if sum(number.bit_length() for number in numbers) > MAX_BITS:
            raise LimitReachedError("a common multiple too large")
        return Form(constant(lcm(*numbers)))
    if name == "mod" and numbers[1]:
        return Form(constant(numbers[0] % numbers[1]))
    raise UnreadableError(f"{name} of these values")


def _binomial(forms: Forms, arguments: list[Form], values: list[Fraction | None]) -> Form:
    top, bottom = values
    if bottom is None or bottom.denominator != 1 or bottom < 0:
        return forms.opaque("binom", *arguments)
    if bottom > MAX_FACTORIAL:
        raise LimitReachedError("a binomial too large")
    if top is not None and top.denominator == 1 and top >= 0:
        low = min(bottom.numerator, max(top.numerator - bottom.numerator, 0))
        if top.numerator.bit_length() * (low + 1) > MAX_BITS:
            raise LimitReachedError("a binomial too large")
        return Form(constant(comb(top.numerator, bottom.numerator)))
    if bottom > 20:
        return forms.opaque("binom", *arguments)
    result = Form(ONE)
    for step in range(bottom.numerator):
        factor = forms.add(arguments[0], Form(constant(step)), -1)
        result = forms.mul(result, forms.mul(factor, Form(constant(Fraction(1, step + 1)))))
    return result


def _running(forms: Forms, node: Node) -> Form:
    """A sum or product over a running index with whole-number ends."""
    index, low_node, high_node, body = node.args
    low, high = forms.build(low_node).rational(), forms.build(high_node).rational()
    if low is None or high is None or low.denominator != 1 or high.denominator != 1:
        raise LimitReachedError("a sum without whole-number ends")
    if high - low > MAX_RANGE:
        raise LimitReachedError(f"a sum of more than {MAX_RANGE} terms")
    result = Form(ONE) if node.kind == "prod" else Form({})
    for value in range(int(low), int(high) + 1):
        forms.bound[index.value] = Fraction(value)
        term = forms.build(body)
        result = forms.mul(result, term) if node.kind == "prod" else forms.add(result, term)
    forms.bound.pop(index.value, None)
    return result
