"""Running commands: kept when finished, started over when half done, stopped by Ctrl-C."""

import json
import signal
import time
from dataclasses import dataclass, replace

import pytest

from agents.analysis.jobs import log_of, run_all, summary_of
from agents.analysis.variants import Run, make_run, parse_variant
from agents.core.config_files import save_yaml
from agents.core.interrupt import Interrupt

FINISH = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1]); folder.mkdir(parents=True)
(folder / "summary.json").write_text(json.dumps({"iterations": int(sys.argv[2])}))
(folder / "config.yaml").write_text(sys.argv[3]); print("done")
"""
SLEEP = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
open(sys.argv[4], "w").close()
time.sleep(60)
"""


@dataclass(frozen=True)
class ScriptRun(Run):
    """A run whose command is a small script."""

    script: str = FINISH
    mark: str = ""

    @property
    def command(self):
        yaml = self.folder.parent / f"{self.folder.name}.yaml"
        yaml.parent.mkdir(exist_ok=True)
        save_yaml(self.config, yaml)
        words = str(self.folder), str(self.config.iterations), yaml.read_text(), self.mark
        return ("python", "-c", self.script, *words)


def script_run(folder, seed, script=FINISH, mark=""):
    run = make_run(parse_variant("rloo"), {}, seed, folder / "runs")
    return ScriptRun(run.variant, run.agent, run.config, run.options, script, mark)


def run_here(folder, runs, interrupt=None, jobs=1):
    seen = []
    failed = run_all(
        runs, jobs=jobs, logs=folder / "logs", interrupt=interrupt or Interrupt(), show=seen.append
    )
    return failed, [progress.ended for progress in seen if progress.ended], seen


def test_finished_runs_are_kept_and_half_runs_started_over(tmp_path):
    runs = [script_run(tmp_path, seed) for seed in range(3)]
    failed, ended, _ = run_here(tmp_path, runs[:2], jobs=2)
    assert failed == []
    assert {run.config.seed for run, finished in ended if finished} == {0, 1}
    assert "done" in log_of(runs[0], tmp_path / "logs").read_text()
    runs[2].folder.mkdir()
    (runs[2].folder / "metrics.jsonl").write_text("{}\n")
    _, ended, seen = run_here(tmp_path, runs)
    assert [run.config.seed for run, _ in ended] == [2]
    assert not (runs[2].folder / "metrics.jsonl").exists()
    assert (seen[-1].done, seen[-1].total) == (3, 3)


def test_a_run_that_fails_is_named_and_the_others_go_on(tmp_path):
    runs = [script_run(tmp_path, 0, "raise SystemExit('broken')"), script_run(tmp_path, 1)]
    failed, ended, _ = run_here(tmp_path, runs)
    assert failed == runs[:1]
    assert [finished for _, finished in ended] == [False, True]
    assert "broken" in log_of(runs[0], tmp_path / "logs").read_text()


def test_only_a_whole_run_of_just_these_options_counts(tmp_path):
    run = script_run(tmp_path, 0)
    run_here(tmp_path, [run])
    assert summary_of(run) == {"iterations": run.config.iterations}
    other = replace(run, config=replace(run.config, learning_rate=0.5))
    assert summary_of(other) is None
    summary = run.folder / "summary.json"
    for text in (json.dumps({"iterations": run.config.iterations - 1}), "{", "[]"):
        summary.write_text(text)
        assert summary_of(run) is None


def test_ctrl_c_ends_what_runs_and_starts_no_more(tmp_path):
    marks = [tmp_path / "started-0", tmp_path / "started-1"]
    runs = [script_run(tmp_path, seed, SLEEP, str(mark)) for seed, mark in enumerate(marks)]
    interrupt, begun, jobs = Interrupt(), time.monotonic(), []

    def show(progress):
        jobs.extend(job for job in progress.running if job not in jobs)
        if marks[0].exists():
            interrupt._signal = signal.SIGINT

    failed = run_all(runs, jobs=1, logs=tmp_path / "logs", interrupt=interrupt, show=show)
    assert failed == []
    assert [job.process.returncode for job in jobs] == [130]
    assert not marks[1].exists()
    assert time.monotonic() - begun < 50, "it did not wait for the end of the run"


@pytest.mark.parametrize("lines", [0, 3])
def test_progress_is_read_from_the_metrics(tmp_path, lines):
    run = script_run(tmp_path, 0, SLEEP, str(tmp_path / "mark"))
    interrupt, counts = Interrupt(), []
    run.folder.mkdir(parents=True)

    def show(progress):
        if progress.running:
            run.folder.mkdir(exist_ok=True)
            (run.folder / "metrics.jsonl").write_text("{}\n" * lines)
            counts.append(progress.running[0].iterations)
            if (tmp_path / "mark").exists():
                interrupt._signal = signal.SIGINT

    run_all([run], jobs=1, logs=tmp_path / "logs", interrupt=interrupt, show=show)
    assert set(counts) == {lines}
