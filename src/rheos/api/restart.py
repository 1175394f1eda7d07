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
    """Return the strategy that restarts without limit, with a growing delay. It is the default.

    ```python
    rh.Environment(restart=rh.restart.exponential_delay("1s", max="5m"))
    ```

    Args:
        initial: Delay after the first failure.
        factor: Factor by which the delay grows with each further failure.
        max: Maximum delay.
        reset_after: Time without failures after which the delay is `initial` again.

    Returns:
        The strategy.

    Raises:
        ConfigurationError: `factor` is less than 1.
    """
    if factor < 1:
        raise ConfigurationError(f"the factor of a restart delay must be at least 1, not {factor}")
    return ExponentialDelay(duration_ms(initial), factor, duration_ms(max), duration_ms(reset_after))


def fixed_delay(attempts: int, *, delay: Duration = "1s") -> FixedDelay:
    """Return the strategy that restarts a limited number of times.

    ```python
    rh.Environment(restart=rh.restart.fixed_delay(3, delay="10s"))
    ```

    Args:
        attempts: Maximum number of restarts.
        delay: Delay after each failure.

    Returns:
        The strategy.

    Raises:
        ConfigurationError: `attempts` is negative.
    """
    if attempts < 0:
        raise ConfigurationError(f"the number of restarts must not be negative, but is {attempts}")
    return FixedDelay(attempts, duration_ms(delay))


def failure_rate(failures: int, *, interval: Duration, delay: Duration = "1s") -> FailureRate:
    """Return the strategy that restarts unless failures are too frequent.

    ```python
    rh.Environment(restart=rh.restart.failure_rate(5, interval="10m"))
    ```

    Args:
        failures: Maximum number of failures within an interval.
        interval: Length of the interval.
        delay: Delay after each failure.

    Returns:
        The strategy.

    Raises:
        ConfigurationError: `failures` is negative.
    """
    if failures < 0:
        raise ConfigurationError(f"the number of failures must not be negative, but is {failures}")
    return FailureRate(failures, duration_ms(interval), duration_ms(delay))


def none() -> NoRestart:
    """Return the strategy that never restarts: the first failure ends the job.

    ```python
    rh.Environment(restart=rh.restart.none())
    ```

    Returns:
        The strategy.
    """
    return NoRestart()
