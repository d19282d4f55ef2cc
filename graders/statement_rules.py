"""Rules for approximations, sets of reals, inequalities, equations and assignments."""

from __future__ import annotations

from itertools import pairwise

from graders.evaluate import variables
from graders.nodes import Node, UnreadableError
from graders.quantities import split_unit
from graders.realsets import is_all_reals
from graders.relations import same_equation, same_inequalities, split_label
from graders.tri import PASS, Comparer, every, some

_SETS = frozenset({"union", "inter", "minus", "reals"})
_INEQUALITIES = frozenset({"<", ">", "<=", ">=", "!="})


def approximations(c: Comparer, gold: Node, pred: Node) -> object:
    """Of an exact value and its decimal, the exact one counts."""
    if gold.kind == "rel" and "~" in gold.value:
        if pred.kind == "rel" and len(pred.args) == 1:
            return c.same(gold.args[-1], pred.args[0])
        return some(c.same(side, pred) for side in gold.args)
    if pred.kind == "rel" and "~" in pred.value:
        if not c.options.approximate_twin or len(pred.args) < 2:
            return False
        exact = [side for side in pred.args if not _is_decimal(side)]
        return c.same(gold, exact[0]) if len(exact) == 1 else False
    return PASS


def _is_decimal(node: Node) -> bool:
    core = split_unit(node)[0]
    if core.kind == "neg":
        core = core.args[0]
    return core.kind == "num" and core.value.denominator != 1


def real_sets(c: Comparer, gold: Node, pred: Node) -> object:
    """Sets of reals by value, where one side is a union, an inequality or the real line."""
    if not (_is_real_set(gold) or _is_real_set(pred)):
        return PASS
    inequality = [_has_inequality(node) for node in (gold, pred)]
    if all(inequality) and variables(gold) != variables(pred):
        return False
    if inequality[0] != inequality[1] and not c.options.solved_inequalities:
        return False
    sides = [node for node in (gold, pred)]
    for index, other in ((0, 1), (1, 0)):
        side = sides[index]
        if side.kind == "list" and all(n.kind == "tuple" for n in side.args):
            if not c.options.comma_unions or sides[other].kind not in _SETS:
                return PASS
        if side.kind == "tuple" and sides[other].kind == "rel" and "in" in sides[other].value:
            return PASS
    if not all(_is_real_set(n) or n.kind in ("tuple", "set", "list", "text", "rel") for n in sides):
        return PASS
    try:
        return c.sets.equal(sides[0], sides[1])
    except UnreadableError:
        if gold.kind == pred.kind and gold.kind in _SETS:
            return every(c.same(a, b) for a, b in zip(gold.args, pred.args, strict=True))
        return PASS


def _is_real_set(node: Node) -> bool:
    if node.kind in _SETS or (node.kind == "text" and is_all_reals(node.value)):
        return True
    if node.kind == "list":
        return any(_has_inequality(member) for member in node.args)
    return _has_inequality(node)


def _has_inequality(node: Node) -> bool:
    if node.kind == "list":
        return any(_has_inequality(member) for member in node.args)
    return node.kind == "rel" and any(operator in _INEQUALITIES for operator in node.value)


def inequalities(c: Comparer, gold: Node, pred: Node) -> object:
    """Chains of inequalities, link by link."""
    sides = (_has_inequality(gold), _has_inequality(pred))
    if not any(sides):
        return PASS
    if gold.kind == pred.kind == "rel" and all(sides):
        return same_inequalities(gold, pred, c.work)
    if gold.kind == pred.kind == "list":
        return PASS
    return False


def relations(c: Comparer, gold: Node, pred: Node) -> object:
    """Equations, assignments and evaluation chains."""
    if gold.kind != "rel" and pred.kind != "rel":
        return PASS
    labels = split_label(gold), split_label(pred)
    if all(node.kind == "rel" and set(node.value) == {"="} for node in (gold, pred)):
        if _is_chain(gold) and _is_chain(pred):
            consistent = every(c.same(a, b) for a, b in pairwise(pred.args))
            return every((consistent, some(c.same(side, pred.args[-1]) for side in gold.args)))
    if gold.kind == pred.kind == "rel" and gold.value == pred.value == ("=",):
        verdict = same_equation(gold, pred, c.work)
        if verdict is True or labels[0] is None or labels[1] is None:
            return verdict
    if labels[0] and labels[1]:
        if labels[0][0] != labels[1][0]:
            return False
        return c.same(labels[0][1], labels[1][1])
    for index, label in enumerate(labels):
        if label is not None:
            if not c.options.drop_label or (index == 1 and _mentions(label[1], label[0])):
                return False
            return c.same(label[1], pred) if index == 0 else c.same(gold, label[1])
    if gold.kind == "rel" and set(gold.value) == {"="}:
        if pred.kind != "rel":
            return some(c.same(side, pred) for side in gold.args) if _is_chain(gold) else False
    if pred.kind == "rel" and set(pred.value) == {"="} and _is_chain(pred):
        steps = zip(pred.args, pred.args[1:], strict=False)
        return every([c.same(gold, pred.args[-1]), every(c.same(a, b) for a, b in steps)])
    return False


def _mentions(value: Node, label: Node) -> bool:
    """Tells whether a value holds its own label, as in ``x = x``."""
    return label.kind == "sym" and (value == label or any(_mentions(a, label) for a in value.args))


def _is_chain(node: Node) -> bool:
    """An evaluation such as ``2+3 = 5``: no variables."""
    return not variables(node)


def assignments(c: Comparer, gold: Node, pred: Node) -> object:
    """Lists of assignments, and a label before a list: ``n = 2,3,4``."""
    maps = _mapping(gold), _mapping(pred)
    if maps[0] and maps[1]:
        if maps[0].keys() != maps[1].keys():
            return False
        return every(c.same(value, maps[1][name]) for name, value in maps[0].items())
    for index, mapping in enumerate(maps):
        other = (pred, gold)[index]
        if mapping is None or len(mapping) < 2:
            continue
        if other.kind in ("tuple", "list") and c.options.assignments_as_points:
            names = (
                list(mapping) if other.kind == "list" and index == 0 else sorted(mapping, key=str)
            )
            values = [mapping[name] for name in names]
            if any(member.kind == "rel" for member in other.args):
                return False
            if len(values) != len(other.args) or (other.kind == "tuple" and other.value != "()"):
                return False
            return every(
                c.same(b, a) if index else c.same(a, b)
                for a, b in zip(values, other.args, strict=True)
            )
        return False
    plain = [_without_label(node) for node in (gold, pred)]
    if plain[0] is gold and plain[1] is pred:
        return PASS
    labels = [split_label(n.args[0] if n.kind == "list" else n) for n in (gold, pred)]
    if labels[0] and labels[1] and labels[0][0] != labels[1][0]:
        return False
    for index, (node, pair) in enumerate(zip((gold, pred), labels, strict=True)):
        if node.kind == "rel" and pair is not None:
            plain[index] = pair[1]
    return c.same(plain[0], plain[1])


def _mapping(node: Node) -> dict[Node, Node] | None:
    """Names to values, for a list of assignments to different names."""
    if node.kind == "rel":  # (x, y) = (1, 2)
        label = split_label(node)
        if label and label[0].kind == label[1].kind == "tuple":
            names, values = label[0].args, label[1].args
            return dict(zip(names, values, strict=True)) if len(names) == len(values) else None
        return None
    if node.kind != "list":
        return None
    pairs = [split_label(member) for member in node.args]
    found = [pair for pair in pairs if pair is not None]
    mapping = dict(found)
    return mapping if len(found) == len(pairs) == len(mapping) else None


def _without_label(node: Node) -> Node:
    """A list with its common label dropped: ``x=6 or x=-6``, ``n=2,3``."""
    if node.kind != "list" or node.args[0].kind != "rel":
        return node
    first = split_label(node.args[0])
    if first is None:
        return node
    values = [first[1]]
    for member in node.args[1:]:
        pair = split_label(member)
        if pair is None and member.kind != "rel":
            values.append(member)
        elif pair is not None and pair[0] == first[0]:
            values.append(pair[1])
        else:
            return node
    return node._replace(args=tuple(values))
