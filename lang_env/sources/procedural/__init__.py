"""Procedural problem families: a seed becomes a problem with a worked solution, a step a line."""

from lang_env.sources.procedural.families import chain, ledger, programs

__all__ = ["chain", "ledger", "programs"]
