"""Engines: they propose tokens; the environment judges them."""
