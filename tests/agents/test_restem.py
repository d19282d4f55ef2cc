"""RestEM: what is imitated, that its step is that of the log-likelihood, and from what start."""

import numpy as np
import pytest
import torch
from commands import SMALL, collected, flags, metrics_of

from agents.core.packing import packed
from agents.restem import RestEM, RestEMConfig, kept_answers, main

RESTEM = SMALL | {"num_prompts": 8, "max_new_tokens": 80, "updates_per_batch": 1}


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    settings = RESTEM | {"minibatch_size": 64, "warmup_ratio": 0.0, "max_grad_norm": 1e9}
    return RestEM(RestEMConfig(**settings, dtype="float64"), tmp_path_factory.mktemp("restem"))


def test_right_answers_are_kept_once_each_and_so_many():
    rewards, texts = [0, 1, 1, 1, 1, 0, 0, 0], [[1], [2], [2], [3], [4], [5], [6], [7]]
    assert kept_answers(rewards, texts, 4, 2) == [False, True, False, True, *[True], *[False] * 3]
    assert kept_answers(rewards, texts, 4, 1) == [False, True, False, False, True, *[False] * 3]


def _parameters(agent):
    return torch.cat([p.detach().flatten() for p in agent.policy.parameters()])


def test_a_step_follows_the_log_likelihood_of_the_kept_answers(agent):
    trajectories, credit = collected(agent)
    kept = [t for t, a in zip(trajectories, credit.tokens, strict=True) if a[0] > 0]
    assert 0 < len(kept) < len(trajectories)
    assert credit.metrics["restem/kept"] == len(kept)
    prompts, answers = [t.start.tokens for t in kept], [t.response for t in kept]
    loss = 0.0
    for row in range(len(kept)):
        batch = packed(prompts, answers, [[row]], agent.policy.device)
        loss = loss - agent.policy(batch, 1.0).log_probs.mean() / len(kept)
    agent.policy.zero_grad()
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in agent.policy.parameters()])
    agent.policy.zero_grad()

    seen = []
    step = agent.updater._step

    def caught(*arguments):
        seen.append(torch.cat([p.grad.flatten() for p in agent.policy.parameters()]))
        return step(*arguments)

    from agents.core.credit import batch_of

    batch = batch_of(trajectories, credit.tokens, agent.config)
    agent.updater._step = caught
    metrics = agent.update(batch, 1, lambda *_: None, lambda: False)
    (found,) = seen
    assert (found - expected).norm() <= 1e-9 * expected.norm()
    assert metrics["loss"] == pytest.approx(float(loss.detach()))
    assert not any("logp" in name for name in metrics)


def test_each_round_begins_where_the_first_began(agent):
    """Two rounds on the same answers end with the same weights."""
    from agents.core.credit import batch_of

    trajectories, credit = collected(agent)
    batch = batch_of(trajectories, credit.tokens, agent.config)
    ends = []
    for _ in range(2):
        agent.update(batch, 1, lambda *_: None, lambda: False)
        agent.updater.forget()
        ends.append(_parameters(agent))
    assert torch.equal(*ends)


def test_without_a_right_answer_the_start_comes_back(agent):
    from agents.core.credit import batch_of

    trajectories, credit = collected(agent)
    nothing = [np.zeros_like(row) for row in credit.tokens]
    agent.update(batch_of(trajectories, nothing, agent.config), 1, lambda *_: None, lambda: False)
    base = torch.cat([agent.updater._base[n].flatten() for n, _ in
                      agent.policy.model.named_parameters()])  # fmt: skip
    assert torch.equal(_parameters(agent), base)


def test_the_command_runs(tmp_path):
    assert main(flags(RESTEM, output_dir=tmp_path / "run")) == 0
    for line in metrics_of(tmp_path / "run"):
        assert 0 < line["restem/kept"] <= 32
        assert line["loss"] > 0


@pytest.mark.parametrize(("name", "value"), [("beta", 0.1), ("whiten", "std"), ("max_ratio", 2.0)])
def test_switches_of_policy_gradients_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}={value} does not go with restem"):
        RestEMConfig(**{name: value})
