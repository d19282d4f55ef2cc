"""Procedural problem families: a seed becomes a problem with a worked solution, a step a line."""

from lang_env.sources.procedural.equations import linear
from lang_env.sources.procedural.families import chain, ledger, programs
from lang_env.sources.procedural.integers import gcd_lcm, remainders
from lang_env.sources.procedural.progressions import sequences
from lang_env.sources.procedural.rationals import fractions
from lang_env.sources.procedural.stories import word

__all__ = [
    "chain",
    "fractions",
    "gcd_lcm",
    "ledger",
    "linear",
    "programs",
    "remainders",
    "sequences",
    "word",
]
