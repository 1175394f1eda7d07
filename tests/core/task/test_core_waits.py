"""Waits of a slot's thread for a core, as the system counts them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rheos.core.protocol.ports import ThreadTime
from rheos.core.task.core_waits import CoreWaits


def waits(ran_us: int, queued_us: int) -> CoreWaits:
    times: Iterator[ThreadTime] = iter([ThreadTime(7, 9), ThreadTime(7 + ran_us, 9 + queued_us)])
    return CoreWaits(lambda: next(times))


@pytest.mark.parametrize(
    ("busy_us", "ran_us", "queued_us", "waited"),
    [
        (900, 900, 0, 0),
        (900, 300, 600, 600),
        pytest.param(900, 800, 600, 100, id="some waits were between turns"),
        pytest.param(900, 100, 0, 0, id="the thread waits for a server"),
        pytest.param(0, 50, 700, 0, id="no turn"),
    ],
)
def test_only_waits_for_a_core_within_turns_count(
    busy_us: int, ran_us: int, queued_us: int, waited: int
) -> None:
    of = waits(ran_us, queued_us)
    assert of.worked_share(busy_us) == pytest.approx(1 - waited / max(busy_us, 1))
    assert of.total_us == waited


def test_a_system_without_thread_times_reports_no_waits() -> None:
    assert CoreWaits(lambda: None).worked_share(1_000) == 1
