"""Our models as tianshou's actor and critic; its stock algorithms and Collector learn with them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tianshou.algorithm import PPO, Reinforce
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams

from agents.adapters.tianshou import BudgetEnds, CausalLMActor, CausalLMCritic
from agents.core.loading import new_policy
from agents.core.policy import Sequences
from lang_env import Problem
from lang_env.env import TokenEnv
from lang_env.tokenizers import character_tokenizer

CPU = torch.device("cpu")


def observation(rows, width):
    """Returns a Batch of right-padded rows; the padding is an id that must not matter."""
    tokens = np.full((len(rows), width), 7, np.int32)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = row
    return Batch(tokens=tokens, length=np.array([[len(row)] for row in rows], np.int32))


def test_logits_are_the_policys_whatever_the_padding(make_policy):
    policy = make_policy(torch.float32)
    rows, temperature = [[1, 2, 3], [4], [5, 6]], 0.7
    logits, state = CausalLMActor(policy, temperature)(observation(rows, 9), state="kept")
    assert logits.shape == (3, policy.vocab_size)
    assert state == "kept"
    chosen = [8, 9, 10]
    batch = Sequences.of(rows, [[token] for token in chosen], CPU)
    expected = policy(batch, temperature).log_probs[:, 0]
    found = torch.log_softmax(logits, -1)[torch.arange(3), chosen]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    wider, _ = CausalLMActor(policy, temperature)(observation(rows, 20))
    torch.testing.assert_close(wider, logits, atol=1e-5, rtol=0)


def test_a_critic_reads_the_last_token_and_can_share_the_trunk(make_policy):
    policy = make_policy(torch.float32)
    critic = CausalLMCritic(policy, seed=1)
    values = critic(observation([[1, 2, 3], [1, 2, 4]], 5))
    assert values.shape == (2, 1)
    assert values[0] != values[1]
    torch.testing.assert_close(critic(observation([[1, 2, 3]], 3)), values[:1], atol=1e-5, rtol=0)
    shared = {id(weight) for weight in CausalLMActor(policy).parameters()}
    assert len({id(weight) for weight in critic.parameters()} - shared) == 2


def test_what_cannot_work_is_refused(make_policy):
    policy = make_policy(torch.float32)
    with pytest.raises(ValueError, match="temperature must be > 0, got 0"):
        CausalLMActor(policy, 0)
    empty = SimpleNamespace(tokens=np.zeros((1, 4), np.int32), length=np.array([[0]], np.int32))
    with pytest.raises(ValueError, match=r"length 0 .* BOS"):
        CausalLMActor(policy)(empty)


def one_letter(completion, answer):
    return float(completion == answer)


def make_env():
    env = TokenEnv(
        [Problem("ab", "a", "b"), Problem("ba", "b", "a")],
        tokenizer=character_tokenizer("ab\n"),
        grader=one_letter,
        max_prompt_tokens=2,
        max_new_tokens=2,
    )
    return BudgetEnds(env)


def make_model(seed):
    sizes = {"hidden_size": 32, "intermediate_size": 32, "max_position_embeddings": 8}
    heads = {"num_hidden_layers": 1, "num_attention_heads": 2}
    return new_policy(sizes | heads, character_tokenizer("ab\n"), seed=seed, device="cpu")


def test_the_budget_ends_an_episode_for_good():
    env = make_env()
    env.reset(seed=0)
    ends = [env.step(2)[1:4] for _ in range(2)]
    assert ends == [(0.0, False, False), (0.0, True, False)]


@pytest.mark.parametrize("name", ["ppo", "reinforce"])
def test_stock_algorithms_learn(name):
    """Say the other letter, then stop: 1 in 25 for a policy that knows nothing."""
    torch.manual_seed(0)
    np.random.seed(0)  # tianshou draws from the global states
    env = make_env()
    envs = DummyVectorEnv([make_env for _ in range(32)])
    envs.seed(0)
    actor = DiscreteActorPolicy(actor=CausalLMActor(make_model(0)), action_space=env.action_space)
    optim = AdamOptimizerFactory(lr=1e-2)
    if name == "ppo":
        critic = CausalLMCritic(make_model(1))
        algorithm = PPO(policy=actor, critic=critic, optim=optim, gamma=1.0, max_grad_norm=1.0)
    else:
        algorithm = Reinforce(policy=actor, optim=optim, gamma=1.0)
    collector = Collector[CollectStats](algorithm, envs, VectorReplayBuffer(256, 32))
    params = OnPolicyTrainerParams(
        training_collector=collector,
        max_epochs=12,
        epoch_num_steps=1,
        collection_step_num_env_steps=None,
        collection_step_num_episodes=64,
        batch_size=64,
        update_step_num_repetitions=2,
        verbose=False,
        show_progress=False,
    )
    before = collector.collect(n_episode=64, reset_before_collect=True).returns.mean()
    collector.reset()
    algorithm.run_training(params)
    after = collector.collect(n_episode=64, reset_before_collect=True).returns.mean()
    assert before < 0.3
    assert after > before + 0.3
