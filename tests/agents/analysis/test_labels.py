"""Process labels: what a line says, against an MDP whose values are known."""

import json
import math

import pytest
from toy import PROMPT, ToyEngine, ToyEnv, exact_value, finished, reward_of

from agents.analysis.__main__ import main
from agents.analysis.labels import step_labels
from agents.analysis.states import sample_states
from agents.core.rollout import Sampler, start_of
from agents.core.values import monte_carlo_values


class Letters:
    eos_token_id = 0

    def decode(self, tokens):
        return "".join("xyz"[token] for token in tokens)


@pytest.mark.parametrize("reuse", [True, False])
def test_labels_are_the_values_behind_the_steps(reuse):
    sampler = Sampler(ToyEngine(), ToyEnv(), 3, 1.0)
    states = sample_states(sampler, [start_of(sampler.env, s, index=s) for s in range(2)], 4)
    answers = [answer for group in states.groups for answer in group]
    pool = monte_carlo_values(sampler, answers, 300, iteration=0, reuse=reuse).pool
    lines = list(step_labels(answers, pool, Letters()))
    for line in lines:
        response = (*line["prefix_ids"][len(PROMPT) :], *line["step_ids"])
        assert line["exact"] == finished(response)
        assert line["text"] == Letters().decode(line["step_ids"])
        assert line["prefix"] == Letters().decode(line["prefix_ids"])
        if line["exact"]:
            assert (line["value"], line["n"]) == (reward_of(response), 1)
        else:
            assert line["n"] >= 300
            assert abs(line["value"] - exact_value(response)) < 4 * math.sqrt(0.25 / 300)
    distinct = {(a.start.slot, *a.response[: b + 1]) for a in answers for b in a.borders}
    assert len(lines) == len(distinct), "a step that two answers share has one label"


def test_from_the_command_line(tmp_path, capsys):
    argv = ["labels", "--num_problems", "2", "--num_generations", "2", "--num_rollouts", "2",
            "--output", str(tmp_path)]  # fmt: skip
    assert main(argv) == 0
    shown = capsys.readouterr().out
    lines = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert shown.startswith(f"labels: {len(lines)} steps in ")
    assert {line["split"] for line in lines} == {"validation"}
    assert all(0 <= line["value"] <= 1 and line["n"] >= 1 for line in lines)
    firsts = [line for line in lines if line["step"] == 0]
    assert len({line["problem_id"] for line in firsts}) == 2
    assert all(line["prefix"].rstrip().endswith("?") for line in firsts), "the prompt alone"
    summary = json.loads((tmp_path / "labels.json").read_text())["results"]
    assert summary["sets"][0]["labels"] == len(lines)
    assert (tmp_path / "labels.png").exists()
