"""KL of answers and distance of weights, by hand."""

import numpy as np
import pytest
import torch

from agents.analysis.drift import answer_kl, mean_and_error, weight_distance


def test_kl_estimates_agree_with_the_exact_one_on_average():
    """Answers of two tokens from a table: both estimators are unbiased, k3 varies less."""
    rng = np.random.default_rng(0)
    policy, start = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.4, 0.2])
    exact = 2 * float(policy @ np.log(policy / start))
    drawn = rng.choice(3, p=policy, size=(20_000, 2))
    found = answer_kl(list(np.log(policy[drawn])), list(np.log(start[drawn])))
    for name in ("k1", "k3"):
        error = found[name].std() / np.sqrt(len(drawn))
        assert abs(found[name].mean() - exact) < 3 * error
    assert found["k3"].std() < 0.3 * found["k1"].std()
    assert found["k3"].min() >= 0


def test_the_error_is_over_problems_not_answers():
    """Ten answers to each of two problems, all answers to one the same."""
    mean, error = mean_and_error([0.0] * 10 + [2.0] * 10, 10)
    assert (mean, error) == (1.0, 1.0)
    assert np.isnan(mean_and_error([1.0, 2.0], 2)[1])


def test_distance_by_part_adds_up_to_the_whole():
    names = (
        "model.embed_tokens.weight",
        "model.layers.0.w",
        "model.layers.1.w",
        "model.norm.weight",
    )
    start = {name: torch.ones(4) for name in names}
    weights = {name: torch.ones(4) for name in names}
    weights["model.layers.0.w"] = torch.tensor([1.0, 1.0, 1.0, 4.0])
    weights["model.layers.1.w"] = torch.tensor([5.0, 1.0, 1.0, 1.0])
    found = weight_distance(weights, start)
    assert list(found) == ["all", "embeddings", "layer 0", "layer 1", "final norm"]
    assert found["layer 0"] == {"l2": 3.0, "relative": 1.5, "largest": 3.0, "changed": 0.25}
    assert found["all"]["l2"] == pytest.approx(5.0)
    assert found["all"]["relative"] == pytest.approx(5.0 / 4.0)
    assert found["all"]["largest"] == 4.0
    assert found["embeddings"]["changed"] == 0.0


def test_layers_come_by_number():
    names = [f"model.layers.{number}.w" for number in (10, 2, 0)]
    found = weight_distance({n: torch.ones(1) for n in names}, {n: torch.ones(1) for n in names})
    assert list(found) == ["all", "layer 0", "layer 2", "layer 10"]


@pytest.mark.parametrize("other", [{"a": torch.ones(2)}, {"b": torch.ones(3)}])
def test_another_model_is_refused(other):
    with pytest.raises(ValueError, match=r"not the same model as the start.*--reference"):
        weight_distance({"a": torch.ones(3)}, other)


def test_a_part_that_starts_at_zero_has_no_relative_distance():
    found = weight_distance({"head.w": torch.ones(1)}, {"head.w": torch.zeros(1)})
    assert found["head"]["relative"] is None
