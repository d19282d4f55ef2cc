"""What an agent tells an environment's curriculum, and what it saves of it.

An environment has one if it offers ``record_success``, ``curriculum_state`` and
``set_curriculum_state`` as ``lang_env.env.TokenEnv`` does. One without is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agents.core.evaluation import success_of
from agents.core.rollout import Trajectory


def record_successes(env: Any, groups: Sequence[Sequence[Trajectory]]) -> None:
    """Tells the environment how each problem was answered: one outcome a group, in order.

    Args:
        env: The unwrapped environment.
        groups: The answers to each drawn problem; value rollouts do not belong here.
    """
    record = getattr(env, "record_success", None)
    if record is not None:
        for group in groups:
            record(
                group[0].start.snapshot, float(np.mean([success_of(answer) for answer in group]))
            )


def curriculum_state(env: Any) -> dict[str, Any]:
    """Returns where the curriculum stands as JSON values; empty if there is none."""
    state = getattr(env, "curriculum_state", None)
    return {} if state is None else dict(state())


def set_curriculum_state(env: Any, state: Mapping[str, Any]) -> None:
    """Goes on from what ``curriculum_state`` returned for this environment or an equal one."""
    if state:
        env.set_curriculum_state(state)


def curriculum_metrics(env: Any) -> dict[str, float]:
    """Returns the present level, to be logged; nothing without a curriculum."""
    state = curriculum_state(env)
    return {"curriculum/level": float(state["level"])} if "level" in state else {}
