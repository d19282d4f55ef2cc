"""From measured gradients to a table: variance, cosine, gain over RLOO, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.analysis.measure import Measurement
from agents.analysis.moments import Signal, batch_cosine, limit_of_many, ratio_interval

ANSWERS = 64
"""The batch whose cosine is reported, in answers."""


def noise_table(
    signal: Signal, results: Sequence[Measurement], group: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Returns what the measurements say of each estimator, relative to the first one.

    A gain is how many times less noise an answer brings than with the first estimator: the first
    one needs as many times the answers for the same noise. An unbiased estimator has the length of
    the true gradient; a biased one is measured at its own scale, taken from how far its gradients
    reach along the large-batch one beside those of the first estimator.

    Args:
        signal: The large-batch gradient.
        results: The estimators; the first is what the others are compared with.
        group: Answers a prompt, one vector of the moments.
        rng: For the intervals.

    Returns:
        ``signal`` (squared length, its standard error, groups) and ``estimators``, one entry each:
        ``noise`` (trace of the variance per answer over the squared length of the true gradient),
        ``cosine``, ``projection``, ``gain`` with ``gain_low`` and ``gain_high``, ``tokens`` and
        ``seconds`` (both an answer), their ratios, and the gain over each ratio. ``limit`` is the
        gain that K to infinity would have, where there are two K of "paper" above 1.
    """
    squared, error = signal.squared()
    first = results[0]
    reach = float(np.mean(first.moments.dots))
    entries = []
    for result in results:
        moments, answers = result.moments, group * len(result.moments.squares)
        projection = float(np.mean(moments.dots)) / reach
        scale = 1.0 if result.estimator.unbiased else projection
        gain = first.moments.trace / moments.trace * scale**2
        low, high = ratio_interval(
            first.moments.squares,
            moments.squares,
            rng,
            above_less=_mean_square(first),
            below_less=_mean_square(result),
        )
        own = None if result.estimator.unbiased else moments.squared_mean
        tokens = result.tokens / first.tokens
        seconds = result.seconds / first.seconds
        entries.append(
            {
                "name": result.estimator.name,
                "label": result.estimator.label,
                "unbiased": result.estimator.unbiased,
                "noise": group * moments.trace / squared / scale**2,
                "cosine": batch_cosine(
                    squared, moments.trace, ANSWERS / group, scale=scale, own=own
                ),
                "projection": projection,
                "gain": gain,
                "gain_low": low * scale**2,
                "gain_high": high * scale**2,
                "tokens": result.tokens / answers,
                "seconds": result.seconds / answers,
                "tokens_ratio": tokens,
                "seconds_ratio": seconds,
                "gain_per_token": gain / tokens,
                "gain_per_second": gain / seconds,
            }
        )
    return {
        "signal": {"squared": squared, "standard_error": error, "groups": signal.count},
        "groups": len(first.moments.squares),
        "answers_a_group": group,
        "estimators": entries,
        "limit": _limit(results),
    }


def _mean_square(result: Measurement) -> float:
    """Squared length of the mean gradient, what a variance takes off the mean square."""
    return result.moments.squared_total / len(result.moments.squares) ** 2


def _limit(results: Sequence[Measurement]) -> float | None:
    fresh = [
        (result.estimator.samples, result.moments.trace)
        for result in results
        if result.estimator.name.startswith("paper") and (result.estimator.samples or 0) > 1
    ]
    if len(fresh) < 2:
        return None
    left = limit_of_many([k for k, _ in fresh if k], [trace for _, trace in fresh])
    return results[0].moments.trace / left if left > 0 else None


def noise_line(table: dict[str, Any]) -> str:
    """Returns the finding in a line: the largest gain, and the best per token and per second.

    >>> entry = {"name": "rloo", "label": "RLOO", "gain": 1.0, "gain_per_token": 1.0,
    ...          "gain_per_second": 1.0}
    >>> vine = entry | {"name": "reuse:2", "label": "VinePPO reuse, K=2", "gain": 1.5,
    ...                 "gain_per_second": 0.9}
    >>> noise_line({"estimators": [entry, vine]}).split(";")[0]
    'gradient: VinePPO reuse, K=2 has 1.50 times less noise an answer than RLOO'
    """
    entries = table["estimators"]
    others = entries[1:] or entries

    def best(key: str) -> str:
        entry = max(others, key=lambda item: float(item[key]))
        return f"{entry['label']} ({entry[key]:.2f})"

    top = max(others, key=lambda item: float(item["gain"]))
    return (
        f"gradient: {top['label']} has {top['gain']:.2f} times less noise an answer than "
        f"{entries[0]['label']}; best per generated token {best('gain_per_token')}, "
        f"per CPU second {best('gain_per_second')}"
    )
