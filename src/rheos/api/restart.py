"""Strategies for restarting after a failure: `rh.restart.fixed_delay(3, delay="1s")`, ..."""

from __future__ import annotations

from rheos.core.checkpoint.config import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.durations import Duration, duration_ms

__all__ = ["RestartStrategy", "exponential_delay", "failure_rate", "fixed_delay", "none"]


def exponential_delay(
    initial: Duration = "100ms",
    *,
    factor: float = 2.0,
    max: Duration = "1m",
    reset_after: Duration = "10m",
) -> ExponentialDelay:
    """Restarts for ever. Waits `initial`, then `factor` times longer after each failure, up to `max`;
    a job that ran well for `reset_after` starts over with `initial`. The default."""
    if factor < 1:
        raise ConfigurationError(f"the factor of a restart delay must be at least 1, not {factor}")
    return ExponentialDelay(duration_ms(initial), factor, duration_ms(max), duration_ms(reset_after))


def fixed_delay(attempts: int, *, delay: Duration = "1s") -> FixedDelay:
    """Restarts at most `attempts` times, `delay` after each failure."""
    if attempts < 0:
        raise ConfigurationError(f"the number of restarts must not be negative, but is {attempts}")
    return FixedDelay(attempts, duration_ms(delay))


def failure_rate(failures: int, *, interval: Duration, delay: Duration = "1s") -> FailureRate:
    """Restarts `delay` after each failure, unless more than `failures` fell within `interval`."""
    if failures < 0:
        raise ConfigurationError(f"the number of failures must not be negative, but is {failures}")
    return FailureRate(failures, duration_ms(interval), duration_ms(delay))


def none() -> NoRestart:
    """The first failure ends the job."""
    return NoRestart()
