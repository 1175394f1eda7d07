"""The state machine as it is written in plain Python, compiled."""

from __future__ import annotations

from rheos.bench.state_machine import Validate
from rheos.graph.compiled import compiled


@compiled
class ValidateCompiled(Validate):
    """`Validate`, in machine code."""
