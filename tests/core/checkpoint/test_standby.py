"""When a standby takes over a job: decisions over a timeline of readings of the note."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from rheos.core.checkpoint.driver_note import RENEW_MS, WATCH_MS, Driver, DriverNote
from rheos.core.checkpoint.events import Outcome
from rheos.core.checkpoint.standby import LOOK_EVERY_MS, Standby, StandbyView

NOTE = DriverNote(owner="a", driver="process 7 on host h", since_ms=0)
BEHIND, TAKES_OVER, OVER = StandbyView.BEHIND, StandbyView.TAKES_OVER, StandbyView.OVER


def renewed(times: int, owner: str = "a") -> DriverNote:
    return msgspec.structs.replace(NOTE, owner=owner, renewals=times)


def ended(outcome: Outcome, owner: str = "a") -> DriverNote:
    return msgspec.structs.replace(NOTE, owner=owner, released=True, outcome=outcome)


def looks(
    standby: Standby,
    notes: Iterable[DriverNote | None],
    driver: Driver = Driver.UNKNOWN,
    from_ms: int = 0,
) -> list[StandbyView]:
    """Return the decision after each reading, a second apart."""
    return [standby.look(note, driver, from_ms + n * LOOK_EVERY_MS) for n, note in enumerate(notes)]


def test_a_job_that_no_driver_runs_is_taken_over_at_once() -> None:
    assert looks(Standby(), [None]) == [TAKES_OVER]


def test_while_the_leader_renews_the_standby_waits() -> None:
    notes = [renewed(second * 1000 // RENEW_MS) for second in range(3_600)]
    assert set(looks(Standby(), notes)) == {BEHIND}


def test_a_silent_driver_on_another_host_is_replaced_after_the_lease() -> None:
    seen = looks(Standby(), [renewed(1), renewed(1), renewed(2), *[renewed(2)] * 8])
    silent = WATCH_MS // LOOK_EVERY_MS
    assert seen == [BEHIND] * (2 + silent) + [TAKES_OVER] * (9 - silent)


def test_the_state_of_a_driver_on_this_host_is_known_at_once() -> None:
    assert looks(Standby(), [renewed(1)], Driver.DEAD) == [TAKES_OVER]
    frozen = [renewed(1)] * 60
    assert set(looks(Standby(), frozen, Driver.ALIVE)) == {BEHIND}


@pytest.mark.parametrize("outcome", Outcome)
def test_a_job_that_ends_during_standby_is_over(outcome: Outcome) -> None:
    assert looks(Standby(), [renewed(1), ended(outcome)]) == [BEHIND, OVER]
    # Also where another took it over first, and was quick.
    assert looks(Standby(), [renewed(1), ended(outcome, "b")]) == [BEHIND, OVER]


@pytest.mark.parametrize("outcome", Outcome)
def test_a_job_that_had_ended_before_is_started(outcome: Outcome) -> None:
    assert looks(Standby(), [ended(outcome)]) == [TAKES_OVER]


def test_a_failed_driver_releases_the_job_and_is_replaced_at_once() -> None:
    given_back = msgspec.structs.replace(NOTE, released=True)
    assert looks(Standby(), [renewed(1), given_back]) == [BEHIND, TAKES_OVER]


def test_a_store_without_the_note_is_not_trusted() -> None:
    """Check this with a folder that is no longer mounted, in which the job would begin from scratch."""
    assert looks(Standby(), [renewed(1), None, None, renewed(2)]) == [BEHIND] * 4


def test_a_faster_standby_is_watched_from_the_beginning() -> None:
    notes = [*[renewed(4)] * 7, *[renewed(0, "b")] * 7]
    assert set(looks(Standby(), notes)) == {BEHIND}


def test_time_without_own_readings_does_not_count() -> None:
    """Check a standby that was frozen for an hour, or could not read the store: the driver may have
    been, too."""
    standby = Standby()
    assert looks(standby, [renewed(1)]) == [BEHIND]
    later = looks(standby, [renewed(1)] * 7, from_ms=3_600_000)
    assert later == [BEHIND] * 5 + [TAKES_OVER] * 2
