"""How a policy is made: loaded from a folder or the hub, or new."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from agents.core.config import PlayConfig, TrainingConfig
from agents.core.lora import add_lora
from agents.core.policy import Policy
from agents.engines.base import Engine, make_engine
from graders.resolve import nearest
from lang_env.tokenizers import Tokenizer

TINY = "tiny"
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
MOST_BYTES = {
    "config.json": 2**24,
    "generation_config.json": 2**24,
    "tokenizer_config.json": 2**26,
    "tokenizer.json": 2**28,
}
"""Larger files of a model folder are refused before anything reads them."""
_SPECIAL_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


def tiny_folder() -> Path:
    """Returns the folder of the embedded policy."""
    return Path(str(resources.files("agents").joinpath("assets").joinpath("tiny")))


def unloadable(name: str, reason: str) -> ValueError:
    """Returns the error for a model that cannot be loaded, with what to pass instead."""
    return ValueError(
        f"cannot load model {name!r}: {reason} Pass a folder with config.json and "
        "model.safetensors, a hub name while online, or 'tiny'."
    )


def model_folder(name: str | None) -> str:
    """Returns what to load for ``--model``: the embedded policy for None and "tiny".

    Raises:
        ValueError: A path to nothing: it is not looked for on a hub; or a file is too large.
    """
    if name is None or name == TINY:
        return str(tiny_folder())
    if name.startswith(("/", ".", "~")) and not Path(name).expanduser().is_dir():
        raise unloadable(name, "no such folder.")
    for file, most in MOST_BYTES.items():
        path = Path(name) / file
        if path.is_file() and (size := path.stat().st_size) > most:
            raise unloadable(name, f"{file} has {size:,} bytes, more than {most:,}.")
    return name


def pick_device(name: str) -> torch.device:
    """Returns the device: "auto" takes a CUDA device, then Apple's, then the CPU."""
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def prepared(policy: Policy, config: TrainingConfig) -> Policy:
    """Returns a policy with adapters, layers and products as the options of a run say."""
    if config.lora_r:
        add_lora(policy, rank=config.lora_r, alpha=config.lora_alpha, seed=config.seed)
    return policy.save_memory(
        gradient_checkpointing=config.gradient_checkpointing, bf16=config.bf16
    )


def engine_of(config: PlayConfig, policy: Policy) -> Engine:
    """Returns the engine that the options name, for a policy.

    Raises:
        ValueError: Unknown name or option.
    """
    try:
        return make_engine(config.engine, policy.model, policy.vocab_size, **config.engine_kwargs)
    except TypeError as error:
        if not config.engine_kwargs:
            raise
        raise ValueError(
            f"engine_kwargs={config.engine_kwargs} of {config.engine}: {error}"
        ) from error


def load_policy(
    name: str | None, tokenizer: Tokenizer, *, dtype: str = "float32", device: str = "auto"
) -> Policy:
    """Loads a policy for training.

    Args:
        name: Folder or hub name of a causal LM; None or "tiny" is the embedded policy.
        tokenizer: The environment's tokenizer; must have no more ids than the model.
        dtype: "float32", "bfloat16" or "float64".
        device: "auto", "cpu", "cuda", "mps", ...

    Raises:
        ValueError: Nothing loadable under that name, or the vocabularies differ.
    """
    from transformers import AutoModelForCausalLM

    if dtype not in _DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}.{nearest(dtype, _DTYPES)}")
    folder = model_folder(name)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=_DTYPES[dtype], trust_remote_code=False, use_safetensors=True
        )
    except Exception as error:  # transformers raises what its many parts raise
        reason = (str(error).splitlines() or [""])[0]
        raise unloadable(folder, f"{type(error).__name__}: {reason}") from error
    model.to(device=pick_device(device))  # type: ignore[call-arg]
    model.train(False)
    return Policy(model, len(tokenizer))


def new_policy(
    init: Mapping[str, Any],
    tokenizer: Tokenizer,
    *,
    seed: int,
    dtype: str = "float32",
    device: str = "auto",
) -> Policy:
    """Makes an untrained Llama model for a tokenizer.

    Args:
        init: Values of ``transformers.LlamaConfig``, such as ``{"hidden_size": 64}``.
        tokenizer: Gives the special ids, and the vocabulary size unless ``init`` names one.
        seed: Of the initial weights; the global random state is left as it was.
        dtype: "float32", "bfloat16" or "float64".
        device: "auto", "cpu", "cuda", "mps", ...
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    ids = {name: getattr(tokenizer, name) for name in _SPECIAL_IDS}
    config = LlamaConfig(**{"vocab_size": len(tokenizer), **ids, **init})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.to(device=pick_device(device), dtype=_DTYPES[dtype])  # type: ignore[call-arg]
    model.train(False)
    return Policy(model, len(tokenizer))
