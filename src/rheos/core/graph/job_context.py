"""The context of all functions of a job: its name, its parameters, its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rheos.core.graph.parameters import Parameters


@dataclass(frozen=True)
class JobContext:
    name: str = "job"
    parameters: Parameters = field(default_factory=Parameters)
    files: Mapping[str, str] = field(default_factory=dict)
    """By name, the path of a file or a folder: the driver's as the plan is made, and the worker's own
    where the context is handed to functions."""
