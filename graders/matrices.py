"""Matrices: scalar factors, determinants, sums."""

from __future__ import annotations

from collections.abc import Callable

from graders.forms import Form, Forms
from graders.limits import LimitReachedError
from graders.nodes import Node, UnreadableError, div
from graders.polynomials import ONE, constant


def as_matrix(node: Node) -> Node | None:
    """The matrix that a node stands for: itself, with a scalar factor, or a sum; else None."""
    if node.kind == "matrix":
        return node
    if node.kind == "neg":
        inner = as_matrix(node.args[0])
        return inner and _each(inner, lambda cell: Node("neg", (cell,)))
    if node.kind == "div":
        inner = as_matrix(node.args[0])
        return inner and _each(inner, lambda cell: div(cell, node.args[1]))
    if node.kind == "mul":
        found = [as_matrix(argument) for argument in node.args]
        matrices = [matrix for matrix in found if matrix is not None]
        factors = tuple(a for a, m in zip(node.args, found, strict=True) if m is None)
        if len(matrices) != 1:
            return None
        return _each(matrices[0], lambda cell: Node("mul", (*factors, cell)))
    if node.kind == "add":
        parts = [as_matrix(argument) for argument in node.args]
        whole = [part for part in parts if part is not None]
        if len(whole) < len(parts) or len({part.value for part in whole}) != 1:
            return None
        cells = zip(*(part.args for part in whole), strict=True)
        return Node("matrix", tuple(Node("add", group) for group in cells), whole[0].value)
    return None


def _each(matrix: Node, change: Callable[[Node], Node]) -> Node:
    return Node("matrix", tuple(change(cell) for cell in matrix.args), matrix.value)


def determinant(forms: Forms, matrix: Node) -> Form:
    """The determinant of a square matrix of at most 6 rows, by expansion along rows."""
    rows, columns = matrix.value
    if rows != columns:
        raise UnreadableError("a determinant of no square")
    if rows > 6:
        raise LimitReachedError("a determinant of more than 6 rows")
    cells = [forms.build(cell) for cell in matrix.args]

    def minor(row: int, free: tuple[int, ...]) -> Form:
        if row == rows:
            return Form(ONE)
        total = Form({})
        for place, column in enumerate(free):
            rest = minor(row + 1, free[:place] + free[place + 1 :])
            term = forms.mul(cells[row * columns + column], rest)
            total = forms.add(total, term, -1 if place % 2 else 1)
        return total

    return minor(0, tuple(range(rows))) if rows else Form(constant(1))
