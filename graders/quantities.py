"""Values with units, percent and degree signs."""

from __future__ import annotations

from graders.nodes import PI, Node, div, num
from graders.words import UNITS, unit_key

_SCALE = frozenset({(("celsius", 1),), (("fahrenheit", 1),)})
Unit = str | tuple[tuple[str, int], ...] | None


_TEMPERATURES: dict[Unit, tuple[tuple[str, int], ...]] = {
    (("c", 1),): (("celsius", 1),),
    (("f", 1),): (("fahrenheit", 1),),
}


def split_unit(node: Node) -> tuple[Node, Unit]:
    """The bare value and its unit: ``"pct"``, ``"deg"``, the key of unit words, or None."""
    if node.kind in ("pct", "deg"):
        return node.args[0], node.kind
    if node.kind == "qty":
        core, inner = split_unit(node.args[0])
        key = unit_key(list(node.value))
        return core, _TEMPERATURES.get(key, key) if inner == "deg" else key or inner
    if node.kind == "neg" and node.args[0].kind in ("pct", "deg", "qty"):
        core, unit = split_unit(node.args[0])
        return Node("neg", (core,)), unit
    return node, None


def candidate_pairs(
    gold: Node, gold_unit: Unit, pred: Node, pred_unit: Unit, percent_optional: bool,
    convert_degrees: bool, convert_money: bool,
) -> list[tuple[Node, Node]]:  # fmt: skip
    """The pairs of bare values of which one must be equal; empty where the units conflict."""
    if gold_unit == pred_unit:
        return [(gold, pred)]
    if "pct" in (gold_unit, pred_unit):
        if None not in (gold_unit, pred_unit):
            return []
        if gold_unit == "pct":
            return [(gold, pred), (div(gold, num(100)), pred)]
        hundredth = [(gold, div(pred, num(100)))]
        return [(gold, pred), *hundredth] if percent_optional else hundredth
    if "deg" in (gold_unit, pred_unit) and _SCALE.isdisjoint((gold_unit, pred_unit)):
        if None not in (gold_unit, pred_unit):
            return []
        pairs = [(gold, pred)]
        if convert_degrees:
            pairs.append((_radians(gold), pred) if gold_unit else (gold, _radians(pred)))
        return pairs
    if gold_unit in (None, "deg") or pred_unit in (None, "deg"):
        return [(gold, pred)]
    assert not isinstance(gold_unit, str) and not isinstance(pred_unit, str)
    units = (dict(gold_unit), dict(pred_unit))
    if set(units[0]) | set(units[1]) == {"dollar", "cent"} and convert_money:
        hundred = num(100)
        if "dollar" in units[0]:
            return [(Node("mul", (gold, hundred)), pred)]
        return [(gold, Node("mul", (pred, hundred)))]
    if _compatible(units[0], units[1]):
        return [(gold, pred)]
    return []


def _compatible(left: dict[str, int], right: dict[str, int]) -> bool:
    """Tells whether one unit only adds words to the other: "right triangles", "triangles"."""
    small, large = sorted((left, right), key=len)
    if len(small) == len(large):
        return False
    if any(word in UNITS for word in large if word not in small):
        return False
    return all(large.get(word) == power for word, power in small.items())


def _radians(node: Node) -> Node:
    return div(Node("mul", (node, PI)), num(180))
