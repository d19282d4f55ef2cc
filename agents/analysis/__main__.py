"""``python -m agents.analysis``: lists the analyses, and runs one by name.

python -m agents.analysis
python -m agents.analysis values --run runs/NAME     # writes analysis/values.json and values.png
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from graders.resolve import nearest

ANALYSES = {
    "values": "Predicted against true values: rollouts, reuse, a critic, group means.",
    "ranking": "How well each predictor orders alternative next steps.",
    "labels": "Monte-Carlo values as process labels, for training a process reward model.",
    "gradient": "Noise of the policy gradient by estimator, per answer, token and CPU second.",
    "advantages": "Step advantages and the policy's entropy by depth in the answer.",
    "kl": "KL of each checkpoint from the start, beside its accuracy.",
    "diversity": "Distinct answers and solutions to one problem, and pass@k.",
    "weights": "Distance of each checkpoint's weights from the start, by layer.",
}
"""What each analysis says, by name; module ``agents.analysis.NAME`` has its ``main(argv)``."""

_USAGE = "usage: python -m agents.analysis NAME [--OPTION VALUE ...]\n\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the analysis that the first argument names; returns the exit status."""
    name, *rest = [*(sys.argv[1:] if argv is None else argv)] or ["--help"]
    if name in ("-h", "--help"):
        lines = [f"  {known:<12}{about}\n" for known, about in ANALYSES.items()]
        sys.stdout.write(
            f"{_USAGE}{''.join(lines)}\nEach has --help, and writes NAME.json and NAME.png.\n"
        )
        return 0
    if name not in ANALYSES:
        sys.stderr.write(
            f"error: unknown analysis {name!r}.{nearest(name, ANALYSES)} "
            f"Known: {', '.join(ANALYSES)}\n"
        )
        return 2
    status: int = import_module(f"agents.analysis.{name}").main(rest)
    return status


if __name__ == "__main__":
    sys.exit(main())
