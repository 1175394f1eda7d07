"""The user's configuration of checkpoints and restarts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from rheos.core.checkpoint.log_marks import LOG_BLOCK


@dataclass(frozen=True)
class ExponentialDelay:
    """Restarts without limit, waiting longer after each failure. A time without failures resets the
    delay."""

    initial_ms: int = 100
    factor: float = 2.0
    max_ms: int = 60_000
    reset_after_ms: int = 600_000


@dataclass(frozen=True)
class FixedDelay:
    """Restarts at most `attempts` times, each after `delay_ms`."""

    attempts: int
    delay_ms: int = 1000


@dataclass(frozen=True)
class FailureRate:
    """Restarts unless there were more than `failures` within `interval_ms`."""

    failures: int
    interval_ms: int
    delay_ms: int = 1000


@dataclass(frozen=True)
class NoRestart:
    """Ends the job at the first failure."""


RestartStrategy: TypeAlias = ExponentialDelay | FixedDelay | FailureRate | NoRestart


@dataclass(frozen=True)
class CheckpointConfig:
    """Configuration of checkpoints; all times are in ms. If `interval_ms` is None, the job takes only
    the final checkpoint at the end of input."""

    interval_ms: int | None = 10_000
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    retain: int = 2
    """Number of completed checkpoints that are retained."""
    tolerable_failures: int = 3
    """Number of consecutive checkpoints that may fail before the attempt fails."""
    max_concurrent: int = 1
    """Maximum number of open checkpoints at a time; one if `min_pause_ms` is set."""
    log_block: int = LOG_BLOCK
    """Entries per block of the job's log (CP42). Not a user setting: all drivers need the same."""
    slots_within_ms: int = 10_000
    """Time that a job waits for missing slots before it runs with fewer, if it may."""
    restart: RestartStrategy = field(default_factory=ExponentialDelay)
    restore_ahead: bool = False
    """Whether slots restore each checkpoint ahead of the next attempt, while one runs (UP12)."""
