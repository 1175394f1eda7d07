"""Pauses between retries."""

from __future__ import annotations

from rheos.core.connectors.backoff import Backoff


def test_pauses_grow_to_a_second_and_reset_after_a_success() -> None:
    back_off, now_us, waits = Backoff(retry_for_us=3_000_000), 7, []
    assert not back_off.failing
    while (wait_us := back_off.failed(now_us)) is not None:
        waits.append(wait_us)
        now_us += wait_us
    assert waits == [50_000, 100_000, 200_000, 400_000, 800_000, 1_000_000, 1_000_000]
    assert back_off.failing_for_us(now_us) == sum(waits)
    back_off.restore()
    assert not back_off.failing
    assert back_off.failing_for_us(now_us) == 0
    assert back_off.failed(now_us) == 50_000


def test_without_a_budget_there_is_no_retry() -> None:
    assert Backoff(retry_for_us=0).failed(0) is None
