"""Equations and inequalities: the same up to a factor."""

from __future__ import annotations

from fractions import Fraction

from graders.forms import Form, Forms, UndefinedError
from graders.limits import LimitReachedError, Work
from graders.nodes import Node, UnreadableError
from graders.polynomials import Mono, Poly, poly_add, poly_mul

_SWAP = {">": "<", ">=": "<="}


def split_label(node: Node) -> tuple[Node, Node] | None:
    r"""Left side and value of an assignment such as ``x = 5``, ``f(x) = x^2`` or ``x \in S``.

    An evaluation chain keeps its last member: ``x = 2+3 = 5`` is 5.
    """
    if node.kind != "rel" or set(node.value) - {"=", "in"}:
        return None
    first, last = node.args[0], node.args[-1]
    if is_label(first):
        return first, (last if len(node.args) == 2 else Node("rel", node.args[1:], node.value[1:]))
    if node.value == ("=",) and is_label(last):
        return last, first
    return None


def is_label(node: Node) -> bool:
    """Tells whether a left side only names the value: a variable, f(x), a point, words, AB."""
    if node.kind in ("sym", "app", "text"):
        return True
    if node.kind == "tuple":
        return all(is_label(argument) for argument in node.args)
    return node.kind == "mul" and all(
        a.kind == "sym" and str(a.value)[:1].isupper() for a in node.args
    )


def same_equation(left: Node, right: Node, work: Work) -> bool | None:
    """Tells whether two equations are the same up to a non-zero constant factor."""
    if len(left.args) != 2 or len(right.args) != 2:
        return None
    return _proportional(left, right, work, positive=False)


def same_inequalities(left: Node, right: Node, work: Work) -> bool | None:
    """Tells whether two chains of inequalities hold the same links, each up to a factor > 0."""
    links = [_links(node) for node in (left, right)]
    if len(links[0]) != len(links[1]):
        return False
    undecided = False
    for link in links[0]:
        found = [
            _proportional(link, other, work, positive=True)
            for other in links[1]
            if other.value == link.value
        ]
        if True not in found:
            if None not in found:
                return False
            undecided = True
    return None if undecided else True


def _links(node: Node) -> list[Node]:
    """The single relations of a chain, all pointing the same way."""
    links = []
    for a, operator, b in zip(node.args, node.value, node.args[1:], strict=False):
        if operator in _SWAP:
            a, b, operator = b, a, _SWAP[operator]
        links.append(Node("rel", (a, b), (operator,)))
    return links


def _proportional(left: Node, right: Node, work: Work, positive: bool) -> bool | None:
    try:
        forms = Forms(work)
        a, b = (
            forms.add(forms.build(node.args[0]), forms.build(node.args[1]), -1)
            for node in (left, right)
        )
        if not a.top or not b.top:
            return False  # an equation that says nothing
        if positive and (len(a.bottom) > 1 or len(b.bottom) > 1):
            return None
        ratio = _ratio(_numerator(a, work), _numerator(b, work), work)
    except UndefinedError:
        return False
    except UnreadableError:
        return None
    except LimitReachedError:
        return True if left == right else None
    if ratio is None:
        return False if forms.exact else None
    return ratio > 0 or not positive


def _numerator(form: Form, work: Work) -> Poly:
    """The numerator, with variables' negative powers multiplied away."""
    lowest: dict[str, Fraction] = {}
    for mono in form.top:
        present = dict(mono)
        for generator, exponent in mono:
            lowest[generator] = min(lowest.get(generator, exponent), exponent)
        for generator in lowest:
            if generator not in present:
                lowest[generator] = min(lowest[generator], Fraction(0))
    for generator in {g for mono in form.top for g, _ in mono}:
        if any(generator not in dict(mono) for mono in form.top):
            lowest[generator] = min(lowest[generator], Fraction(0))
    shift: Mono = tuple(sorted((g, -e) for g, e in lowest.items() if e < 0 and g[0] in "sc"))
    return poly_mul(form.top, {shift: Fraction(1)}, work) if shift else form.top


def _ratio(left: Poly, right: Poly, work: Work) -> Fraction | None:
    """The constant ratio of two polynomials in the variables, or None; irrational counts as 1."""
    mono = min(left)
    if mono in right and len(left) == len(right):
        ratio = left[mono] / right[mono]
        if all(right.get(m, 0) * ratio == c for m, c in left.items()):
            return ratio
    groups = [_by_variables(poly) for poly in (left, right)]
    if groups[0].keys() != groups[1].keys():
        return None
    pivot = min(groups[0])
    a, b = groups[0][pivot], groups[1][pivot]
    for key in groups[0]:
        cross = poly_mul(groups[0][key], b, work)
        if poly_add(cross, poly_mul(groups[1][key], a, work), work, -1):
            return None
    return _sign_ratio(a, b)


def _sign_ratio(a: Poly, b: Poly) -> Fraction:
    """A ratio of the right sign for constants with one term each; else 1."""
    if len(a) == len(b) == 1:
        (x,), (y,) = a.values(), b.values()
        return Fraction(1 if (x > 0) == (y > 0) else -1)
    return Fraction(1)


def _by_variables(poly: Poly) -> dict[Mono, Poly]:
    groups: dict[Mono, Poly] = {}
    for mono, coefficient in poly.items():
        outer = tuple((g, e) for g, e in mono if g[0] not in "pci")
        inner = tuple((g, e) for g, e in mono if g[0] in "pci")
        groups.setdefault(outer, {})[inner] = coefficient
    return groups
