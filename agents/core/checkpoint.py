"""Checkpoints: a folder that ``AutoModelForCausalLM.from_pretrained`` opens, written atomically."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from agents.core.lora import merged
from agents.core.policy import Policy
from lang_env.tokenizers import HubTokenizer, RustBackedTokenizer, Tokenizer

_STATE = "trainer_state.json"


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Writes a tokenizer so that ``AutoTokenizer.from_pretrained`` opens it.

    Raises:
        TypeError: A tokenizer of the user's own that has no ``save_pretrained``.
    """
    if isinstance(tokenizer, HubTokenizer):
        tokenizer.backend.save_pretrained(folder)
        return
    if not isinstance(tokenizer, RustBackedTokenizer):
        save = getattr(tokenizer, "save_pretrained", None)
        if save is None:
            raise TypeError(f"{type(tokenizer).__name__} cannot be saved: no save_pretrained")
        save(folder)
        return
    tokenizer.backend.save(str(folder / "tokenizer.json"))
    names = {"bos": tokenizer.bos_token_id, "eos": tokenizer.eos_token_id}
    names["pad"] = tokenizer.pad_token_id
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "padding_side": "left",
        **{
            f"{name}_token": tokenizer.backend.id_to_token(token)
            for name, token in names.items()
            if token is not None
        },
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def save_model(policy: Policy, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes weights (safetensors), config and tokenizer into an existing folder.

    Adapters are added to the weights.
    """
    model = merged(policy.model) if policy.has_adapters else policy.model
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)


def save_checkpoint(
    run_folder: Path,
    step: int,
    policy: Policy,
    tokenizer: Tokenizer,
    state: Mapping[str, Any],
    *,
    keep: int = 0,
    modules: Mapping[str, nn.Module] | None = None,
) -> Path:
    """Writes ``checkpoints/step-N`` and points ``checkpoints/latest`` at it.

    The folder is written under another name and renamed, so that a half-written one is never
    mistaken for a checkpoint.

    Args:
        run_folder: The run's folder.
        step: Iterations done.
        policy: What is saved.
        tokenizer: The environment's tokenizer, saved beside it.
        state: JSON values that go into ``trainer_state.json``.
        keep: How many of the newest checkpoints stay; 0: all.
        modules: What is trained beside the policy: the weights of each go to
            ``NAME.safetensors``.

    Returns:
        The checkpoint's folder.

    Raises:
        OSError: It cannot be written; no part of it is left.
    """
    parent = run_folder / "checkpoints"
    final, partial = parent / f"step-{step}", parent / f"step-{step}.partial"
    for stale in (final, partial):
        shutil.rmtree(stale, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        save_model(policy, tokenizer, partial)
        for name, module in (modules or {}).items():
            weights = {key: value.contiguous() for key, value in module.state_dict().items()}
            save_file(weights, partial / f"{name}.safetensors")
        (partial / _STATE).write_text(json.dumps({"iteration": step, **state}, indent=2) + "\n")
        partial.rename(final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise OSError(
            f"cannot write the checkpoint {final}: {error}. Make room or fix the folder, and start "
            "again from the checkpoint before it, if there is one."
        ) from error
    (parent / "latest").write_text(f"{final.name}\n")
    if keep > 0:
        numbered = sorted(parent.glob("step-*"), key=lambda path: int(path.name[5:]))
        for old in numbered[:-keep]:
            shutil.rmtree(old)
    return final
