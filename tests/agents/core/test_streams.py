"""Random streams: independent of order and batch, never shared by two samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.streams import generator, stream_key, uniforms


def _draws(keys: list[int], position: int) -> np.ndarray:
    return uniforms(np.array(keys, np.uint64), np.array(position, np.uint64))


def test_a_draw_depends_on_its_key_and_position_only():
    together = _draws([1, 2, 3], 7)
    assert together[1] == _draws([2], 7)[0]
    assert list(_draws([3, 2, 1], 7)) == list(together[::-1])


def test_draws_are_uniform_and_uncorrelated():
    keys = np.array([stream_key(0, number) for number in range(20_000)], np.uint64)
    first, second = uniforms(keys, np.uint64(0)), uniforms(keys, np.uint64(1))
    assert np.all((first >= 0) & (first < 1))
    counts = np.histogram(first, bins=20, range=(0, 1))[0]
    chi_squared = float(((counts - 1000) ** 2 / 1000).sum())
    assert chi_squared < 43.8  # 0.1 % point of chi squared with 19 degrees of freedom
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(len(keys))
    row = uniforms(np.full(20_000, 5, np.uint64), np.arange(20_000, dtype=np.uint64))
    assert abs(row.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(row))
    assert abs(np.corrcoef(row[1:], row[:-1])[0, 1]) < 4 / np.sqrt(len(row))


@pytest.mark.parametrize(
    "other",
    [(1, 2, 3, "value", [4, 5]), (0, 2, 3, "rollout", [4, 5]), (0, 2, 3, "value", [4]),
     (0, 2, 3, "value", [4, 5], 0), (0, 2, "3", "value", [4, 5])],
)  # fmt: skip
def test_every_part_changes_the_key(other):
    assert stream_key(*other) != stream_key(0, 2, 3, "value", [4, 5])


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_parts_do_not_run_together(parts):
    assert stream_key(*parts) != stream_key(*parts, "")


def test_the_generator_is_reproducible():
    assert (
        generator(0, "shuffle").permutation(10).tolist()
        == generator(0, "shuffle").permutation(10).tolist()
    )
    assert generator(0, "shuffle").random() != generator(1, "shuffle").random()
