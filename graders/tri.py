"""Three-valued verdicts, and what the rules of comparison need of their caller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from graders.limits import Work
from graders.nodes import Node
from graders.options import Options
from graders.realsets import RealSets

Tri = bool | None
"""True, False, or None for undecided."""

PASS = object()
"""What a rule returns for a pair that it does not decide."""


class Comparer(Protocol):
    """What a rule may ask: see ``graders.structure.Comparison``."""

    options: Options
    work: Work
    sets: RealSets

    def same(self, gold: Node, pred: Node) -> Tri:
        """Equality of two answers."""
        ...

    def value(self, gold: Node, pred: Node) -> Tri:
        """Equality of two expressions."""
        ...

    def same_members(self, gold: list[Node], pred: list[Node]) -> Tri:
        """Equality as sets."""
        ...


def every(verdicts: Iterable[Tri]) -> Tri:
    """Three-valued "and": a False decides, else an undecided one, else True."""
    undecided = False
    for verdict in verdicts:
        if verdict is False:
            return False
        undecided |= verdict is None
    return None if undecided else True


def some(verdicts: Iterable[Tri]) -> Tri:
    """Three-valued "or"."""
    undecided = False
    for verdict in verdicts:
        if verdict:
            return True
        undecided |= verdict is None
    return None if undecided else False
