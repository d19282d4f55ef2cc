"""The analyses of gradients, advantages, distance and diversity, through their command lines."""

import json

import numpy as np
import pytest
from commands import flags

from agents.analysis.__main__ import main

QUICK = {"num_problems": 3, "threads": 1, "max_new_tokens": 80}


def results_of(name, folder, **more):
    assert main([name, *flags(QUICK | {"output_dir": folder}, **more)]) == 0
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    return json.loads((folder / f"{name}.json").read_text())["results"]


def checkpoints(results):
    (subject,) = results["subjects"]
    assert [row["iteration"] for row in subject["checkpoints"]] == [0, 1, 2]
    return subject["checkpoints"]


def test_gradient(tmp_path, capsys):
    more = {"reference_problems": 16, "num_prompts": 4, "num_generations": 2, "critic_problems": 4}
    argv = flags(QUICK | {"output_dir": tmp_path} | more | {"num_problems": 4})
    assert main(["gradient", *argv, "--estimators", "grpo", "ppo", "reuse:1", "paper:2"]) == 0
    results = json.loads((tmp_path / "gradient.json").read_text())["results"]
    (table,) = results["policies"]
    entries = {entry["name"]: entry for entry in table["estimators"]}
    assert list(entries) == ["rloo", "grpo", "ppo", "reuse:1", "paper:2"]
    assert table["groups"] == 4 and table["signal"]["groups"] == 16
    assert entries["rloo"]["gain"] == entries["rloo"]["tokens_ratio"] == 1.0
    assert entries["grpo"]["tokens_ratio"] == entries["ppo"]["tokens_ratio"] == 1.0
    assert entries["paper:2"]["tokens"] > entries["reuse:1"]["tokens"] > entries["rloo"]["tokens"]
    assert np.isfinite([entry["gain"] for entry in table["estimators"]]).all()
    assert capsys.readouterr().out.startswith("gradient: VinePPO")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--estimators", "vine:2"], "unknown estimator 'vine:2'"),
        (["--estimators", "paper:0"], "K must be a whole number >= 1, got '0'"),
    ],
)
def test_a_wrong_estimator_is_one_line(tmp_path, capsys, argv, message):
    with pytest.raises(SystemExit) as left:
        main(["gradient", "--output", str(tmp_path), *argv])
    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_ppo_without_a_critic_says_where_one_comes_from(tmp_path, capsys):
    argv = [*flags(QUICK | {"output_dir": tmp_path}), "--estimators", "ppo"]
    assert main(["gradient", *argv]) == 2
    assert "ppo needs a critic. Pass a PPO run" in capsys.readouterr().err


def test_gradient_takes_the_checkpoints_own_critic(run_folder, tmp_path):
    """The critic of a checkpoint, on a policy of the same run."""
    more = {"reference_problems": 16, "num_prompts": 3, "num_generations": 2, "start": "false"}
    argv = flags(QUICK | {"output_dir": tmp_path, "run": run_folder} | more)
    assert main(["gradient", *argv, "--estimators", "reuse:1"]) == 0
    results = json.loads((tmp_path / "gradient.json").read_text())["results"]
    assert [table["iteration"] for table in results["policies"]] == [1, 2]
    for table in results["policies"]:
        assert [e["name"] for e in table["estimators"]] == ["rloo", "reuse:1", "ppo"]
        assert "critic_explained_variance" not in table


def test_advantages(run_folder, tmp_path):
    more = {"run": run_folder, "num_generations": 2, "num_rollouts": 1, "bins": 4}
    for row in checkpoints(results_of("advantages", tmp_path, **more)):
        assert len(row["advantage_by_depth"]) == len(row["entropy_by_depth"]) == 4
        assert sum(part["n"] for part in row["advantage_by_depth"]) == row["advantage"]["n"]
        assert row["advantage"]["n"] == pytest.approx(6 * row["steps"])
        assert 0 <= row["advantage"]["near_zero"] <= 1
        assert row["entropy"] > 0


def test_kl_is_zero_at_the_start_and_grows(run_folder, tmp_path):
    rows = checkpoints(results_of("kl", tmp_path, run=run_folder, num_generations=2))
    for name in ("exact", "k1", "k3"):
        assert rows[0][name]["mean"] == pytest.approx(0.0, abs=1e-5)
    assert 0 < rows[1]["exact"]["mean"] < rows[2]["exact"]["mean"]
    assert rows[2]["k3"]["mean"] > 0


def test_kl_without_a_start_says_what_to_pass(tmp_path, capsys):
    for name in ("kl", "weights"):
        assert main([name, *flags(QUICK | {"output_dir": tmp_path})]) == 2
        assert "no policy to measure from. Pass --run" in capsys.readouterr().err


def test_kl_of_a_model_to_a_reference(run_folder, tmp_path):
    model = run_folder / "checkpoints" / "step-2"
    results = results_of("kl", tmp_path, model=model, reference="tiny", num_generations=2)
    (row,) = results["subjects"][0]["checkpoints"]
    assert row["exact"]["mean"] > 0


def test_weights(run_folder, tmp_path):
    rows = checkpoints(results_of("weights", tmp_path, run=run_folder))
    assert rows[0]["parts"]["all"]["l2"] == 0.0
    assert 0 < rows[1]["parts"]["all"]["l2"] < rows[2]["parts"]["all"]["l2"]
    squares = [part["l2"] ** 2 for name, part in rows[2]["parts"].items() if name != "all"]
    assert sum(squares) == pytest.approx(rows[2]["parts"]["all"]["l2"] ** 2)


def test_diversity(run_folder, tmp_path):
    for row in checkpoints(results_of("diversity", tmp_path, run=run_folder, num_generations=4)):
        rates = [row["pass_at"][key] for key in ("1", "2", "4")]
        assert rates == sorted(rates)
        assert 1 <= row["distinct_answers"] <= row["distinct_solutions"] <= 4
