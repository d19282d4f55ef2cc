"""RLOO: the command, its advantages from sampled answers, and what it refuses."""

import numpy as np
import pytest
from commands import SMALL, collected, flags, metrics_of

from agents.core.update import Updater
from agents.rloo import RLOO, RLOOConfig, main


def test_the_command_runs_and_repeats_itself(tmp_path):
    for name in ("first", "again"):
        assert main(flags(SMALL, output_dir=tmp_path / name)) == 0
    first = metrics_of(tmp_path / "first")
    assert first == metrics_of(tmp_path / "again")
    assert first[0]["ratio/max"] >= 1.0
    assert first[0]["updates"] == 2 * len(first) / 2
    assert first[0]["sampling/sampling_logp_difference/max"] < 1e-3


def test_advantages_are_leave_one_out(tmp_path):
    agent = RLOO(RLOOConfig(**SMALL, beta=0.0), tmp_path)
    trajectories, credit = collected(agent)
    rewards = [t.reward for t in trajectories]
    assert 0 < sum(rewards) < len(rewards), "the seed gives a mixed batch"
    for row, (trajectory, tokens) in enumerate(zip(trajectories, credit.tokens, strict=True)):
        group = range(row // 4 * 4, row // 4 * 4 + 4)
        others = [rewards[other] for other in group if other != row]
        assert len(tokens) == len(trajectory.response)
        np.testing.assert_allclose(tokens, trajectory.reward - np.mean(others))


def test_the_kl_of_the_reward_is_part_of_each_answers_return(tmp_path):
    agent = RLOO(RLOOConfig(**SMALL, beta=0.5), tmp_path)
    for parameter in agent.policy.parameters():
        if parameter.ndim > 1:
            parameter.data *= 1.05  # moves the policy away from the reference
    trajectories = agent.collect(1, lambda *_: None)
    rewards, metrics = agent.token_rewards(trajectories)
    credit = agent.advantages(trajectories, 1, lambda *_: None)
    new = _log_probs(agent.updater, agent.policy, trajectories)
    old = _log_probs(agent.updater, agent.updater.reference, trajectories)
    returns = []
    for trajectory, row, p, q in zip(trajectories, rewards, new, old, strict=True):
        expected = -0.5 * (p - q)
        expected[-1] += trajectory.reward
        np.testing.assert_allclose(row, expected, rtol=1e-6, atol=1e-7)
        returns.append(expected.sum())
    assert metrics["kl"] == pytest.approx(np.concatenate(new).mean() - np.concatenate(old).mean())
    assert abs(metrics["kl"]) > 1e-4
    first = returns[0] - np.mean(returns[1:4])
    np.testing.assert_allclose(credit.tokens[0], first, rtol=1e-5)


def _log_probs(updater: Updater, policy, trajectories):
    from agents.core.credit import batch_of

    return updater.log_probs(policy, batch_of(trajectories, [], updater.config))


def test_the_defaults_are_the_papers():
    config = RLOOConfig()
    assert (config.beta, config.kl_in, config.kl_estimator) == (3e-3, "reward", "k1")
    assert (config.ratio_level, config.aggregation) == ("product", "sequence_mean")
    assert (config.num_prompts, config.num_generations, config.whiten) == (64, 8, "none")


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"num_generations": 1}, "num_generations must be >= 2, got 1"),
        ({"truncated_answers": "bootstrap"}, "truncated_answers=bootstrap does not go with rloo"),
        ({"kl_in": "loss", "beta": 0.01}, "kl_estimator=k1 and kl_in=loss do not go together"),
        ({"kl_aggregation": "token_mean"}, "kl_in=reward and kl_aggregation=token_mean do not go"),
    ],
)
def test_what_does_not_go_together(switches, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(flags(SMALL | switches, output_dir=tmp_path / "run"))
    error = capsys.readouterr().err
    assert message in error
    assert not (tmp_path / "run").exists()
