"""What an evaluation says of its samples: pass@k, majority voting, shares, bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.analysis.spread import pass_at_k, powers_up_to
from agents.core.records import Interval
from agents.core.streams import generator
from graders import Verdict

SameAnswer = Callable[[str, str], bool]
"""Whether two extracted answers are the same one."""
_AT_ONCE = 2**20  # problems drawn by the bootstrap before they are summed: 8 MiB


@dataclass(frozen=True, slots=True)
class Scored:
    """One graded sample.

    Attributes:
        answer: The extracted answer, empty if there is none.
        right: 1.0 for a right answer, else 0.0.
        verdict: The environment's: "correct", "wrong", "undecided" or "unfinished".
        num_tokens: Of the response.
    """

    answer: str
    right: float
    verdict: str
    num_tokens: int


def majority(samples: Sequence[Scored], same: SameAnswer) -> float:
    """Returns how right the most frequent answer is; ties are split.

    A sample joins the first answer, in the order of the samples, that it equals. Samples without an
    answer do not vote; without any vote the result is 0. Where several answers lead, it is their
    mean: what drawing one of them would give on average.

    >>> votes = [Scored(a, float(a == "4"), "", 1) for a in ("4", "5", "4.0", "", "5")]
    >>> majority(votes, lambda a, b: float(a) == float(b))
    0.5
    """
    classes: list[list[Scored]] = []
    for sample in samples:
        if not sample.answer:
            continue
        for members in classes:
            if members[0].answer == sample.answer or same(members[0].answer, sample.answer):
                members.append(sample)
                break
        else:
            classes.append([sample])
    most = max(map(len, classes), default=0)
    leaders = [members[0].right for members in classes if len(members) == most]
    return math.fsum(leaders) / len(leaders) if leaders else 0.0


def majority_at_k(samples: Sequence[Scored], k: int, same: SameAnswer) -> float:
    """Returns the mean of ``majority`` over the disjoint blocks of k samples, in their order."""
    blocks = [samples[at : at + k] for at in range(0, len(samples) - k + 1, k)]
    return math.fsum(majority(block, same) for block in blocks) / len(blocks)


def same_answer_of(grader: Any) -> SameAnswer:
    """Returns the equality of answers that a grader implies.

    That is the grader's own comparison where it has one (ours do, and any with ``grade_answer``),
    taken both ways, else equality of the texts without outer white space.

    >>> from graders import get_grader
    >>> same_answer_of(get_grader("gsm8k"))("1,000", "1000.0")
    True
    >>> same_answer_of(len)("1,000", "1000.0")
    False
    """
    from graders.math_grader import MathGrader, grade_math
    from graders.numeric import GSM8KGrader, grade_gsm8k

    if grader is grade_gsm8k:
        grader = GSM8KGrader()
    elif grader is grade_math:
        grader = MathGrader()
    compare = getattr(grader, "grade_answer", None)
    return _same_text if compare is None else partial(_same_by, compare)


def _same_text(first: str, second: str) -> bool:
    return first.strip() == second.strip()


def _same_by(compare: Callable[[str, str], Any], first: str, second: str) -> bool:
    return first.strip() == second.strip() or any(
        compare(*pair).verdict == Verdict.CORRECT for pair in ((first, second), (second, first))
    )


def bootstrap(
    scores: Sequence[float], *, seed: int, draws: int = 2000, level: float = 0.95
) -> Interval:
    """Returns a mean with its percentile interval from a bootstrap over problems.

    Args:
        scores: One number a problem; at least one.
        seed: Of the draws; the same one gives the same interval.
        draws: How often as many problems are drawn with replacement.
        level: Of the interval.

    >>> bootstrap([1.0, 1.0], seed=0)
    Interval(mean=1.0, low=1.0, high=1.0, n=2)
    """
    values: NDArray[np.float64] = np.asarray(scores, dtype=np.float64)
    n = len(values)
    if n == 0:
        raise ValueError("the bootstrap needs at least one problem, got none")
    rng, chunk = generator(seed, "bootstrap"), max(1, _AT_ONCE // n)
    means = [
        values[rng.integers(n, size=(min(chunk, draws - at), n))].mean(axis=1)
        for at in range(0, draws, chunk)
    ]
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return Interval(math.fsum(scores) / n, float(low), float(high), n)


def measures_of(
    groups: Sequence[Sequence[Scored]], same: SameAnswer, *, seed: int, draws: int = 2000
) -> dict[str, Interval]:
    """Returns every measure with its interval: problems count the same, whatever their samples.

    ``pass@k`` and ``maj@k`` for k = 1, 2, 4, ... up to the number of samples (maj@1 is pass@1 and
    is left out), ``unfinished``, ``no_answer`` (finished, but nothing to grade), ``undecided``
    (each a share of the samples) and ``tokens``, the mean length.

    Args:
        groups: The samples of each problem, of all the same number.
        same: Which answers are equal.
        seed: Of the bootstrap.
        draws: Of the bootstrap.
    """
    n = len(groups[0])
    rights = [round(math.fsum(sample.right for sample in group)) for group in groups]
    columns = {
        f"pass@{k}": [pass_at_k(n, right, k) for right in rights] for k in powers_up_to(n)
    } | {
        f"maj@{k}": [majority_at_k(group, k, same) for group in groups]
        for k in powers_up_to(n)
        if k > 2 or k == n > 1
    }
    shares: dict[str, Callable[[Scored], float]] = {
        "unfinished": lambda sample: sample.verdict == "unfinished",
        "no_answer": lambda sample: sample.verdict != "unfinished" and not sample.answer,
        "undecided": lambda sample: sample.verdict == str(Verdict.UNDECIDED),
        "tokens": lambda sample: sample.num_tokens,
    }
    for name, of in shares.items():
        columns[name] = [math.fsum(map(of, group)) / n for group in groups]
    return {name: bootstrap(column, seed=seed, draws=draws) for name, column in columns.items()}
