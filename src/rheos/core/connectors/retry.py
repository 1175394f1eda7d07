"""Retries of a user's call that has failed."""

from __future__ import annotations

from dataclasses import dataclass

from rheos.core.errors import ProgramError
from rheos.core.protocol.durations import Duration, duration_ms


@dataclass(frozen=True)
class Retry:
    """A policy for retries of a failed call; see `retry`."""

    times: int
    on: tuple[type[Exception], ...]
    first_wait_us: int
    longest_wait_us: int


def retry(
    times: int = 3,
    *,
    on: type[Exception] | tuple[type[Exception], ...] = Exception,
    first_wait: Duration = "50ms",
    longest_wait: Duration = "1s",
) -> Retry:
    """Return a policy that retries a failed call.

    ```python
    visits.map_async(ask, retries=rh.retry(5, on=ConnectionError))
    ```

    Args:
        times: the maximum number of retries after the first attempt.
        on: the errors after which the call is retried; any other error ends the job.
        first_wait: the wait before the first retry; it doubles before each further retry.
        longest_wait: the maximum wait before a retry.

    Returns:
        The policy.

    Raises:
        ProgramError: A number or duration is not positive, or `on` is not an exception class.
    """
    if not isinstance(times, int) or isinstance(times, bool) or times < 1:
        raise ProgramError(f"the number of retries must be an integer of at least 1, not {times!r}")
    kinds = on if isinstance(on, tuple) else (on,)
    if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise ProgramError(
            f"on={on!r} is not an exception class",
            hint="write on=ConnectionError, or on=(OSError, TimeoutError)",
        )
    first_us, longest_us = duration_ms(first_wait) * 1000, duration_ms(longest_wait) * 1000
    if first_us <= 0 or longest_us < first_us:
        raise ProgramError(
            f"first_wait={first_wait} must not exceed longest_wait={longest_wait}, and both "
            "must be positive",
            hint='write first_wait="50ms", longest_wait="1s"',
        )
    return Retry(times, kinds, first_us, longest_us)
