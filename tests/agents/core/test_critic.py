"""The critic: values and losses against plain computations; batching changes nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from updates import CONFIG, flat_parameters, small_batch, with_sgd

from agents.core.critic import Critic, CriticConfig, CriticTrainer, ValueHead, explained_variance
from agents.core.objective import ValueTerm
from agents.core.update import Updater

OPTIONS = CriticConfig()


def _critic_batch(policy):
    batch, rng = small_batch(policy), np.random.default_rng(5)
    batch.returns = [rng.normal(size=len(row)) for row in batch.responses]
    batch.values = [rng.normal(size=len(row)) for row in batch.responses]
    return batch


def _sgd(trainer):
    trainer.optimizer = torch.optim.SGD(trainer.critic.parameters(), lr=0.1)
    trainer.scheduler = torch.optim.lr_scheduler.LambdaLR(trainer.optimizer, lambda step: 1.0)
    return trainer


def test_values_are_those_of_the_state_before_each_token(make_policy):
    policy = make_policy()
    critic = Critic.apart(policy, seed=3)
    batch = _critic_batch(policy)
    said = CriticTrainer(critic, CONFIG, OPTIONS).values(batch)
    for row, (prompt, response) in enumerate(zip(batch.prompts, batch.responses, strict=True)):
        with torch.no_grad():
            hidden = policy.model.model(torch.tensor([prompt + response]))[0][0]
        expected = critic.head.linear(hidden)[len(prompt) - 1 : -1, 0]
        np.testing.assert_allclose(said[row], expected.detach().numpy(), rtol=1e-9)


def test_the_head_starts_as_in_the_papers_code(make_policy):
    model = make_policy(torch.float32).model
    state = torch.random.get_rng_state()
    weights = torch.cat([ValueHead(model, seed).linear.weight[0] for seed in range(100)])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert weights.std().item() == pytest.approx(1 / math.sqrt(33), rel=0.05)
    assert ValueHead(model, 0).linear.bias.item() == 0.0
    assert torch.equal(ValueHead(model, 7).linear.weight, ValueHead(model, 7).linear.weight)


def test_a_critic_of_its_own_leaves_the_policy_alone(make_policy):
    policy = make_policy()
    before = flat_parameters(policy)
    batch = _critic_batch(policy)
    CriticTrainer(Critic.apart(policy, 0), CONFIG, OPTIONS).update(batch, np.random.default_rng(0))
    assert torch.equal(flat_parameters(policy), before)


@pytest.mark.parametrize("clip", [None, 0.2])
def test_the_critics_gradient_is_that_of_the_formula(make_policy, clip):
    policy = make_policy()
    critic, batch = Critic.apart(policy, 0), _critic_batch(policy)
    options = replace(OPTIONS, cliprange_value=clip)
    total = sum(map(len, batch.responses))
    loss = torch.zeros((), dtype=torch.float64)
    for row, (prompt, response) in enumerate(zip(batch.prompts, batch.responses, strict=True)):
        hidden = critic.trunk(torch.tensor([prompt + response]))[0][0]
        values = critic.head(hidden)[len(prompt) - 1 : -1, 0]
        for value, old, target in zip(values, batch.values[row], batch.returns[row], strict=True):
            term = (value - target) ** 2
            if clip is not None:
                near = min(max(value.item(), old - clip), old + clip)
                if (near - target) ** 2 > term.item():
                    term = torch.tensor((near - target) ** 2)
            loss = loss + term / 2 / total
    loss.backward()
    gradient = torch.cat([p.grad.flatten() for p in critic.parameters()])
    critic.zero_grad()
    before = flat_parameters(critic)
    metrics = _sgd(CriticTrainer(critic, CONFIG, options)).update(batch, np.random.default_rng(0))
    torch.testing.assert_close(
        flat_parameters(critic), before - 0.1 * gradient, rtol=1e-10, atol=1e-12
    )
    assert metrics["critic/vf_loss"] == pytest.approx(loss.item(), rel=1e-7)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_micro_batches_change_nothing(make_policy, dtype, bound):
    results = []
    for size in (6, 1, 2, 4):
        policy = make_policy(dtype)
        critic = Critic.apart(policy, 0)
        start = flat_parameters(critic)
        config = replace(CONFIG, micro_batch_size=size, updates_per_batch=2)
        _sgd(CriticTrainer(critic, config, OPTIONS)).update(
            _critic_batch(policy), np.random.default_rng(0)
        )
        results.append(flat_parameters(critic))
    for other in results[1:]:
        assert (other - results[0]).norm() <= bound * (results[0] - start).norm()


def test_a_critic_learns_the_returns(make_policy):
    policy = make_policy()
    trainer = CriticTrainer(Critic.apart(policy, 0), replace(CONFIG, updates_per_batch=60), OPTIONS)
    batch = _critic_batch(policy)
    batch.values = trainer.values(batch)
    before = explained_variance(batch.values, batch.returns)
    free = replace(OPTIONS, cliprange_value=None)
    CriticTrainer(trainer.critic, trainer.config, free).update(batch, np.random.default_rng(0))
    after = explained_variance(trainer.values(batch), batch.returns)
    assert before < 0.5 < after


def test_a_shared_critic_adds_its_loss_to_the_policys(make_policy):
    """One pass, one step: the gradients of policy loss and coefficient * value loss add up."""
    gradients = {}
    for name, coefficient, silent in (("both", 0.7, False), ("value", 0.7, True)):
        policy = make_policy()
        batch = _critic_batch(policy)
        if silent:
            batch.in_policy_loss = [False] * 6
        head = ValueHead(policy.model, 0)
        config = replace(CONFIG, beta=0.0)
        updater = with_sgd(Updater(policy, None, config, value=ValueTerm(head, coefficient, 0.2)))
        start = torch.cat([flat_parameters(policy), flat_parameters(head)])
        shared = Critic(policy.model.base_model, head, frozen_trunk=True)
        said = CriticTrainer(shared, config, OPTIONS).values(batch)
        metrics = updater.update(batch, np.random.default_rng(0))
        end = torch.cat([flat_parameters(policy), flat_parameters(head)])
        gradients[name] = start - end
    policy = make_policy()
    with_sgd(Updater(policy, None, config)).update(_critic_batch(policy), np.random.default_rng(0))
    alone = flat_parameters(make_policy()) - flat_parameters(policy)
    alone = torch.cat([alone, torch.zeros(len(start) - len(alone))])
    # Not to 1e-10: Llama's norm layers compute in float32, where a sum of gradients is rounded.
    error = (gradients["both"] - gradients["value"] - alone).norm()
    assert error <= 1e-6 * gradients["both"].norm()
    assert gradients["value"].norm() > 0.01
    errors = [(v - r) ** 2 / 2 for v, r in zip(said, batch.returns, strict=True)]
    assert metrics["critic/vf_loss"] >= np.concatenate(errors).mean() - 1e-9


def test_a_shared_head_has_a_learning_rate_of_its_own(make_policy):
    policy = make_policy()
    value = ValueTerm(ValueHead(policy.model, 0), 1.0, None)
    updater = Updater(policy, None, CONFIG, value=value, value_learning_rate=0.5)
    assert [group["lr"] for group in updater.optimizer.param_groups] == [CONFIG.learning_rate, 0.5]


def test_explained_variance_by_hand():
    returns = [np.array([0.0, 2.0]), np.array([4.0])]
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance([np.array([1.0, 1.0]), np.array([1.0])], returns) == 0.0
    values = [np.array([1.0, 2.0]), np.array([3.0])]  # errors -1, 0, 1 against 0, 2, 4
    assert explained_variance(values, returns) == pytest.approx(0.75)
    assert math.isnan(explained_variance(values, [np.ones(2), np.ones(1)]))


def test_a_head_on_the_policys_trunk_is_trained_alone(make_policy):
    policy = make_policy()
    batch, before = _critic_batch(policy), flat_parameters(policy)
    critic = Critic(policy.model.base_model, ValueHead(policy.model, 0), frozen_trunk=True)
    head = flat_parameters(critic.head)
    CriticTrainer(critic, CONFIG, OPTIONS).update(batch, np.random.default_rng(0))
    assert torch.equal(flat_parameters(policy), before)
    assert not torch.equal(flat_parameters(critic.head), head)
    assert all(p.grad is None for p in policy.parameters()), "nothing left for the policy's step"
