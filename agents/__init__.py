"""Agents that learn to reason: each module at this level is one runnable algorithm or command.

``python -m agents.vineppo`` trains the embedded policy. No module is imported here, because
``python -m agents.NAME`` would then load it twice.
"""
