"""Checkpoints: a folder that ``AutoModelForCausalLM.from_pretrained`` opens, and trainer state.

A checkpoint is written under another name, forced to disk, sealed with a manifest of hashes and
renamed: it is there as a whole or not at all, and damage is found before anything is read. Trainer
state is JSON and safetensors (``agents/core/state_tree.py``).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from agents.core.disk import force_folder_to_disk, write_atomically
from agents.core.lora import adapter_state, load_adapter_state, merged
from agents.core.manifest import check_sealed, seal
from agents.core.policy import Policy
from agents.core.state_tree import load_tree, save_tree
from lang_env.tokenizers import HubTokenizer, RustBackedTokenizer, Tokenizer

_STATE = "trainer_state"
_NAME = re.compile(r"step-(\d+)(-part)?(\.replaced)?")


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
    part: bool = False,
) -> Path:
    """Writes ``checkpoints/step-N`` and points ``checkpoints/latest`` at it.

    Args:
        run_folder: The run's folder.
        step: Iterations done.
        policy: What is saved.
        tokenizer: The environment's tokenizer, saved beside it.
        state: What goes into the trainer state, see ``agents/core/state_tree.py``.
        keep: How many of the newest checkpoints stay, beside the best one; 0: all.
        modules: What is trained beside the policy: the weights of each go to
            ``NAME.safetensors``.
        part: Whether the iteration after ``step`` has begun; the folder is ``step-N-part``.

    Returns:
        The checkpoint's folder.

    Raises:
        OSError: It cannot be written; no part of it is left.
    """
    parent = run_folder / "checkpoints"
    final = parent / f"step-{step}{'-part' if part else ''}"
    partial, replaced = (final.with_name(final.name + end) for end in (".partial", ".replaced"))
    shutil.rmtree(partial, ignore_errors=True)
    adapters = {"adapters": adapter_state(policy)} if policy.has_adapters else {}
    try:
        partial.mkdir(parents=True)
        save_model(policy, tokenizer, partial)
        for name, module in (modules or {}).items():
            weights = {key: value.contiguous() for key, value in module.state_dict().items()}
            save_file(weights, partial / f"{name}.safetensors")
        save_tree(partial, _STATE, {"iteration": step, **state, **adapters})
        seal(partial)
        if final.exists():
            final.rename(replaced)
        partial.rename(final)
        force_folder_to_disk(parent)
        write_atomically(parent / "latest", f"{final.name}\n")
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise OSError(
            f"cannot write the checkpoint {final}: {error}. Make room or fix the folder, and go on "
            "from the checkpoint before it, if there is one, with --resume."
        ) from error
    shutil.rmtree(replaced, ignore_errors=True)
    if keep > 0:
        best = _pointed_at(parent / "best")
        for old in [path for path in checkpoints(run_folder) if path.name != best][keep:]:
            shutil.rmtree(old)
    return final


def mark_best(checkpoint: Path) -> None:
    """Points ``checkpoints/best`` at a checkpoint, which is kept from then on."""
    write_atomically(checkpoint.parent / "best", f"{checkpoint.name}\n")


def checkpoints(run_folder: Path) -> list[Path]:
    """Returns a run's checkpoints, the newest first; half-written ones are none.

    One in the middle of an iteration is newer than the one before that iteration.
    """
    found = []
    for path in (run_folder / "checkpoints").glob("step-*"):
        if match := _NAME.fullmatch(path.name):
            step, part, replaced = match.groups()
            found.append((int(step), part is not None, replaced is None, path))
    return [path for *_, path in sorted(found, reverse=True)]


def load_checkpoint(checkpoint: Path) -> dict[str, Any]:
    """Returns the trainer state of a checkpoint after checking every file of it.

    Raises:
        ValueError: It is damaged; says which file, and which checkpoint is the one before.
    """
    try:
        check_sealed(checkpoint)
        return load_tree(checkpoint, _STATE)
    except ValueError as error:
        others = checkpoints(checkpoint.parents[1])
        older = others[others.index(checkpoint) + 1 :] if checkpoint in others else []
        remedy = (
            f"Go on from the one before it: --resume {older[0]}"
            if older
            else ("There is none before it: start over with another --output_dir")
        )
        raise ValueError(f"checkpoint {checkpoint} is damaged: {error}. {remedy}") from error


def load_weights(
    policy: Policy,
    checkpoint: Path,
    state: Mapping[str, Any],
    modules: Mapping[str, nn.Module] | None = None,
) -> None:
    """Gives a policy, and what is trained beside it, the weights of a checkpoint, bit for bit.

    Args:
        policy: Made from the same options as the one that was saved.
        checkpoint: Its folder.
        state: What ``load_checkpoint`` returned.
        modules: As in ``save_checkpoint``.

    Raises:
        ValueError: The weights are those of another model.
    """
    from transformers import AutoModelForCausalLM

    try:
        for name, module in (modules or {}).items():
            module.load_state_dict(load_file(checkpoint / f"{name}.safetensors"))
        if policy.has_adapters:
            load_adapter_state(policy, state["adapters"])
            return
        saved = AutoModelForCausalLM.from_pretrained(
            checkpoint, dtype=policy.model.dtype, trust_remote_code=False, use_safetensors=True
        )
        policy.model.load_state_dict(saved.state_dict())
    except (OSError, KeyError, RuntimeError, SafetensorError) as error:
        raise ValueError(
            f"checkpoint {checkpoint} does not fit the model of this run: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _pointed_at(pointer: Path) -> str | None:
    try:
        return pointer.read_text(encoding="utf-8").strip()
    except OSError:
        return None
