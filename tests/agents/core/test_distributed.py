"""Two processes with a share of the answers each make the update of one process with them all."""

import pytest
import torch
from policies import small_policy
from processes import CASES, DTYPES, SWITCHES, critic_update, update, work
from updates import flat_parameters

BOUNDS = {"float64": 1e-10, "float32": 1e-5}


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """Returns what each process found, computed once for all cases."""
    folder = tmp_path_factory.mktemp("processes")
    torch.multiprocessing.spawn(work, args=(str(folder),), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize(("shares", "dtype"), CASES)
@pytest.mark.parametrize("number", range(len(SWITCHES)), ids=lambda n: str(SWITCHES[n]))
def test_an_update_does_not_depend_on_the_number_of_processes(two_processes, shares, dtype, number):
    alone = update(DTYPES[dtype], SWITCHES[number], range(6))
    moved = (alone["parameters"] - flat_parameters(small_policy(DTYPES[dtype]))).norm()
    assert moved > 1e-3
    for found in two_processes:
        case = found[f"{shares} {dtype} {number}"]
        assert case["gradients"].shape == alone["gradients"].shape
        for ours, single in zip(case["gradients"], alone["gradients"], strict=True):
            assert (ours - single).norm() <= BOUNDS[dtype] * single.norm()
        assert (case["parameters"] - alone["parameters"]).norm() <= BOUNDS[dtype] * moved
        assert case["metrics"] == pytest.approx(alone["metrics"], rel=1e-4, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize(("shares", "dtype"), CASES)
def test_nor_does_that_of_a_critic(two_processes, shares, dtype):
    alone, start = critic_update(DTYPES[dtype], range(6)), critic_update(DTYPES[dtype], [])
    moved = (alone["parameters"] - start["parameters"]).norm()
    assert moved > 1e-3
    for found in two_processes:
        case = found[f"{shares} {dtype} critic"]
        assert (case["parameters"] - alone["parameters"]).norm() <= BOUNDS[dtype] * moved
        assert case["metrics"] == pytest.approx(alone["metrics"], rel=1e-5)


def test_the_switches_reach_skips_and_stops():
    """So that the cases above show that processes decide alike."""
    metrics = [update(torch.float64, switches, range(6))["metrics"] for switches in SWITCHES]
    assert any(found["ratio/exploded"] for found in metrics)
    assert any(found["stopped_at_kl_target"] for found in metrics)


def test_weights_stay_equal_where_each_process_shuffles_by_itself(two_processes):
    first, second = (found["many"] for found in two_processes)
    assert first["metrics"]["updates"] == second["metrics"]["updates"] == 9.0
    assert torch.equal(first["parameters"], second["parameters"])


def test_a_stop_on_one_process_ends_the_update_on_all(two_processes):
    assert [found["stopped"]["metrics"]["updates"] for found in two_processes] == [2.0, 2.0]
