"""PPO: the command with each critic, its advantages, warm-up and truncated answers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import SMALL, collected, flags, metrics_of
from safetensors.torch import save_file

from agents.core.credit import batch_of
from agents.core.critic import Critic, CriticTrainer
from agents.core.loading import load_policy
from agents.ppo import PPO, PPOConfig, main


@pytest.mark.parametrize("critic", ["separate", "shared", "constant"])
def test_the_command_runs_with_each_critic(critic, tmp_path):
    arguments = flags(SMALL, critic=critic, critic_warmup=1, beta=0.01)
    assert main([*arguments, "--output_dir", str(tmp_path / "run")]) == 0
    lines = metrics_of(tmp_path / "run")
    assert [line["iteration"] for line in lines] == [1, 2]
    assert all("critic/explained_variance" in line for line in lines)
    assert ("critic/vf_loss" in lines[0]) == (critic != "constant")
    assert ("entropy" in lines[0]) == (critic == "constant"), "the first only warms the critic up"
    assert lines[1]["sampling/sampling_logp_difference/max"] < 1e-3


@pytest.mark.parametrize("critic", ["separate", "shared", "constant"])
def test_with_lambda_1_advantages_are_rewards_minus_values(critic, tmp_path):
    agent = PPO(PPOConfig(**SMALL, critic=critic), tmp_path)
    trajectories, credit = collected(agent)
    for row, trajectory in enumerate(trajectories):
        values = credit.token_values[row]
        assert len(values) == len(trajectory.response)
        np.testing.assert_allclose(credit.tokens[row], trajectory.reward - values, atol=1e-9)
        np.testing.assert_allclose(credit.returns[row], trajectory.reward, atol=1e-9)
        if critic == "constant":
            assert set(values) == {0.5}


@pytest.mark.parametrize("critic", ["separate", "shared"])
def test_a_checkpoint_holds_the_critic(critic, tmp_path):
    agent = PPO(PPOConfig(**SMALL, critic=critic), tmp_path)
    trajectories, credit = collected(agent)
    batch = batch_of(trajectories, credit.tokens, agent.config)
    batch.returns, batch.values = credit.returns, credit.token_values
    agent.update(batch, 1, lambda *_: None, lambda: False)
    folder = agent.save({})
    policy = load_policy(str(folder), agent.env.tokenizer)
    again = CriticTrainer(Critic.loaded(folder, policy), agent.config, agent.config).values(batch)
    for mine, theirs in zip(agent.critic.values(batch), again, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_critic_that_is_missing_or_broken_is_named(tmp_path):
    agent = PPO(PPOConfig(**SMALL, critic="constant"), tmp_path)
    folder = agent.save({})
    with pytest.raises(ValueError, match="holds no critic"):
        Critic.loaded(folder, agent.policy)
    (folder / "critic.safetensors").write_bytes(b"no weights")
    with pytest.raises(ValueError, match="does not fit its policy"):
        Critic.loaded(folder, agent.policy)
    save_file({"linear.weight": torch.zeros(1, 3)}, folder / "critic.safetensors")
    with pytest.raises(ValueError, match="does not fit its policy"):
        Critic.loaded(folder, agent.policy)


def test_truncated_answers_may_bootstrap(tmp_path):
    agent = PPO(PPOConfig(**SMALL, truncated_answers="bootstrap"), tmp_path)
    trajectories = agent.collect(1, lambda *_: None)
    for trajectory in trajectories:
        trajectory.truncated, trajectory.reward = False, 0.0
    cut = trajectories[0]
    cut.truncated = True
    credit = agent.advantages(trajectories, 1, lambda *_: None)
    longer = batch_of(trajectories, [], agent.config)
    longer.responses = [[*row, 5] for row in longer.responses]  # whatever token comes next
    said = agent.critic.values(longer)
    np.testing.assert_allclose(credit.returns[0], said[0][-1], rtol=1e-4)
    np.testing.assert_allclose(credit.returns[1], 0.0, atol=1e-6)


def test_rewards_of_the_kl_reach_the_tokens(tmp_path):
    agent = PPO(PPOConfig(**SMALL, kl_in="reward", beta=0.5, critic="constant"), tmp_path)
    for parameter in agent.policy.parameters():
        if parameter.ndim > 1:
            parameter.data *= 1.05
    trajectories, credit = collected(agent)
    rewards, _ = agent.token_rewards(trajectories)
    expected = rewards[0][::-1].cumsum()[::-1]
    np.testing.assert_allclose(credit.returns[0], expected, rtol=1e-5, atol=1e-7)
    assert len(set(expected.round(6))) > 1


@pytest.mark.parametrize("critic", ["separate", "shared"])
def test_the_warm_up_trains_the_critic_alone(critic, tmp_path):
    agent = PPO(PPOConfig(**SMALL, critic=critic, critic_warmup=1), tmp_path)
    trajectories, credit = collected(agent)
    batch = batch_of(trajectories, credit.tokens, agent.config)
    batch.returns, batch.values = credit.returns, credit.token_values
    policy, head = _flat(agent.policy), _flat(agent.critic.critic.head)
    assert agent.update(batch, 1, lambda *_: None, lambda: False)["updates"] == 0.0
    assert torch.equal(_flat(agent.policy), policy)
    assert not torch.equal(_flat(agent.critic.critic.head), head)
    assert agent.update(batch, 2, lambda *_: None, lambda: False)["updates"] == 4.0
    assert not torch.equal(_flat(agent.policy), policy)


def _flat(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def test_the_defaults_are_the_papers():
    config = PPOConfig()
    assert (config.gamma, config.gae_lambda, config.cliprange_value) == (1.0, 1.0, 0.2)
    assert (config.critic, config.whiten, config.beta) == ("separate", "mean_std", 1e-4)
    assert replace(config, critic="constant").critic_constant == 0.5


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"ratio_level": "sequence"}, "ratio_level=sequence does not go with ppo"),
        (
            {"critic": "constant", "truncated_answers": "bootstrap"},
            "truncated_answers=bootstrap and critic=constant do not go together",
        ),
    ],
)
def test_what_does_not_go_together(switches, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(flags(SMALL | switches, output_dir=tmp_path / "run"))
    assert message in capsys.readouterr().err
