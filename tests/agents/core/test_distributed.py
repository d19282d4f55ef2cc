"""Two processes that share the passes out make the update of one process."""

import numpy as np
import pytest
import torch
from policies import small_policy
from processes import CASES, DTYPES, SWITCHES, critic_update, update, work
from updates import flat_parameters

from agents.core.distributed import all_gathered, joined, on_first, own_share, world_size

BOUNDS = {"float64": 1e-10, "float32": 1e-5}


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """Returns what each process found, computed once for all cases."""
    folder = tmp_path_factory.mktemp("processes")
    torch.multiprocessing.spawn(work, args=(str(folder),), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def _agree(found, alone, bound):
    start = flat_parameters(small_policy(alone["parameters"].dtype))
    moved = (alone["parameters"] - start).norm()
    assert moved > 1e-3
    assert found["gradients"].shape == alone["gradients"].shape
    for step, (ours, single) in enumerate(
        zip(found["gradients"], alone["gradients"], strict=True)
    ):  # a later step has the weights that rounding has moved
        assert (ours - single).norm() <= bound * (1 if step == 0 else 5) * single.norm()
    assert (found["parameters"] - alone["parameters"]).norm() <= 5 * bound * moved
    near = max(1e-6, bound)
    assert found["metrics"] == pytest.approx(alone["metrics"], rel=1e-4, abs=near, nan_ok=True)


@pytest.mark.parametrize("dtype", CASES)
@pytest.mark.parametrize("number", range(len(SWITCHES)), ids=lambda n: str(SWITCHES[n]))
def test_an_update_does_not_depend_on_the_number_of_processes(two_processes, dtype, number):
    alone = update(DTYPES[dtype], SWITCHES[number])
    for found in two_processes:
        _agree(found[f"{dtype} {number}"], alone, BOUNDS[dtype])


def test_a_process_may_have_nothing_to_do(two_processes):
    alone = update(torch.float64, {}, answers=1)
    for found in two_processes:
        _agree(found["one answer"], alone, 1e-10)


@pytest.mark.parametrize("dtype", CASES)
def test_nor_does_that_of_a_critic(two_processes, dtype):
    alone, start = critic_update(DTYPES[dtype]), critic_update(DTYPES[dtype], 0.0)
    moved = (alone["parameters"] - start["parameters"]).norm()
    assert moved > 1e-3
    for found in two_processes:
        case = found[f"{dtype} critic"]
        assert (case["parameters"] - alone["parameters"]).norm() <= BOUNDS[dtype] * moved
        np.testing.assert_allclose(case["values"], alone["values"], atol=10 * BOUNDS[dtype])
        assert case["metrics"] == pytest.approx(alone["metrics"], rel=1e-5)


def test_the_switches_reach_skips_and_stops():
    """So that the cases above show that processes decide alike."""
    metrics = [update(torch.float64, switches)["metrics"] for switches in SWITCHES]
    assert any(found["ratio/exploded"] for found in metrics)
    assert any(found["stopped_at_kl_target"] for found in metrics)


def test_weights_are_equal_on_all_processes_bit_for_bit(two_processes):
    first, second = (found["many"] for found in two_processes)
    assert first["metrics"]["updates"] == second["metrics"]["updates"] == 9.0
    assert torch.equal(first["parameters"], second["parameters"])


def test_a_stop_on_one_process_ends_the_update_on_all(two_processes):
    assert [found["stopped"]["metrics"]["updates"] for found in two_processes] == [2.0, 2.0]


@pytest.mark.parametrize("count", [0, 1, 5, 8])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_shares_are_everything_once_and_differ_by_one(count, size, monkeypatch):
    shares = []
    for rank in range(size):
        monkeypatch.setattr("agents.core.distributed.world_size", lambda: size)
        monkeypatch.setattr("agents.core.distributed.rank", lambda rank=rank: rank)
        shares.append(own_share(range(count)))
    assert [item for share in shares for item in share] == [*range(count)]
    lengths = [len(share) for share in shares]
    assert max(lengths) - min(lengths) <= 1


def test_one_process_needs_no_group(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined():
        assert (world_size(), all_gathered([1]), on_first(lambda: 2)) == (1, [1], 2)
