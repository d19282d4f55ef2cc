"""Two answers: the same object? Lists, points, sets, relations and quantities, member by member."""

from __future__ import annotations

from collections.abc import Callable

from graders import member_rules, statement_rules
from graders.equivalence import Prover, same_value
from graders.limits import LimitReachedError, Work
from graders.nodes import INFINITY, Node
from graders.options import Options
from graders.quantities import candidate_pairs, split_unit
from graders.realsets import MINUS_INFINITY, RealSets
from graders.tri import PASS, Comparer, Tri, every, some

Rule = Callable[[Comparer, Node, Node], object]
RULES: tuple[Rule, ...] = (
    statement_rules.approximations,
    statement_rules.real_sets,
    statement_rules.assignments,
    member_rules.texts,
    statement_rules.inequalities,
    statement_rules.relations,
    member_rules.bases,
    member_rules.ratios,
    member_rules.matrices,
    member_rules.plus_minus,
    member_rules.tuples,
    member_rules.collections,
)
"""The rules in the order in which they are asked; the first that does not pass decides."""


class Comparison:
    """Compares answers under options and one work counter."""

    def __init__(self, options: Options, work: Work, prove: Prover | None = None) -> None:
        """Stores the options, the counter and the last layer of equality."""
        self.options = options
        self.work = work
        self.prove = prove
        self.depth = 0
        self.proofs = 2
        self.sets = RealSets(work, self.value)

    def value(self, gold: Node, pred: Node) -> Tri:
        """Equality of two expressions; the last layer is asked for few pairs only."""
        sampled = self.options.sampled_identities
        return same_value(gold, pred, self.work, self.last_layer, sampled)

    def last_layer(self, gold: Node, pred: Node) -> Tri:
        """Asks the prover, at most twice for one pair of answers."""
        if self.prove is None or self.proofs == 0:
            return None
        self.proofs -= 1
        return self.prove(gold, pred)

    def same(self, gold: Node, pred: Node) -> Tri:
        """Equality of two answers; None where it stays undecided."""
        self.work.spend(2)
        if gold.kind == "num" and pred.kind == "num":
            return bool(gold.value == pred.value)
        if gold == pred:
            return True
        self.depth += 1
        if self.depth > 30:
            raise LimitReachedError("answers nested too deeply")
        try:
            for rule in RULES:
                verdict = rule(self, gold, pred)
                if verdict is not PASS:
                    return verdict  # type: ignore[return-value]  # PASS is excluded
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
