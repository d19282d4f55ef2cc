"""``python -m agents``: lists the commands, and runs one by name.

python -m agents
python -m agents vineppo --seed 3        # the same as python -m agents.vineppo --seed 3
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules

import agents
from graders.resolve import nearest


def commands() -> list[str]:
    """Returns the names of the runnable modules of this package."""
    return sorted(
        module.name
        for module in iter_modules(agents.__path__)
        if not module.ispkg and not module.name.startswith("_")
    )


def main(argv: list[str] | None = None) -> int:
    """Runs the command that the first argument names; returns its exit status."""
    names, rest = commands(), list(sys.argv[1:] if argv is None else argv)
    if not rest or rest[0] in ("-h", "--help"):
        sys.stdout.write("usage: python -m agents COMMAND [--OPTION VALUE ...]\n\n")
        for name in names:
            about = str(import_module(f"agents.{name}").__doc__).splitlines()[0]
            sys.stdout.write(f"  {name:<14}{about}\n")
        return 0
    if rest[0] not in names:
        sys.stderr.write(
            f"error: unknown agent {rest[0]!r}.{nearest(rest[0], names)} "
            f"Known: {', '.join(names)}\n"
        )
        return 2
    status: int = import_module(f"agents.{rest[0]}").main(rest[1:])
    return status


if __name__ == "__main__":
    sys.exit(main())
