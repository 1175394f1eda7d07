"""Restart strategies: from the times of failures to delays."""

from __future__ import annotations

import pytest

from rheos.core.checkpoint.config import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)
from rheos.core.checkpoint.restart import LONGEST_UNAVAILABLE_MS, History, after_failure, primary
from rheos.core.errors import (
    CheckpointError,
    ConfigurationError,
    FencedError,
    InputError,
    RheosError,
    SchemaError,
    StateAccessError,
    TransportError,
    UnavailableError,
    UnrestorableError,
    UserFunctionError,
)

LOST = TransportError("a peer is lost")


def delays(
    strategy: RestartStrategy, times_ms: list[int], error: RheosError = LOST
) -> list[int | None]:
    history, result = History(), []
    for now_ms in times_ms:
        decision = after_failure(strategy, history, error, now_ms)
        history = decision.history
        result.append(decision.after_ms)
    return result


def test_no_restart() -> None:
    assert delays(NoRestart(), [0]) == [None]


def test_fixed_delay_counts_its_attempts() -> None:
    assert delays(FixedDelay(attempts=2, delay_ms=70), [0, 10**9, 2 * 10**9]) == [70, 70, None]


def test_exponential_delay_grows_to_its_bound_and_never_gives_up() -> None:
    strategy = ExponentialDelay(initial_ms=100, factor=2, max_ms=500, reset_after_ms=10_000)
    assert delays(strategy, [0, 200, 500, 1000, 2000, 3000]) == [100, 200, 400, 500, 500, 500]


def test_after_an_outage_of_any_length_the_job_restarts_within_seconds() -> None:
    times_ms = [minute * 60_000 for minute in range(20)]
    away = UnavailableError("no broker answers")
    assert max(filter(None, delays(ExponentialDelay(), times_ms, away))) == LONGEST_UNAVAILABLE_MS
    assert max(filter(None, delays(ExponentialDelay(), times_ms))) == 60_000


def test_exponential_delay_starts_over_after_quiet_time() -> None:
    strategy = ExponentialDelay(initial_ms=100, factor=2, max_ms=500, reset_after_ms=10_000)
    # Quiet is counted from the restart: the delay of 200 ms does not count as quiet.
    assert delays(strategy, [0, 200, 10_399, 20_799]) == [100, 200, 400, 100]


def test_failure_rate_looks_back_over_its_interval() -> None:
    strategy = FailureRate(failures=2, interval_ms=1000, delay_ms=5)
    assert delays(strategy, [0, 500, 1000, 1500]) == [5, 5, 5, 5]
    assert delays(strategy, [0, 500, 999]) == [5, 5, None]


ENDLESS, BOUNDED, RATE = ExponentialDelay(), FixedDelay(3), FailureRate(3, 1000)


@pytest.mark.parametrize(
    ("error", "restarted_by"),
    [
        (TransportError("x"), [ENDLESS, BOUNDED, RATE]),
        (CheckpointError("x"), [ENDLESS, BOUNDED, RATE]),
        (RheosError("x"), [ENDLESS, BOUNDED, RATE]),
        (UserFunctionError("x"), [BOUNDED, RATE]),
        (InputError("x"), [BOUNDED, RATE]),
        (UnrestorableError("x"), [BOUNDED, RATE]),
        (SchemaError("x"), []),
        (StateAccessError("x"), []),
        (ConfigurationError("x"), []),
        (FencedError("x"), []),
    ],
)
def test_an_error_that_recurs_on_every_replay_ends_the_job(
    error: RheosError, restarted_by: list[RestartStrategy]
) -> None:
    for strategy in (ENDLESS, BOUNDED, RATE):
        assert (delays(strategy, [0], error) != [None]) == (strategy in restarted_by)


def test_the_primary_error_explains_the_others() -> None:
    user, fenced = UserFunctionError("division by zero"), FencedError("taken over")
    assert primary([LOST, user, LOST]) is user
    assert primary([LOST, user, fenced]) is fenced
    assert primary([LOST, TransportError("another")]) is LOST
