"""Engine vllm: what it says where vLLM is missing; under ``-m vllm`` the real one beside hf."""

import os
import subprocess
import sys
import time

import gymnasium as gym
import pytest
import torch

import agents.engines.vllm as vllm_module
from agents.core.loading import load_policy
from agents.core.rollout import Sampler, mark_states, start_of
from agents.core.streams import stream_key
from agents.core.values import monte_carlo_values
from agents.engines.base import EngineError, SamplingParams, make_engine
from agents.rloo import main
from benchmarks.stopped_runs import command
from lang_env.tokenizers import load_tokenizer

TOKENIZER = load_tokenizer("builtin")
NEAR = 1e-5  # a draw so close to a step of the distribution is decided by rounding


def test_a_missing_vllm_names_the_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(vllm_module, "version_of", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main(command("rloo", tmp_path / "run", engine="vllm"))
    assert ended.value.code == 2
    assert "not installed: pip install 'lang-env[vllm]'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_old_vllm_is_refused(monkeypatch):
    monkeypatch.setattr(vllm_module, "version_of", lambda: "0.9.2")
    with pytest.raises(EngineError, match=r"needs vLLM 0\.32 or newer, got 0\.9\.2"):
        make_engine("vllm", None, 4)


def test_numba_before_vllm_is_refused(monkeypatch):
    monkeypatch.setattr(vllm_module, "version_of", lambda: "0.32.0")
    monkeypatch.setitem(sys.modules, "llvmlite", object())
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    with pytest.raises(EngineError, match="numba was imported before vLLM"):
        make_engine("vllm", None, 4)


def test_a_hanging_engine_ends_the_process_with_a_message(capsys):
    left = []
    vllm_module._give_up(0.5, left.append)
    assert left == [1]
    assert "vLLM has made no step for 0.5 s" in capsys.readouterr().err


class Stops:
    """EOS, and a newline after a 7."""

    eos = TOKENIZER.eos_token_id
    (seven,), (newline,) = TOKENIZER.encode("7"), TOKENIZER.encode("\n")
    stop_candidates = frozenset({eos, newline})

    def finish(self, response):
        if response[-1] == self.eos:
            return "stop_token"
        return "stop_string" if list(response[-2:]) == [self.seven, self.newline] else None


def _sampling(prompts, n=1, budget=48, temperature=1.0, top_p=1.0):
    streams = [[stream_key(prompt, ordinal) for ordinal in range(n)] for prompt in prompts]
    return SamplingParams(temperature, top_p, [budget] * len(prompts), streams, Stops())


def _env(level=2, max_new_tokens=80):
    settings = {"split": "train", "level": level, "max_new_tokens": max_new_tokens}
    return gym.make("lang_env:MathReason-v0", **settings).unwrapped


def _prompts(count):
    env = _env()
    return [start_of(env, 0, seed=seed).tokens for seed in range(count)]


@pytest.fixture(scope="module")
def policy():
    return load_policy("tiny", TOKENIZER)


@pytest.fixture(scope="module")
def engines(policy):
    torch.set_num_threads(1)
    options = {"max_model_len": 512}
    return (
        make_engine("vllm", policy.model, policy.vocab_size, **options),
        make_engine("hf", policy.model, policy.vocab_size),
    )


def _compare(ours, theirs):
    """Returns how many continuations differ, and the largest gap of a log-probability."""
    differ, gap = 0, 0.0
    for one, other in zip(ours, theirs, strict=True):
        for a, b in zip(one, other, strict=True):
            differ += a.tokens != b.tokens
            if a.tokens == b.tokens:
                assert a.finish_reason == b.finish_reason
                pairs = zip(a.log_probs, b.log_probs, strict=True)
                gap = max(gap, *(abs(x - y) for x, y in pairs))
    return differ, gap


@pytest.mark.vllm
@pytest.mark.parametrize(
    "settings",
    [{"temperature": 0.0}, {}, {"temperature": 0.6}, {"top_p": 0.8, "temperature": 0.9}],
    ids=str,
)
def test_tokens_and_log_probs_are_those_of_hf(engines, settings):
    prompts = _prompts(24)
    n = 1 if settings.get("temperature") == 0.0 else 4
    ours, theirs = (e.generate(prompts, _sampling(prompts, n, **settings)) for e in engines)
    assert {row.finish_reason for group in theirs for row in group} > {"stop_string"}
    differ, gap = _compare(ours, theirs)
    # The draws that fall on a step of the distribution, of some 5,000, may be decided otherwise.
    assert differ <= 1
    assert gap < 1e-3


@pytest.mark.vllm
def test_a_continuation_does_not_depend_on_what_else_is_asked(engines):
    engine, _ = engines
    prompts = _prompts(300)
    together = engine.generate(prompts, _sampling(prompts, 2))
    order = list(reversed(range(300)))
    reverse = engine.generate(
        [prompts[i] for i in order], _sampling([prompts[i] for i in order], 2)
    )
    assert _compare(together, [reverse[order.index(i)] for i in range(300)])[0] <= 1
    alone = [engine.generate([prompt], _sampling([prompt], 2))[0] for prompt in prompts[:10]]
    assert _compare(together[:10], alone)[0] <= 1


@pytest.mark.vllm
def test_new_weights_are_followed(engines, policy):
    engine, hf = engines
    prompts = _prompts(8)
    before = engine.generate(prompts, _sampling(prompts, 2))
    old = {name: tensor.clone() for name, tensor in policy.model.state_dict().items()}
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=rng)
    try:
        stale = engine.generate(prompts, _sampling(prompts, 2))
        assert _compare(before, stale) == (0, pytest.approx(0.0, abs=1e-5)), "not before the sync"
        engine.sync_weights(policy.model)
        ours, theirs = (e.generate(prompts, _sampling(prompts, 2)) for e in (engine, hf))
        assert _compare(ours, before)[0] > 0
        differ, gap = _compare(ours, theirs)
        assert differ <= 1 and gap < 1e-3
    finally:
        policy.model.load_state_dict(old)
        engine.sync_weights(policy.model)


@pytest.mark.vllm
def test_weights_that_do_not_arrive_are_found(engines, policy, monkeypatch):
    engine, _ = engines
    monkeypatch.setattr(engine._llm, "collective_rpc", lambda *args, **kwargs: None)
    old = {name: tensor.clone() for name, tensor in policy.model.state_dict().items()}
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter *= 1.3
    try:
        with pytest.raises(EngineError, match="does not compute with the policy's weights"):
            engine.sync_weights(policy.model)
    finally:
        policy.model.load_state_dict(old)


@pytest.mark.vllm
def test_values_of_states_share_their_prefixes(engines):
    engine, _ = engines
    env = _env(level=4, max_new_tokens=200)  # long enough for blocks of 32 tokens
    sampler = Sampler(engine, env, 0, 1.0)
    starts = [start_of(env, slot, seed=slot) for slot in range(4)]
    rows = [r for g in sampler.sample(starts, 4, iteration=1, purpose="rollout") for r in g]
    for row in rows:
        mark_states(env, row)
    before = _counts(engine)
    estimates = monte_carlo_values(sampler, rows, 9, iteration=1, reuse=False)
    asked, hits = (b - a for a, b in zip(before, _counts(engine), strict=True))
    assert estimates.metrics["vine/k_fresh"] > 2
    assert hits / asked > 0.8


def _counts(engine):
    values = {m.name: getattr(m, "value", 0) for m in engine._llm.get_metrics()}
    return values["vllm:prefix_cache_queries"], values["vllm:prefix_cache_hits"]


@pytest.mark.vllm
def test_ids_beyond_the_tokenizer_are_never_sampled(policy):
    """The model has more rows than the tokenizer has ids."""
    few = TOKENIZER.encode("0123456789")
    size = max(few) + 1
    engine = make_engine("vllm", policy.model, size, max_model_len=64)
    sampling = _sampling([few], 8, budget=20)
    assert max(t for row in engine.generate([few], sampling)[0] for t in row.tokens) < size


@pytest.mark.vllm
@pytest.mark.parametrize("agent", ["vineppo", "ppo"])
def test_a_run_trains_with_it(agent, tmp_path):
    """In a process of its own: PPO imports numba, after the engine."""
    from benchmarks.stopped_runs import metrics_of

    more = {"engine": "vllm", "engine_kwargs": '{"max_model_len": 256}', "iterations": 2}
    arguments = command(agent, tmp_path / "run", **more)
    done = subprocess.run(
        [sys.executable, "-m", f"agents.{agent}", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = metrics_of(tmp_path / "run")
    trained = [line for line in lines if "sampling/nan_logps" in line]  # not PPO's warm-up
    assert len(lines) == 2 and trained
    for line in trained:
        assert line["sampling/sampling_logp_difference/max"] < 1e-3
        assert line["sampling/nan_logps"] == 0.0


HANGS = """
import sys, time
from agents.core.loading import load_policy
from agents.engines.base import SamplingParams, make_engine
from lang_env.tokenizers import load_tokenizer
import agents.engines.vllm as module
tokenizer = load_tokenizer("builtin")
policy = load_policy("tiny", tokenizer)
engine = make_engine("vllm", policy.model, policy.vocab_size, max_model_len=64, timeout=60.0)
engine._timeout = 1.0
engine._llm.llm_engine.step = lambda: time.sleep(60)
print("built", flush=True)
engine.generate([[1, 2]], SamplingParams(1.0, 1.0, [4], [[1]], module._Never()))
"""


@pytest.mark.vllm
def test_a_hang_is_an_error_within_seconds():
    process = subprocess.Popen(
        [sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ},
    )  # fmt: skip
    while process.stdout.readline().strip() != "built":
        assert process.poll() is None
    started = time.monotonic()
    _, error = process.communicate()
    assert time.monotonic() - started < 20
    assert process.returncode == 1
    assert "vLLM has made no step for 1 s" in error
