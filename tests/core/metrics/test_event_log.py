"""The event log of a job: sentences with times, ends and repetitions."""

from __future__ import annotations

import msgspec
import pytest

from rheos.core.metrics.event_log import (
    MAX_DETAIL,
    MAX_EVENTS,
    MAX_TEXT,
    REPEATED_WITHIN_MS,
    EventKind,
    EventLevel,
    EventLog,
    JobEvent,
    OngoingCondition,
    ShownEvent,
)

T0 = 1_790_870_400_000
LOST = "worker 1 lost (killed by signal 9)"


@pytest.fixture
def log() -> EventLog:
    return EventLog("process 4711 on host a", "d1")


def texts(log: EventLog, now_ms: int = T0) -> list[str]:
    return [event.text(now_ms) for event in log.newest_first()]


def test_an_event_receives_its_outcome_and_duration(log: EventLog) -> None:
    log.add(T0, EventKind.STARTED, "started")
    id = log.add(
        T0 + 1000, EventKind.RESTART, LOST, level=EventLevel.WARNING, ongoing=True, subtask=1, attempt=2
    )
    assert texts(log, T0 + 3000) == [f"{LOST}, for 2.0 s so far", "started"]
    log.end(id, T0 + 5000, "restarted in {span}")
    log.end(id, T0 + 9000, "it has its end")
    assert texts(log) == [f"{LOST}, restarted in 4.0 s", "started"]
    shown = ShownEvent.of(log.newest_first()[0], T0 + 60_000)
    assert msgspec.to_builtins(shown) == {
        "id": "d1-2",
        "at": "2026-10-01T16:00:01.000Z",
        "until": "2026-10-01T16:00:05.000Z",
        "duration_ms": 4000,
        "ongoing": False,
        "kind": "restart",
        "level": "warning",
        "text": f"{LOST}, restarted in 4.0 s",
        "detail": "",
        "times": 1,
        "attempt": 2,
        "driver": "process 4711 on host a",
        "operator": None,
        "subtask": 1,
    }


def test_repetitions_are_one_event_that_counts(log: EventLog) -> None:
    for at_ms in (T0, T0 + 10_000, T0 + 20_000):
        id = log.add(at_ms, EventKind.RESTART, LOST, same="restart: lost", ongoing=True)
        log.end(id, at_ms + 4000, "restarted in {span}")
    (event,) = log.newest_first()
    assert (event.times, event.at_ms, event.until_ms) == (3, T0, T0 + 24_000)
    assert event.text(T0) == f"{LOST}, 3 times within 24.0 s, restarted"
    log.add(T0 + 30_000, EventKind.RESTART, "no price", same="restart: another")
    later_ms = T0 + 30_001 + REPEATED_WITHIN_MS
    log.add(later_ms, EventKind.RESTART, "no price", same="restart: another")
    assert [event.times for event in log.newest_first()] == [1, 1, 3]


def test_conditions_begin_and_end_events(log: EventLog) -> None:
    away = OngoingCondition(
        what="kafka:9092 does not answer",
        kind=EventKind.SERVER,
        since_ms=T0 - 5000,
        over="answered again after {span}",
    )
    log.conditions(T0, {"kafka": away})
    # The sentence has a number that grows; the subject stays.
    log.conditions(T0 + 1000, {"kafka": msgspec.structs.replace(away, what="for 6 s")})
    late = OngoingCondition(what="late rows rise", operator="windows")
    log.conditions(T0 + 25_000, {"late": late})
    assert texts(log, T0 + 26_000) == [
        "late rows rise, for 1.0 s so far",
        "kafka:9092 does not answer, answered again after 30.0 s",
    ]
    log.conditions(T0 + 30_000, {"kafka": msgspec.structs.replace(away, since_ms=T0 + 29_000)})
    assert [event.ongoing for event in log.newest_first()] == [True, False, False]


def test_the_log_is_bounded_and_counts_what_it_drops(log: EventLog) -> None:
    for number in range(MAX_EVENTS + 5):
        log.add(T0 + number, EventKind.SAVEPOINT, f"{number} {'x' * MAX_TEXT}", detail="y" * 9999)
    events = log.newest_first()
    assert (len(events), log.dropped) == (MAX_EVENTS, 5)
    assert (len(events[0].what), len(events[0].detail)) == (MAX_TEXT, MAX_DETAIL)
    assert events[-1].what.startswith("5 ")


def test_ongoing_events_of_an_earlier_driver_have_an_unknown_end(log: EventLog) -> None:
    earlier = EventLog("process 1 on host b", "d0")
    earlier.add(T0, EventKind.RESTART, LOST, ongoing=True)
    log.add(T0 + 9000, EventKind.TAKEOVER, "taken over")
    log.precede(earlier.own)
    assert texts(log, T0 + 99_000) == ["taken over", LOST]
    assert [event.id for event in log.newest_first()] == ["d1-1", "d0-1"]


def test_events_survive_being_stored() -> None:
    event = JobEvent(id="a-1", at_ms=T0, kind=EventKind.ENDED, what="finished", times=2, until_ms=T0)
    assert msgspec.json.decode(msgspec.json.encode(event), type=JobEvent) == event
