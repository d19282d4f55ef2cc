"""GRPO: the command under its variants, its advantages, and the rows that count."""

from dataclasses import replace

import numpy as np
import pytest
from commands import SMALL, collected, flags, metrics_of

from agents.core.credit import batch_of, sample_groups
from agents.core.envs import ProblemCursor
from agents.grpo import GRPO, GRPOConfig, main
from agents.vineppo import VinePPO, VinePPOConfig


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    return GRPO(GRPOConfig(**SMALL), tmp_path_factory.mktemp("grpo"))


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"scale_rewards": "none", "aggregation": "sum_constant"},
        {"epsilon_high": 0.28, "truncated_answers": "mask", "zero_spread": "resample", "beta": 0.0},
        {"ratio_level": "sequence", "aggregation": "sequence_mean", "epsilon": 3e-4,
         "epsilon_high": 4e-4},
        {"kl_estimator": "full", "entropy_coef": 0.01, "target_kl": 0.1},
        {"top_p": 0.9, "top_p_correction": "renormalise", "importance_sampling_cap": 2.0},
    ],
    ids=["default", "dr_grpo", "dapo", "gspo", "full_kl", "top_p"],
)  # fmt: skip
def test_the_command_runs(variant, tmp_path):
    assert main(flags(SMALL | variant, output_dir=tmp_path / "run")) == 0
    lines = metrics_of(tmp_path / "run")
    assert [line["iteration"] for line in lines] == [1, 2]
    # The passes of one iteration move the ratio; the engine and the trainer agree all the same.
    assert lines[0]["sampling/sampling_logp_difference/max"] < 1e-3
    assert lines[0]["policy_kl"] < 1e-2


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_advantages_are_relative_to_the_group(agent, scale):
    agent.config = replace(agent.config, scale_rewards=scale)
    trajectories, credit = collected(agent)
    rewards = np.array([t.reward for t in trajectories]).reshape(4, 4)
    assert 0 < rewards.sum() < rewards.size, "the seed gives a mixed batch"
    for row, tokens in enumerate(credit.tokens):
        group = rewards[row // 4]
        over = {"group": group.std(ddof=1) + 1e-4, "batch": rewards.std(ddof=1) + 1e-4, "none": 1}
        expected = (rewards.ravel()[row] - group.mean()) / over[scale]
        assert len(tokens) == len(trajectories[row].response)
        np.testing.assert_allclose(tokens, expected)


@pytest.mark.parametrize("holds", [True, False])
def test_groups_without_spread_may_be_skipped(agent, holds):
    trajectories, credit = collected(agent)
    for trajectory, reward in zip(trajectories, [1, 1, 1, 1, 0, 1, 0, 1] * 2, strict=True):
        trajectory.reward = float(reward)
    config = replace(agent.config, zero_spread="skip", zero_spread_kl=holds)
    batch = batch_of(trajectories, credit.tokens, config)
    assert batch.in_policy_loss == ([False] * 4 + [True] * 4) * 2
    assert batch.in_kl == ([holds] * 4 + [True] * 4) * 2
    kept = batch_of(trajectories, credit.tokens, agent.config)
    assert all(kept.in_policy_loss)


def test_groups_without_spread_may_be_replaced(agent):
    config = replace(agent.config, zero_spread="resample", num_prompts=16)
    cursor = ProblemCursor(agent.env, 16, config.seed)
    first, _ = sample_groups(
        agent.sampler, cursor, replace(config, zero_spread="keep"), 1, lambda *_: None
    )
    groups, metrics = sample_groups(agent.sampler, cursor, config, 1, lambda *_: None)
    assert len({group[0].start.problem_id for group in groups}) == len(groups) == 16
    assert len({group[0].start.slot for group in groups}) == 16
    flat = [len({t.reward for t in group}) == 1 for group in first]
    assert 0 < sum(flat) < 16
    for before, now, replaced in zip(first, groups, flat, strict=True):
        same = [t.response for t in before] == [t.response for t in now]
        assert same is not replaced
    spread = [len({t.reward for t in group}) > 1 for group in groups]
    assert sum(spread) > 16 - sum(flat)
    assert metrics["resampled/groups"] >= sum(flat)
    assert metrics["resampled/tokens"] > 0
    flat_rows = batch_of([t for group in groups for t in group], [], config).in_policy_loss
    assert flat_rows == [kept for kept in spread for _ in range(4)]


def test_truncated_answers_may_be_masked(agent):
    trajectories, credit = collected(agent)
    for row, trajectory in enumerate(trajectories):
        trajectory.truncated = row in (2, 5)
    config = replace(agent.config, truncated_answers="mask")
    batch = batch_of(trajectories, credit.tokens, config)
    counts = [row not in (2, 5) for row in range(16)]
    assert batch.in_policy_loss == batch.in_kl == counts
    assert all(batch_of(trajectories, credit.tokens, agent.config).in_policy_loss)


def test_the_defaults_are_the_papers():
    config = GRPOConfig()
    assert (config.beta, config.kl_in, config.scale_rewards) == (3e-3, "loss", "group")
    assert (config.epsilon, config.updates_per_batch, config.minibatch_size) == (0.2, 2, 64)


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"kl_in": "reward"}, r"kl_in=reward does not go with vineppo: .*Set --kl_in loss"),
        ({"ratio_level": "sequence"}, r"ratio_level=sequence does not .*Set --ratio_level token"),
        ({"ratio_level": "product"}, r"ratio_level=product does not .*Set --ratio_level token"),
        ({"truncated_answers": "bootstrap"}, r"no critic .*--truncated_answers keep or mask"),
    ],
)
def test_what_vineppo_cannot_honour_is_refused(switches, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        VinePPO(VinePPOConfig(**switches), tmp_path)


def test_a_group_of_one_cannot_be_skipped_for_its_spread():
    with pytest.raises(ValueError, match="zero_spread=skip and num_generations=1"):
        VinePPOConfig(zero_spread="skip", num_generations=1)


@pytest.mark.parametrize("how", ["skip", "resample"])
def test_values_from_siblings_of_groups_chosen_by_their_rewards_are_refused(how, tmp_path):
    with pytest.raises(ValueError, match=f"zero_spread={how} and reuse=true .*reuse to false"):
        VinePPOConfig(**SMALL, zero_spread=how)
    assert VinePPOConfig(zero_spread=how, reuse=False).zero_spread == how
    allowed = VinePPOConfig(**SMALL, zero_spread=how, allow_biased=True)
    with pytest.warns(UserWarning, match="the values are biased"):
        VinePPO(allowed, tmp_path)


def test_sampling_from_a_nucleus_without_correction_warns(tmp_path):
    with pytest.warns(UserWarning, match=r"top_p=0\.9 .* Set top_p to 1 or top_p_correction"):
        GRPO(GRPOConfig(**SMALL | {"top_p": 0.9}), tmp_path)
