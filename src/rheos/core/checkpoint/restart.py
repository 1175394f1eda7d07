"""Restart strategies: whether, and after which delay, another attempt follows a failed one.

Some failures come back on every replay. They are treated separately:

- a wrong program, a wrong configuration, or another owner of the job: never restarted;
- the user's function, the data, state that cannot be restored, or a defect of Rheos: restarted only
  under `FixedDelay` and `FailureRate`, with which the user has limited the number of tries. The endless
  strategy, which is the default, ends the job at once: the same records would raise the same error
  again, and a clear error with a nonzero exit code is more useful than a job that seems to run. (Flink
  restarts on these too.)

After any other failure (a lost process, a lost peer, an unavailable store or target), the job restarts.
"""

from __future__ import annotations

from dataclasses import dataclass

from rheos.core.checkpoint.config import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)
from rheos.core.errors import (
    ConfigurationError,
    FencedError,
    InputError,
    InternalError,
    ProgramError,
    RheosError,
    TransportError,
    UnavailableError,
    UnrestorableError,
    UserFunctionError,
)

LONGEST_UNAVAILABLE_MS = 5_000
"""Longest delay of the endless strategy after a system was unavailable. A restart is cheap then, and
output resumes soon after the system's return, however long it was unavailable."""


@dataclass(frozen=True, slots=True)
class History:
    """The failures of a job so far that a strategy considers."""

    failures: int = 0
    times_ms: tuple[int, ...] = ()
    """Times of the failures within a failure rate's interval; for other strategies, the last one."""
    delay_ms: int = 0
    """Last delay in ms."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision after a failure. If `after_ms` is None, the job ends."""

    after_ms: int | None
    history: History


def may_restart(strategy: RestartStrategy, error: RheosError) -> bool:
    match error:
        case ProgramError() | ConfigurationError() | FencedError():
            return False
        case UserFunctionError() | InputError() | InternalError() | UnrestorableError():
            return isinstance(strategy, FixedDelay | FailureRate)
        case _:
            return not isinstance(strategy, NoRestart)


def after_failure(
    strategy: RestartStrategy, history: History, error: RheosError, now_ms: int
) -> Decision:
    """Decide what follows a failure at `now_ms` (monotonic)."""
    failures = history.failures + 1
    last = history.times_ms[-1] if history.times_ms else None
    after_ms: int | None
    times: tuple[int, ...] = (now_ms,)
    match strategy:
        case NoRestart():
            after_ms = None
        case FixedDelay():
            after_ms = strategy.delay_ms if failures <= strategy.attempts else None
        case FailureRate():
            recent = (t for t in history.times_ms if now_ms - t < strategy.interval_ms)
            times = (*recent, now_ms)
            after_ms = strategy.delay_ms if len(times) <= strategy.failures else None
        case ExponentialDelay():
            if last is None or now_ms - last >= strategy.reset_after_ms + history.delay_ms:
                after_ms = strategy.initial_ms
            else:
                after_ms = min(int(history.delay_ms * strategy.factor), strategy.max_ms)
            if isinstance(error, UnavailableError):
                after_ms = min(after_ms, LONGEST_UNAVAILABLE_MS)
    if not may_restart(strategy, error):
        after_ms = None
    return Decision(after_ms, History(failures, times, after_ms or 0))


def primary(errors: list[RheosError]) -> RheosError:
    """Return the error of an attempt that the user sees: the first one, ignoring the lost peers that
    follow any failure. A FencedError takes precedence over all others."""
    for error in errors:
        if isinstance(error, FencedError):
            return error
    return next((error for error in errors if not isinstance(error, TransportError)), errors[0])


class Failures:
    """The failures of one job: those of the ending attempt, and the earlier history."""

    def __init__(self, strategy: RestartStrategy) -> None:
        self._strategy = strategy
        self._history = History()
        self._errors: list[RheosError] = []
        self._first_ms = 0

    def first(self, error: RheosError, now_ms: int) -> None:
        """Record the first error of an attempt, or of its start."""
        self._errors = [error]
        self._first_ms = now_ms

    def further(self, error: RheosError) -> None:
        """Record a later error of the attempt. It may explain the first."""
        self._errors.append(error)

    def decide(self) -> tuple[RheosError, int | None]:
        """Return the error to report, and the delay in ms until the next attempt; None ends the job."""
        error = primary(self._errors)
        decision = after_failure(self._strategy, self._history, error, self._first_ms)
        self._history = decision.history
        return error, decision.after_ms
