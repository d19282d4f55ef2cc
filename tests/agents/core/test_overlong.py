"""The overlong penalty: by hand, beside TRL's, in answers and in the values of restored states."""

from dataclasses import replace

import numpy as np
import pytest
from commands import SMALL, collected, flags, metrics_of
from toy import DEPTH, PROMPT, ToyEngine, ToyEnv, by_levels, probabilities, reward_of
from trl.rewards import get_soft_overlong_punishment

from agents.analysis.choices import outcomes
from agents.core.advantages import stepwise_advantages
from agents.core.credit import batch_of
from agents.core.evaluation import success_of
from agents.core.overlong import OverlongPenalty
from agents.core.rollout import Sampler, mark_states, start_of
from agents.core.values import monte_carlo_values
from agents.engines.base import Completion
from agents.grpo import GRPO, GRPOConfig
from agents.ppo import PPOConfig
from agents.vineppo import VinePPO, VinePPOConfig, main

BY_LENGTH = {1: 0.0, 2: -0.25, 3: -0.5}
"""Of answers of 1, 2 or 3 tokens: budget 3, the last two of them the buffer, factor 0.5."""
PENALTY = OverlongPenalty(2, 0.5)


def test_it_is_trls():
    budget, buffer = 20, 8
    theirs = get_soft_overlong_punishment(budget, buffer)
    lengths = range(1, budget + 1)
    ours = [OverlongPenalty(buffer).of(budget - length) for length in lengths]
    assert ours == theirs([[1] * length for length in lengths])
    assert ours[11:13] == [0.0, -0.125]
    assert ours[-1] == -1.0


def _toy_rows(seed=0):
    env = ToyEnv()
    sampler = Sampler(ToyEngine(), env, seed, 1.0, overlong=PENALTY)
    rows = sampler.sample([start_of(env, 0)], 30, iteration=1, purpose="rollout")[0]
    return sampler, rows


def test_an_answer_pays_by_its_length_and_its_score_stays():
    _, rows = _toy_rows()
    assert {len(row.response) for row in rows} == {1, 2, 3}
    for row in rows:
        penalty = BY_LENGTH[len(row.response)]
        assert (row.penalty, row.reward) == (penalty, reward_of(row.response) + penalty)
        assert success_of(row) == reward_of(row.response), "accuracy knows nothing of it"


def test_a_rollout_pays_as_the_whole_answer_would():
    """Each sample of each state is worth what the answer from the prompt on would have got."""
    sampler, rows = _toy_rows()
    seen = set()
    for row in rows:
        mark_states(sampler.env, row)
        for border, state in zip(row.borders, row.states, strict=True):
            start = replace(row.start, snapshot=state, budget=row.start.budget - border)
            start.tokens = row.start.tokens + row.response[:border]
            for more in sampler.sample([start], 5, iteration=1, purpose="value")[0]:
                whole = row.response[:border] + more.response
                assert more.reward == reward_of(whole) + BY_LENGTH[len(whole)]
                seen.add((border, len(whole)))
    assert {(1, 2), (2, 3)} <= seen


class ChoosingEngine:
    """Samples 0 (which ends an answer) or 1 through a chooser; may continue states in a sweep."""

    def __init__(self, chooser, sweeps):
        self.chooser, self.sweeps = chooser, sweeps

    def can_sweep(self):
        return self.sweeps

    def sweep(self, prompts, trees, sampling):
        return by_levels(self, prompts, trees, sampling)

    def sync_weights(self, model):
        pass

    def generate(self, prompts, sampling):
        pairs = zip(prompts, sampling.streams, strict=True)
        return [[self._continue(tuple(p[len(PROMPT) :])) for _ in keys] for p, keys in pairs]

    def _continue(self, prefix):
        tokens = []
        while len(prefix) + len(tokens) < DEPTH and 0 not in tokens:
            tokens.append(self.chooser.choose(_chances((*prefix, *tokens))))
        return Completion(tokens, [0.0] * len(tokens), "length" if tokens[-1] else "stop_token")


ANSWERS = [(0,), (1, 0), (1, 1, 0), (1, 1, 1)]


def _chances(prefix):
    zero, one, _ = probabilities(prefix)
    return zero / (zero + one), one / (zero + one)


def _score(prefix, token):
    """Gradient of log pi with respect to the logit of 1 after each prefix, which is all ones."""
    gradient = np.zeros(DEPTH)
    gradient[len(prefix)] = token - _chances(prefix)[1]
    return gradient


@pytest.mark.parametrize(("reuse", "sweeps"), [(False, False), (True, False), (True, True)])
def test_values_and_gradient_contain_it_exactly(reuse, sweeps):
    """Every joint outcome is enumerated: V and its gradient are those of score plus penalty."""
    env = ToyEnv()

    def run(chooser):
        sampler = Sampler(ChoosingEngine(chooser, sweeps), env, 0, 1.0, overlong=PENALTY)
        rows = sampler.sample([start_of(env, 0)], 2, iteration=1, purpose="x")[0]
        for row in rows:
            mark_states(env, row)
        estimates = monte_carlo_values(sampler, rows, 1, iteration=1, reuse=reuse)
        gradient = 0.0
        for row, values in zip(rows, estimates.values, strict=True):
            numbers = stepwise_advantages(row.borders, len(row.response), values, row.reward)
            steps = enumerate(row.response)
            gradient += sum(numbers[t] * _score(row.response[:t], token) for t, token in steps) / 2
        return np.append(gradient, estimates.values[0][0])

    found = sum(chance * result for chance, result in outcomes(run))
    chances = {
        answer: np.prod([_chances(answer[:t])[token] for t, token in enumerate(answer)])
        for answer in ANSWERS
    }
    worth = {answer: reward_of(answer) + BY_LENGTH[len(answer)] for answer in ANSWERS}
    value = sum(chances[answer] * worth[answer] for answer in ANSWERS)
    gradient = sum(
        chances[answer] * worth[answer] * _score(answer[:t], token)
        for answer in ANSWERS
        for t, token in enumerate(answer)
    )
    np.testing.assert_allclose(found, np.append(gradient, value), atol=1e-12)
    assert abs(value - sum(chances[answer] * reward_of(answer) for answer in ANSWERS)) > 0.05


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A VinePPO run whose budget of 40 tokens is all buffer, so that each answer pays."""
    folder = tmp_path_factory.mktemp("runs") / "overlong"
    settings = flags(SMALL, max_new_tokens=40, num_rollouts=2)
    penalty = ["--soft_punish_cache", "40", "--overlong_buffer_penalty_factor", "0.5"]
    assert main([*settings, *penalty, "--output_dir", str(folder)]) == 0
    return folder


def test_the_command_takes_it_and_logs_it_apart_from_accuracy(run):
    for line in metrics_of(run):
        assert line["rewards/overlong/mean"] < 0
        score = line["reward"] - line["rewards/overlong/mean"]
        assert score == pytest.approx(line["accuracy"]), "the rest is the environment's score"
        assert line["vine/value_mean"] < line["accuracy"]


def test_a_truncated_answer_pays_all_and_mask_leaves_it_out(tmp_path):
    settings = SMALL | {"max_new_tokens": 12, "overlong_buffer_len": 5}
    agent = GRPO(GRPOConfig(**settings, truncated_answers="mask"), tmp_path)
    trajectories, credit = collected(agent)
    cut = [trajectory.truncated for trajectory in trajectories]
    assert any(cut)
    for trajectory in trajectories:
        if trajectory.truncated:
            assert (trajectory.reward, trajectory.info["score"]) == (-1.0, 0.0)
    batch = batch_of(trajectories, credit.tokens, agent.config)
    assert batch.in_policy_loss == [not truncated for truncated in cut]
    kept = replace(agent.config, truncated_answers="keep")
    assert all(batch_of(trajectories, credit.tokens, kept).in_policy_loss)
    rewards, _ = agent.token_rewards(trajectories)
    assert [row[-1] for row in rewards] == [trajectory.reward for trajectory in trajectories]


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"bootstrap do not go together: .*keep or mask"):
        PPOConfig(overlong_buffer_len=4, truncated_answers="bootstrap")
    with pytest.raises(ValueError, match=r"at most the answer budget, 8 tokens, got 9\. Lower"):
        VinePPO(VinePPOConfig(**SMALL, max_new_tokens=8, overlong_buffer_len=9), tmp_path)
