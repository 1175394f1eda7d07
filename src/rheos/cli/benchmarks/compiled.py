"""The state machine as it is written in plain Python, compiled."""

from __future__ import annotations

from rheos.cli.benchmarks.state_machine import Validate
from rheos.core.graph.compiled import compiled


@compiled
class ValidateCompiled(Validate):
    """`Validate`, in machine code."""
