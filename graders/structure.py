"""Two answers: the same object? Lists, points, sets, relations and quantities, member by member."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from graders.equivalence import Prover, same_value
from graders.evaluate import variables
from graders.limits import LimitReachedError, Work
from graders.matrices import as_matrix
from graders.nodes import INFINITY, Node, UnreadableError
from graders.normalize import text_key
from graders.options import Options
from graders.quantities import candidate_pairs, split_unit
from graders.realsets import MINUS_INFINITY, RealSets, is_all_reals
from graders.relations import same_equation, same_inequalities, split_label

Tri = bool | None
_SETS = frozenset({"union", "inter", "minus", "reals"})
_INEQUALITIES = frozenset({"<", ">", "<=", ">=", "!="})


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


class Comparison:
    """Compares answers under options and one work counter."""

    def __init__(self, options: Options, work: Work, prove: Prover | None = None) -> None:
        """Stores the options, the counter and the last layer of equality."""
        self.options = options
        self.work = work
        self.prove = prove
        self.depth = 0
        self.sets = RealSets(work, self.value)

    def value(self, gold: Node, pred: Node) -> Tri:
        """Equality of two expressions."""
        return same_value(
            gold, pred, self.work, self.prove, self.options.sampled_identities
        )

    def same(self, gold: Node, pred: Node) -> Tri:
        """Equality of two answers; None where it stays undecided."""
        self.work.spend(2)
        if gold.kind == "num" and pred.kind == "num":
            return bool(gold.value == pred.value)
        self.depth += 1
        if self.depth > 30:
            raise LimitReachedError("answers nested too deeply")
        try:
            for rule in _RULES:
                verdict = rule(self, gold, pred)
                if verdict is not _PASS:
                    return verdict  # type: ignore[return-value]  # _PASS is excluded
            return self.quantity(gold, pred)
        finally:
            self.depth -= 1

    def quantity(self, gold: Node, pred: Node) -> Tri:
        """Equality of two values with their units."""
        gold_core, gold_unit = split_unit(gold)
        pred_core, pred_unit = split_unit(pred)
        if gold_core is not gold or pred_core is not pred:
            options = self.options
            pairs = candidate_pairs(
                gold_core, gold_unit, pred_core, pred_unit, options.percent_optional,
                options.degrees_convert, options.money_converts,
            )  # fmt: skip
            return some(self.same(a, b) for a, b in pairs)
        infinite = (INFINITY, MINUS_INFINITY)
        if gold in infinite or pred in infinite:
            return gold == pred
        return self.value(gold, pred)

    def same_members(self, gold: list[Node], pred: list[Node]) -> Tri:
        """Equality as sets: every member of each side is found on the other; repeats collapse."""
        gold, pred = list(dict.fromkeys(gold)), list(dict.fromkeys(pred))
        if len(gold) * len(pred) > 40_000:
            for member in pred[:50]:
                if some(self.same(other, member) for other in gold[:200]) is False:
                    if len(gold) <= 200:
                        return False
            raise LimitReachedError("lists too long to compare")
        missing = every(some(self.same(g, p) for g in gold) for p in pred)
        if missing is False:
            return False
        return every((missing, every(some(self.same(g, p) for p in pred) for g in gold)))


_PASS = object()
Rule = Callable[[Comparison, Node, Node], object]


def _texts(c: Comparison, gold: Node, pred: Node) -> object:
    if "text" not in (gold.kind, pred.kind):
        return _PASS
    for words, other in ((gold, pred), (pred, gold)):
        if words.kind == "text" and is_all_reals(words.value) and other.kind != "text":
            return _real_sets(c, gold, pred)
    keys = [_word_keys(node) for node in (gold, pred)]
    if keys[0] is None or keys[1] is None:
        return False
    return bool(keys[0]) and keys[0] == keys[1]


def _word_keys(node: Node) -> frozenset[str] | None:
    """The words of a text answer, a list of words or of letters."""
    if node.kind == "text":
        pieces = node.value.replace(" and ", ",").replace(" or ", ",").split(",")
        return frozenset(key for key in map(text_key, pieces) if key)
    if node.kind in ("sym", "const"):
        return frozenset({str(node.value).lower()})
    if node.kind == "mul" and all(n.kind in ("sym", "const") for n in node.args):
        return frozenset({"".join(str(n.value) for n in node.args).lower()})
    if node.kind == "num":
        return frozenset({str(node.value)})
    if node.kind in ("list", "tuple", "set"):
        parts = [_word_keys(member) for member in node.args]
        if all(part is not None for part in parts):
            return frozenset().union(*(part for part in parts if part is not None))
    return None


def _bases(c: Comparison, gold: Node, pred: Node) -> object:
    if gold.kind == pred.kind == "base":
        return bool(gold.value == pred.value)
    if "base" not in (gold.kind, pred.kind):
        return _PASS
    base, other = (gold, pred) if gold.kind == "base" else (pred, gold)
    if not c.options.drop_base:
        return False
    return other.kind == "num" and str(other.value) == base.value[0]


def _ratios(c: Comparison, gold: Node, pred: Node) -> object:
    if "ratio" not in (gold.kind, pred.kind):
        return _PASS
    if gold.kind != pred.kind or len(gold.args) != len(pred.args):
        return False
    (fields, half), (other_fields, other_half) = gold.value, pred.value
    if half and other_half and half != other_half:
        return False
    entries = every(c.same(a, b) for a, b in zip(gold.args, pred.args, strict=True))
    if entries or not c.options.ratios_by_value:
        return entries
    if _is_time(gold, fields, half) or other_half or any(f[:1] == "0" for f in other_fields):
        return False
    first = (gold.args[0], pred.args[0])
    return every(
        c.value(Node("mul", (first[0], b)), Node("mul", (first[1], a)))
        for a, b in zip(gold.args[1:], pred.args[1:], strict=True)
    )


def _is_time(node: Node, fields: tuple[str, ...], half: str) -> bool:
    """A clock time: two-digit minutes below 60, and no ratio in lowest terms."""
    from math import gcd

    if half or any(len(field) > 1 and field[0] == "0" for field in fields):
        return True
    if any(n.kind != "num" or n.value.denominator != 1 for n in node.args):
        return False
    values = [n.value.numerator for n in node.args]
    clock = values[0] <= 24 and all(v < 60 and len(f) == 2 for v, f in zip(values[1:], fields[1:], strict=True))
    return clock and gcd(*values) > 1


def _plus_minus(c: Comparison, gold: Node, pred: Node) -> object:
    sides = [expand(node) for node in (gold, pred)]
    if len(sides[0]) == len(sides[1]) == 1:
        return _PASS
    if gold.kind in ("list", "set") or pred.kind in ("list", "set"):
        return _PASS
    return c.same_members(
        sides[0] if len(sides[0]) > 1 else members(gold),
        sides[1] if len(sides[1]) > 1 else members(pred),
    )


def expand(node: Node) -> list[Node]:
    """The values of an expression with plus-minus signs."""
    signs = _signs(node)
    if not signs:
        return [node]
    if len(signs) > 4:
        raise LimitReachedError("more than four plus-minus signs")
    if len(signs) == 1 or "mp" in signs:
        return [_choose(node, [upper] * len(signs)) for upper in (True, False)]
    count = len(signs)
    return [_choose(node, [bool(k >> i & 1) for i in range(count)]) for k in range(1 << count)]


def _signs(node: Node) -> list[str]:
    own = [node.value] if node.kind == "pm" else []
    if node.kind in ("list", "set", "rel", "tuple", "text"):
        return []
    return own + [sign for argument in node.args for sign in _signs(argument)]


def _choose(node: Node, uppers: list[bool]) -> Node:
    """Replaces plus-minus nodes from left to right, taking one choice for each."""
    if node.kind == "pm":
        upper = uppers.pop(0)
        left, right = (_choose(argument, uppers) for argument in node.args)
        return Node("add", (left, right if upper == (node.value == "pm") else Node("neg", (right,))))
    return node._replace(args=tuple(_choose(argument, uppers) for argument in node.args))


def members(node: Node) -> list[Node]:
    """The members of a list or set, plus-minus signs expanded; any other answer is one member."""
    if node.kind in ("list", "set"):
        return [value for member in node.args for value in expand(member)]
    return expand(node)


def _approximations(c: Comparison, gold: Node, pred: Node) -> object:
    if gold.kind == "rel" and "~" in gold.value:
        if pred.kind == "rel" and len(pred.args) == 1:
            return c.same(gold.args[-1], pred.args[0])
        return some(c.same(side, pred) for side in gold.args)
    if pred.kind == "rel" and "~" in pred.value:
        if not c.options.approximate_twin or len(pred.args) < 2:
            return False
        exact = [side for side in pred.args if not _is_decimal(side)]
        return c.same(gold, exact[0]) if len(exact) == 1 else False
    return _PASS


def _is_decimal(node: Node) -> bool:
    core = split_unit(node)[0]
    if core.kind == "neg":
        core = core.args[0]
    return core.kind == "num" and core.value.denominator != 1


def _real_sets(c: Comparison, gold: Node, pred: Node) -> object:
    """Sets of reals by value, where one side is a union, an inequality or the real line."""
    if not (_is_real_set(gold) or _is_real_set(pred)):
        return _PASS
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
                return _PASS
        if side.kind == "tuple" and sides[other].kind == "rel" and "in" in sides[other].value:
            return _PASS
    if not all(_is_real_set(n) or n.kind in ("tuple", "set", "list", "text", "rel") for n in sides):
        return _PASS
    try:
        return c.sets.equal(sides[0], sides[1])
    except UnreadableError:
        if gold.kind == pred.kind and gold.kind in _SETS:
            return every(c.same(a, b) for a, b in zip(gold.args, pred.args, strict=True))
        return _PASS


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


def _inequalities(c: Comparison, gold: Node, pred: Node) -> object:
    sides = (_has_inequality(gold), _has_inequality(pred))
    if not any(sides):
        return _PASS
    if gold.kind == pred.kind == "rel" and all(sides):
        return same_inequalities(gold, pred, c.work)
    if gold.kind == pred.kind == "list":
        return _PASS
    return False


def _relations(c: Comparison, gold: Node, pred: Node) -> object:
    if gold.kind != "rel" and pred.kind != "rel":
        return _PASS
    labels = split_label(gold), split_label(pred)
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


def _assignments(c: Comparison, gold: Node, pred: Node) -> object:
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
            names = list(mapping) if other.kind == "list" and index == 0 else sorted(mapping, key=str)
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
        return _PASS
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


def _matrices(c: Comparison, gold: Node, pred: Node) -> object:
    pair = as_matrix(gold), as_matrix(pred)
    if pair[0] is None and pair[1] is None:
        return _PASS
    if pair[0] is None or pair[1] is None or pair[0].value != pair[1].value:
        return False
    return every(c.same(a, b) for a, b in zip(pair[0].args, pair[1].args, strict=True))


def _tuples(c: Comparison, gold: Node, pred: Node) -> object:
    if "tuple" not in (gold.kind, pred.kind):
        return _PASS
    if gold.kind == pred.kind:
        if gold.value != pred.value or len(gold.args) != len(pred.args):
            return False
        return every(c.same(a, b) for a, b in zip(gold.args, pred.args, strict=True))
    sequence, other = (gold, pred) if gold.kind == "tuple" else (pred, gold)
    if other.kind == "list" and any(member.kind == "tuple" for member in other.args):
        return _PASS
    if other.kind == "list" and sequence.value == "()" and c.options.drop_parentheses:
        if any(node in (INFINITY, MINUS_INFINITY) for node in sequence.args):
            return False
        if gold.kind == "list":
            return c.same_members(members(gold), list(pred.args))
        if len(gold.args) != len(pred.args):
            return False
        return every(c.same(a, b) for a, b in zip(gold.args, pred.args, strict=True))
    return _PASS if other.kind == "set" and len(other.args) == 1 else False


def _collections(c: Comparison, gold: Node, pred: Node) -> object:
    kinds = (gold.kind, pred.kind)
    if "list" not in kinds and "set" not in kinds:
        return _PASS
    sides = members(gold), members(pred)
    if not sides[0] or not sides[1]:
        return not sides[0] and not sides[1]
    if "set" in kinds and kinds[0] != kinds[1] and "list" not in kinds:
        if not c.options.set_of_one:
            return False
    return c.same_members(*sides)


_RULES: tuple[Rule, ...] = (
    _approximations, _real_sets, _assignments, _texts, _inequalities, _relations, _bases, _ratios,
    _matrices, _plus_minus, _tuples, _collections,
)  # fmt: skip
