"""Requests of users to a simulated job while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Requests:
    """Rate of each request, per second of virtual time; 0 means never. Requests stop at `until_us`."""

    cancel: float = 0.0
    """The job is cancelled, and started again."""
    savepoint: float = 0.0
    stop: float = 0.0
    """The job is stopped with a savepoint, and started again."""
    drain: float = 0.0
    """The job is stopped with a savepoint after its input was asked to end."""
    rescale: float = 0.0
    """Request to continue with another parallelism, one of those that its drivers use."""
    resume_from_savepoint: float = 0.0
    """Probability that a stopped job is started from its savepoint, and not from its log."""
    leave: float = 0.0
    """Probability that a stopped job is not started again."""
    until_us: int = 1_500_000
