"""What a run needs of memory, worked out from the model's config before anything large is built.

Weights, gradients and optimizer follow from the number of parameters. Activations are those of a
Llama-like layer with fused attention: what autograd keeps of each token, some twelve vectors of the
hidden size and four of the inner one. Other architectures differ; the sum of what is exact is most
of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from agents.core.config import BaseConfig, TrainingConfig
from agents.core.loading import model_folder, pick_device
from agents.core.policy import LOGITS_AT_ONCE

_BYTES = {"float32": 4, "bfloat16": 2, "float64": 8}
_PROGRAM = 0.55e9  # Python with torch, transformers and datasets, measured in resident bytes
_HIDDEN_KEPT, _INNER_KEPT = 12, 4  # vectors a token and layer


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model that memory depends on.

    Attributes:
        parameters: In all, tied ones counted once.
        trained: Of these, those that get a gradient.
        layers: Number of layers.
        hidden: Size of the hidden states.
        inner: Size inside the feed-forward part.
        cached: Keys and values of a token in a layer, numbers.
        vocab: Rows of the output matrix.
    """

    parameters: int
    trained: int
    layers: int
    hidden: int
    inner: int
    cached: int
    vocab: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by what they are for.

    Attributes:
        lasting: Held throughout.
        sampling: Held while answers or values are sampled.
        update: Held in an update.
        available: What the device has.
        device: Its name.
    """

    lasting: Mapping[str, float]
    sampling: Mapping[str, float]
    update: Mapping[str, float]
    available: float
    device: str
    parts: tuple[str, ...] = field(default=("lasting", "sampling", "update"))

    @property
    def peak(self) -> float:
        """Bytes at the worst moment."""
        return sum(self.lasting.values()) + max(
            sum(self.sampling.values()), sum(self.update.values())
        )

    def text(self) -> str:
        """Returns the plan as lines for people."""
        lines = []
        for part in self.parts:
            for name, size in getattr(self, part).items():
                lines.append(f"  {part:9} {name:34} {_size(size)}")
        verdict = "fits" if self.peak <= self.available else "does not fit"
        lines.append(
            f"peak {_size(self.peak)}: {verdict} {self.device} with {_size(self.available)}"
        )
        if self.peak > self.available:
            lines.append(
                "Less memory: a smaller --micro_batch_size, --gradient_checkpointing true, "
                "--lora_r 16, --beta 0 (no reference), --dtype bfloat16, --engine_kwargs "
                "'{\"max_rows\": 64}'."
            )
        return "\n".join(lines) + "\n"


def plan_of(config: TrainingConfig, longest: int, answer: int) -> MemoryPlan:
    """Returns the plan of a run.

    Args:
        config: Its options.
        longest: Most tokens of prompt and answer together.
        answer: Most tokens of an answer.

    Raises:
        ValueError: There is no config of the model.
    """
    shape = shape_of(config)
    word = _BYTES[config.dtype]
    passes = 2 if config.bf16 else word  # bytes of a number inside a pass
    rows, tokens = config.micro_batch_size, config.micro_batch_size * longest
    layer = (_HIDDEN_KEPT * shape.hidden + _INNER_KEPT * shape.inner) * passes
    kept = shape.layers * layer
    if config.gradient_checkpointing:
        kept = shape.layers * shape.hidden * passes + layer
    lasting = {
        f"program on {pick_device(config.device).type}": _PROGRAM,
        "weights": float(shape.parameters * word),
        "AdamW's two moments": float(2 * shape.trained * word),
    }
    if isinstance(config, BaseConfig) and config.beta > 0 and not config.lora_r:
        lasting["reference"] = float(shape.parameters * word)
    if hasattr(config, "max_kept"):  # RestEM begins from them each round
        lasting["weights of the start"] = float(shape.parameters * word)
    if getattr(config, "critic", None) == "separate":
        trunk = shape.parameters - shape.vocab * shape.hidden
        lasting["critic with gradients and moments"] = 4.0 * trunk * word
    if config.bf16:
        lasting["weights in bfloat16, for products"] = 2.0 * shape.parameters
    update = {
        "gradients": float(shape.trained * word),
        f"activations of {rows} x {longest} tokens": float(tokens * kept),
        "logits": 4.0 * 3 * min(LOGITS_AT_ONCE, rows * answer * shape.vocab),
    }
    sampled = _rows_at_once(config)
    cache = sampled * longest * shape.layers * shape.cached * word
    sampling = {
        f"keys and values of {sampled} x {longest}": float(cache),
        "logits of a step": 4.0 * 3 * sampled * shape.vocab,
    }
    return MemoryPlan(lasting, sampling, update, *_device(config))


def _rows_at_once(config: TrainingConfig) -> int:
    most = int(config.engine_kwargs.get("max_rows", 512))
    answers = config.eval_problems * config.eval_samples
    if isinstance(config, BaseConfig):
        answers = max(answers, config.num_prompts * config.num_generations)
        answers *= max(1, getattr(config, "num_rollouts", 0))
    return max(1, min(most, answers))


def shape_of(config: TrainingConfig) -> Shape:
    """Returns the sizes of the model that a run names, without its weights.

    Raises:
        ValueError: There is no config of it.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    from agents.core.loading import unloadable

    folder = model_folder(config.model)
    try:
        found = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
                found, trust_remote_code=False
            )
    except Exception as error:  # transformers raises what its many parts raise
        reason = (str(error).splitlines() or [""])[0]
        raise unloadable(folder, f"{type(error).__name__}: {reason}") from error
    parameters = sum(parameter.numel() for parameter in model.parameters())
    hidden = int(found.hidden_size)
    heads = int(found.num_attention_heads)
    width = int(getattr(found, "head_dim", None) or hidden // heads)
    groups = int(getattr(found, "num_key_value_heads", None) or heads)
    trained = parameters
    if config.lora_r:
        linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)][:-1]
        trained = sum(config.lora_r * (m.in_features + m.out_features) for m in linear)
    return Shape(
        parameters,
        trained,
        int(found.num_hidden_layers),
        hidden,
        int(getattr(found, "intermediate_size", None) or 4 * hidden),
        2 * groups * width,
        int(model.get_output_embeddings().weight.shape[0]),
    )


def _device(config: TrainingConfig) -> tuple[float, str]:
    device = pick_device(config.device)
    if device.type == "cuda":
        properties: Any = torch.cuda.get_device_properties(device)
        return float(properties.total_memory), str(properties.name)
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return float(pages * size), "this machine"


def _size(size: float) -> str:
    return f"{size / 1e9:9.3f} GB"
