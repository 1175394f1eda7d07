"""Decision whether another driver runs a job."""

from __future__ import annotations

import msgspec
import pytest

from rheos.core.checkpoint.driver_note import (
    RENEW_MS,
    WATCH_MS,
    Driver,
    DriverNote,
    NoteVerdict,
    decide,
    note_path,
)
from rheos.core.protocol.ids import JobId

NOTE = DriverNote(owner="a", driver="process 7 on host h", since_ms=0, renewals=4)
RENEWED = msgspec.structs.replace(NOTE, renewals=5)
ANOTHERS = msgspec.structs.replace(NOTE, owner="b")


def test_a_job_without_a_note_is_free() -> None:
    assert decide(None, None, Driver.UNKNOWN, 0) is NoteVerdict.FREE
    assert (
        decide(NOTE, None, Driver.UNKNOWN, 10) is NoteVerdict.FREE
    )  # Given back while it was watched.


@pytest.mark.parametrize("driver", Driver)
def test_a_note_that_is_released_frees_the_job(driver: Driver) -> None:
    released = msgspec.structs.replace(NOTE, released=True)
    assert decide(NOTE, released, driver, 0) is NoteVerdict.FREE


@pytest.mark.parametrize("watched_ms", [0, WATCH_MS])
def test_a_driver_on_this_host_is_known_dead_or_alive_at_once(watched_ms: int) -> None:
    assert decide(NOTE, NOTE, Driver.DEAD, watched_ms) is NoteVerdict.FREE
    assert decide(NOTE, NOTE, Driver.ALIVE, watched_ms) is NoteVerdict.IN_USE


def test_a_driver_on_another_host_is_watched() -> None:
    assert decide(NOTE, NOTE, Driver.UNKNOWN, WATCH_MS - 1) is NoteVerdict.WATCH
    assert decide(NOTE, NOTE, Driver.UNKNOWN, WATCH_MS) is NoteVerdict.FREE


@pytest.mark.parametrize("latest", [RENEWED, ANOTHERS], ids=["renewed", "another's"])
def test_a_note_that_changes_while_it_is_watched_is_in_use(latest: DriverNote) -> None:
    assert decide(NOTE, latest, Driver.UNKNOWN, WATCH_MS) is NoteVerdict.IN_USE


def test_a_note_is_watched_for_two_renewals() -> None:
    assert WATCH_MS > 2 * RENEW_MS


def test_the_note_is_stored_with_the_job() -> None:
    assert note_path(JobId("a/b")) == "a%2Fb/driver.json"
