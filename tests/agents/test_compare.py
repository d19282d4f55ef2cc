"""The comparison from its command line to its files."""

import json
from importlib import import_module

import pytest

from agents import compare
from agents.analysis.comparison_plan import make_plan
from agents.analysis.jobs import Progress, run_all, summary_of

TINY = [
    "--iterations", "2", "--num_prompts", "2", "--minibatch_size", "8", "--eval_problems", "4",
    "--eval_samples", "1", "--seeds", "2", "--plain",
]  # fmt: skip


@pytest.fixture
def here(monkeypatch):
    """Runs commands in this process, which spares starting Python; returns what was run."""
    started = []

    def run(runs, *, show, interrupt, **_):
        failed = []
        for number, one in enumerate(runs, start=1):
            if summary_of(one) is None:
                started.append(one)
                if import_module(f"agents.{one.agent}").main(one.options):
                    failed.append(one)
                show(Progress(number, len(runs), (), (one, one not in failed)))
        return failed

    monkeypatch.setattr(compare, "run_all", run)
    return started


def test_search_runs_matching_and_files(tmp_path, here, capsys):
    argv = [
        "--agents", "rloo", "vineppo", "--search", "learning_rate", "--grid",
        "learning_rate=1e-4,3e-4", "--match", "tokens", "--output", str(tmp_path / "out"), *TINY,
        "--set", "vineppo.num_rollouts=3", "beta=0.01",
    ]  # fmt: skip
    assert compare.main(argv) == 0
    names = [(run.variant, run.config.seed) for run in here]
    more = "rloo (as many tokens)"
    assert names == [
        *[("rloo", 1000)] * 2, *[("vineppo", 1000)] * 2,
        ("rloo", 0), ("vineppo", 0), ("rloo", 1), ("vineppo", 1), (more, 0), (more, 1),
    ]  # fmt: skip
    assert {run.config.beta for run in here} == {0.01}
    found = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert list(found["variants"]) == ["rloo", "vineppo", more]
    assert found["search"]["scores"].keys() == {"rloo", "vineppo"}
    vineppo, matched = found["variants"]["vineppo"], found["variants"][more]
    spent = [variant["curves"][0]["tokens"][-1] for variant in (vineppo, matched)]
    assert 0.7 < spent[0] / spent[1] < 1.4
    assert int(matched["searched"]["num_generations"]) > 4
    assert vineppo["searched"]["learning_rate"] in ("1e-4", "3e-4")
    assert len(vineppo["curves"][0]["accuracy"]) == 3
    assert (tmp_path / "out" / "compare.png").read_bytes()[:4] == b"\x89PNG"
    text = (tmp_path / "out" / "compare.md").read_text()
    assert "--match tokens" in text
    assert "### Paired differences" in text
    assert "rloo (as many tokens)" in capsys.readouterr().out

    del here[:]
    assert compare.main(argv) == 0
    assert here == [], "nothing is run twice"


def test_a_real_run_in_a_process_of_its_own(tmp_path):
    argv = ["--agents", "rloo", "--output", str(tmp_path), *TINY, "--seeds", "1"]
    with pytest.raises(SystemExit):
        compare.main(argv)  # --seeds twice
    argv = [*argv[:-2], "--iterations", "1"]
    argv[argv.index("--seeds") + 1] = "1"
    assert compare.main(argv) == 0
    assert compare.run_all is run_all
    curve = json.loads((tmp_path / "compare.json").read_text())["variants"]["rloo"]["curves"][0]
    assert curve["iterations"] == [0.0, 1.0]
    assert 0 < curve["cpu_seconds"][1]
    assert 0 < curve["seconds"][1]


def test_a_variant_with_a_failed_run_is_left_out_and_named(tmp_path, here, monkeypatch, capsys):
    monkeypatch.setattr("agents.rloo.main", lambda options: 1)
    argv = ["--agents", "rloo", "grpo", "--output", str(tmp_path), *TINY]
    assert compare.main(argv) == 1
    found = json.loads((tmp_path / "compare.json").read_text())
    assert list(found["variants"]) == ["grpo"]
    assert len(found["failed"]) == 2
    assert "failed: python -m agents.rloo" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--agents", "rlo"], "unknown agent 'rlo'"),
        (["--num_rollouts", "3"], "unknown option 'num_rollouts' of all agents"),
        (["--set", "sft.iterations=3"], "unknown agent 'sft'"),
        (["--agents", "rloo", "--set", "ppo.lam=1"], "ppo is none of the agents"),
        (["--search", "learning_rat"], "unknown option 'learning_rat'"),
        (["--grid", "beta=0,1"], "needs --search beta"),
        (["--search", "beta", "--grid", "beta=0,-1"], "beta must be >= 0"),
        (["--agents", "rloo", "--match", "tokens"], "match=tokens needs vineppo"),
        (["--seeds", "2", "--search_seed", "1"], "search_seed must be none of the reported"),
        (["--set", "vineppo.kl_in=reward"], "kl_in=reward does not go with vineppo"),
        (["rloo"], "expected --OPTION first"),
    ],
)
def test_mistakes_are_found_before_the_first_run(argv, message):
    with pytest.raises(ValueError, match=message):
        make_plan(argv, "")


def test_repeated_lists_add_up_and_variants_are_named(tmp_path):
    plan = make_plan(
        ["--search", "beta", "--search", "learning_rate", "--agents", "vineppo",
         "vineppo:num_rollouts=1,reuse=false", "--env", "GSM8K-v0", "--set", "vineppo.beta=0"],
        "",
    )  # fmt: skip
    assert plan.config.search == ("beta", "learning_rate")
    assert [variant.label for variant in plan.variants] == [
        "vineppo",
        "vineppo:num_rollouts=1,reuse=false",
    ]
    assert str(plan.folder) == "runs/compare-GSM8K-v0"
    first, second = (plan.runs_of(variant)[0].config for variant in plan.variants)
    assert (first.num_rollouts, second.num_rollouts, second.reuse) == (2, 1, False)
    assert first.env == "GSM8K-v0"
