"""Job-wide context for all functions: the job's name, parameters and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rheos.core.graph.parameters import Parameters


@dataclass(frozen=True)
class JobContext:
    name: str = "job"
    parameters: Parameters = field(default_factory=Parameters)
    files: Mapping[str, str] = field(default_factory=dict)
    """Paths of files and folders by name. While the driver makes the plan they are its own paths.
    Functions on a worker receive the worker's paths."""
    code_folder: str | None = None
    """Local folder in which a worker keeps compiled functions for later processes; None keeps none."""
    compiles_at_once: bool = False
    """Whether functions are compiled before their first row, and also called for small batches."""
