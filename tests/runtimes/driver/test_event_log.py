"""The event log for people, as a driver writes it: sentences, durations, and events of other
drivers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rheos.core.checkpoint.config import CheckpointConfig, FixedDelay
from rheos.core.checkpoint.events import (
    AfterSavepoint,
    AttemptEnded,
    AttemptLost,
    AttemptRunning,
    Outcome,
)
from rheos.core.checkpoint.names import safe_name
from rheos.core.errors import CheckpointError, TransportError, UserFunctionError
from rheos.core.metrics.event_files import FILE_EVENTS, MAX_FILES, events_folder, read_events
from rheos.core.metrics.event_log import MAX_EVENTS, EventKind, EventLevel
from rheos.core.metrics.health import FindingKind, JobFinding, Severity, simple_health
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.driver.event_keeper import stored_events
from rheos.runtimes.job import JobState, Predecessor
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.store import MemoryStore
from tests.runtimes.driver.test_master import CONFIG, FILES, Driver, failed

JOB = JobId("job")
HERE = "process 99 on host b"
LOST = TransportError("worker 1 lost (killed by signal 9)", hint="look at its memory")


def texts(driver: Driver) -> list[str]:
    """Return the texts of the events, oldest first."""
    now_ms = driver.clock.now_ms()
    return [event.text(now_ms) for event in reversed(driver.master.events())]


def writes(driver: Driver) -> None:
    """Let time pass, so that the event log is written."""
    for _ in range(3):
        driver.step(after_ms=600)
        while driver.io.run_due():
            pass


def stored(driver: Driver) -> list[str]:
    return [event.text(0) for event in reversed(stored_events(driver.store, JOB))]


def test_a_lost_worker_and_the_restart_are_one_event() -> None:
    driver = Driver(driver=HERE)
    driver.step()
    driver.step(AttemptRunning(Attempt(1)), after_ms=2500)
    assert texts(driver) == [f"started by {HERE}, running after 2.5 s"]
    driver.step(failed(LOST, subtask=1), after_ms=500)
    driver.step(AttemptEnded(Attempt(1)), after_ms=1000)
    assert texts(driver)[1:] == ["worker 1 lost (killed by signal 9), for 1.0 s so far"]
    driver.step(after_ms=100)
    driver.step(AttemptRunning(Attempt(2)), after_ms=2900)
    assert texts(driver)[1:] == ["worker 1 lost (killed by signal 9), restarted in 4.0 s"]
    event = driver.master.events()[0]
    assert (event.kind, event.level.value, event.subtask) == (EventKind.RESTART, "warning", 1)
    assert (event.attempt, event.driver) == (1, HERE)
    assert "look at its memory" in event.detail


def test_repeated_failures_are_counted_in_one_event() -> None:
    driver = Driver(driver=HERE).runs()
    for attempt in range(1, 4):
        driver.step(failed(TransportError(f"process {attempt} is gone"), attempt=attempt), after_ms=900)
        driver.step(AttemptEnded(Attempt(attempt)))
        driver.step(after_ms=100)
        driver.step(AttemptRunning(Attempt(attempt + 1)))
    assert texts(driver)[1:] == ["process 3 is gone, 3 times within 2.1 s, restarted"]
    driver.step(failed(UserFunctionError("no price", operator="map"), attempt=4), after_ms=900)
    assert texts(driver)[2:] == ["no price, for 0 ms so far"]


def test_failed_checkpoints_are_counted_in_one_event() -> None:
    config = CheckpointConfig(
        interval_ms=1000, tolerable_failures=5, restart=FixedDelay(attempts=5, delay_ms=100)
    )
    driver = Driver(config=config).runs()
    for checkpoint in (1, 2):
        driver.step(after_ms=1000)
        declined = control.Decline(
            attempt=Attempt(1),
            subtask=1,
            checkpoint=CheckpointId(checkpoint),
            reason="disk full",
        )
        driver.step(declined)
    said = "checkpoint 2 failed: subtask 1: disk full, 2 times within 1.0 s"
    assert texts(driver) == ["started, running after 0 ms", said]


def test_savepoints_and_failed_rescales_are_events() -> None:
    driver = Driver().runs()
    driver.master.request_savepoint("s3://key:hidden@bucket/s", AfterSavepoint.GO_ON)
    driver.step(after_ms=100)
    assert texts(driver)[1].startswith("savepoint in s3://***@bucket/s/")
    driver.step(failed(LOST, subtask=1), after_ms=400)
    failure = texts(driver)[1]
    assert "failed after 400 ms: the job failed while the savepoint was taken" in failure
    refused = driver.master.request_rescale(9)
    driver.step(AttemptEnded(Attempt(1)))
    driver.step(after_ms=100)
    driver.step(AttemptRunning(Attempt(2)))
    assert refused.exception(0) is not None
    (rescale,) = [each for each in driver.master.events() if each.kind is EventKind.RESCALE]
    assert rescale.text(0).startswith("rescale from 2 to 9, failed after 0 ms: ")
    assert "hidden" not in str(driver.master.events())


def test_a_completed_rescale_is_an_event() -> None:
    driver = Driver().runs()
    driver.master.request_rescale(1)
    driver.step(after_ms=100)
    driver.step(*driver.shares(1))
    done = [
        control.Committed(attempt=Attempt(1), subtask=i, checkpoint=CheckpointId(1)) for i in (0, 1)
    ]
    driver.step(*done)
    driver.step(AttemptEnded(Attempt(1)))
    driver.step(AttemptRunning(Attempt(2)), after_ms=900)
    assert texts(driver)[1:] == ["rescale from 2 to 1, done in 900 ms"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, "cancelled"),
        (UserFunctionError("no price", operator="map"), "failed: no price"),
    ],
)
def test_the_end_of_a_job_is_an_event(error: Any, said: str) -> None:
    driver = Driver(config=CheckpointConfig(restart=FixedDelay(attempts=0, delay_ms=0))).runs()
    if error is None:
        driver.master.cancel()
        driver.step()
    else:
        driver.step(failed(error))
    driver.step(AttemptEnded(Attempt(1)))
    assert driver.master.done
    assert texts(driver)[-1] == said
    event = driver.master.events()[0]
    assert (event.kind, event.operator) == (EventKind.ENDED, None if error is None else "map")
    assert stored(driver) == texts(driver), "the end of a job is written before its driver goes"
    driver.master.abandon(CheckpointError("the job has ended"))
    assert texts(driver)[-1] == said, "a runtime abandons each master at last"


def test_a_restart_and_a_resumption_on_prepared_slots_say_so() -> None:
    driver = Driver(driver=HERE).runs()
    driver.step(failed(LOST, subtask=1))
    driver.step(AttemptEnded(Attempt(1)), after_ms=1000)
    driver.step(after_ms=100)
    driver.step(AttemptRunning(Attempt(2), prepared=True), after_ms=400)
    restarted = "worker 1 lost (killed by signal 9), restarted in 1.5 s, on prepared slots"
    assert texts(driver)[1:] == [restarted]
    lost = Predecessor("process 4711 on host a", released=False)
    second = Driver(driver.store, owner="second", driver=HERE, predecessor=lost)
    second.step()
    second.step(AttemptRunning(Attempt(3), prepared=True))
    assert texts(second)[-1].endswith("after 0 ms, on prepared slots")


def test_a_takeover_names_the_lost_driver_and_its_duration() -> None:
    first = Driver(driver="process 4711 on host a", owner="first").runs()
    first.step(*(first.step(after_ms=1000) and first.shares(1)))
    first.step(failed(LOST, subtask=1))
    writes(first)
    seen_ms = first.clock.now_ms()
    # The driver is killed while its job restarts.
    clock = SimClock()
    clock.advance(first.clock.monotonic_us() + 14_000_000)
    lost = Predecessor("process 4711 on host a", released=False, seen_ms=seen_ms)
    second = Driver(first.store, clock=clock, owner="second", driver=HERE, predecessor=lost)
    second.step()
    second.step(AttemptRunning(Attempt(2)), after_ms=3000)
    writes(second)
    assert texts(second) == [
        "started by process 4711 on host a, running after 0 ms",
        "worker 1 lost (killed by signal 9)",
        f"the driver was lost (process 4711 on host a), taken over by {HERE} from checkpoint 1 "
        "after 17.0 s",
    ]
    assert stored(second) == texts(second)
    assert second.master.status().earlier.drivers == 1


def test_a_standby_with_prepared_slots_has_taken_the_job_over() -> None:
    first = Driver(driver="process 4711 on host a", owner="first").runs()
    first.step(*(first.step(after_ms=1000) and first.shares(1)))
    second = Driver(first.store, clock=first.clock, owner="second", driver=HERE, succeeds="job")
    second.step()
    assert texts(second) == []
    second.master.other_is_gone("process 4711 on host a", first.clock.now_ms())
    second.step(after_ms=7000)
    second.step(AttemptRunning(Attempt(2), prepared=True), after_ms=400)
    assert texts(second) == [
        f"the driver was lost (process 4711 on host a), taken over by {HERE} from checkpoint 1 after "
        "7.4 s, on prepared slots"
    ]
    assert second.master.events()[0].kind is EventKind.TAKEOVER


def test_an_upgrade_hands_the_job_over_to_a_driver() -> None:
    first = Driver(driver="process 4711 on host a", owner="first").runs()
    answer = first.master.request_handover("second", 0)
    first.step(after_ms=100)
    first.step(*first.shares(1))
    done = [
        control.Committed(attempt=Attempt(1), subtask=i, checkpoint=CheckpointId(1)) for i in (0, 1)
    ]
    first.step(*done)
    first.step(AttemptEnded(Attempt(1)))
    assert answer.result(0) is not None
    second = Driver(first.store, clock=first.clock, owner="second", driver=HERE, succeeds="job")
    second.step()
    second.master.other_is_gone()
    second.step(after_ms=100)
    second.step(AttemptRunning(Attempt(2), prepared=True), after_ms=400)
    assert texts(second) == [
        f"handed over to {HERE}, running from checkpoint 1 after 400 ms, on prepared slots"
    ]
    # The successor has no checkpoint yet, and is lost.
    first.step(after_ms=100)
    first.master.other_is_gone()
    first.step(after_ms=100)
    first.step(AttemptRunning(Attempt(3)), after_ms=200)
    before = "process 4711 on host a"
    assert [text for text in texts(first) if text.startswith("taken back")] == [
        f"taken back by {before}, as its successor was lost, running from checkpoint 1 after 200 ms"
    ]


def test_starting_a_job_again_is_an_event() -> None:
    first = Driver(owner="first").runs()
    first.step(*(first.step(after_ms=1000) and first.shares(1)))
    first.master.cancel()
    first.step()
    first.step(AttemptEnded(Attempt(1)))
    before = Predecessor("process 1 on host a", released=True, outcome=Outcome.CANCELLED)
    second = Driver(first.store, owner="second", driver=HERE, predecessor=before).runs()
    said = f"started again by {HERE}; the job had been cancelled, running from checkpoint 1 after 0 ms"
    assert texts(second) == [said]
    writes(second)
    assert texts(second) == ["started, running after 0 ms", "cancelled", said]
    assert second.master.status().state is JobState.RUNNING


def test_an_upgrade_lists_the_changes_of_the_program() -> None:
    first = Driver(owner="first").runs()
    first.step(*(first.step(after_ms=1000) and first.shares(1)))
    entry = first.master._coordinator.kept[-1]
    from rheos.core.checkpoint.events import JobShape
    from rheos.runtimes.driver.event_recorder import program_changes

    same = JobShape(dict(entry.operators), 2, 8, dict(entry.states))
    assert program_changes(entry, same) == ""
    renamed = dict(entry.operators)
    (gone, _), *_ = renamed.items()
    del renamed[gone]
    more = {f"new-{n}": f"new {n}" for n in range(7)}
    changed = JobShape({**renamed, **more}, 2, 8)  # type: ignore[dict-item]
    assert program_changes(entry, changed) == (
        f"new 'new 0', 'new 1', 'new 2', 'new 3', 'new 4' and 2 more; removed {entry.operators[gone]!r}"
    )


def test_files_are_bounded_and_damaged_ones_are_skipped() -> None:
    store = MemoryStore()
    folder = events_folder(safe_name(JOB))
    for number in range(MAX_FILES + 3):
        driver = Driver(store, owner=f"d{number}", config=CONFIG)
        driver.clock.advance(number * 1_000_000)
        driver.master._events._first_ms = driver.clock.now_ms()
        driver.master._events.log.add(number, EventKind.STARTED, f"driver {number}")
        driver.master._events.close()
    assert len(store.list(folder)) == MAX_FILES
    events = read_events(store, folder, JOB)
    assert [event.what for event in events][:1] == ["driver 3"]
    store.put(store.list(folder)[0], b"rubbish")
    assert [event.what for event in read_events(store, folder, JOB)][:1] == ["driver 4"]
    assert read_events(store, folder, JobId("another")) == []


def test_many_events_of_a_driver_are_in_several_files() -> None:
    driver = Driver()
    for number in range(MAX_EVENTS + 50):
        driver.master._events.log.add(number, EventKind.SAVEPOINT, f"savepoint {number}")
        if number % 37 == 0:
            driver.master._events.close()
    driver.master._events.close()
    assert len(driver.store.list(events_folder(safe_name(JOB)))) == (MAX_EVENTS + 50) // FILE_EVENTS + 1
    events = read_events(driver.store, events_folder(safe_name(JOB)), JOB)
    assert [event.what for event in events] == [f"savepoint {n}" for n in range(50, MAX_EVENTS + 50)]


def test_a_failing_store_is_retried_without_harm_to_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver().runs()
    put = driver.store.put

    def full(path: str, data: bytes) -> None:
        if "/events/" in path:
            raise OSError("no space left")
        put(path, data)

    monkeypatch.setattr(driver.store, "put", full)
    writes(driver)
    assert (driver.master.status().state, stored(driver)) == (JobState.RUNNING, [])
    monkeypatch.setattr(driver.store, "put", put)
    driver.step(after_ms=6000)
    writes(driver)
    assert stored(driver) == texts(driver)


def test_the_failure_of_a_driver_is_an_event() -> None:
    driver = Driver().runs()
    driver.step(AttemptLost(Attempt(1), TransportError("gone")))
    driver.master.abandon("a defect")
    assert stored(driver)[-1] == "the driver failed: a defect"


def test_health_findings_start_and_end_events() -> None:
    driver = Driver().runs()

    def finding(kind: FindingKind, severity: Severity, **about: Any) -> JobFinding:
        since_ms = driver.clock.now_ms() - 5000
        made = {"what": f"a finding of {kind.value}", "what_to_do": "do it", "since": "", "for_ms": 0}
        return JobFinding(kind=kind, severity=severity, since_ms=since_ms, **made, **about)  # type: ignore[arg-type]

    def looks(*findings: JobFinding, after_ms: int = 0) -> None:
        driver.clock.advance(after_ms * 1000)
        now_ms = driver.clock.now_ms()
        health = simple_health(None, now_ms)
        driver.master._events.note_health(
            msgspec.structs.replace(health, findings=list(findings)), now_ms
        )

    driver.step(after_ms=10_000)
    before = texts(driver)
    own = [finding(kind, Severity.FAILING) for kind in (FindingKind.RESTARTS, FindingKind.FAILED)]
    note = finding(FindingKind.LATE, Severity.NOTE)
    looks(*own, note)
    assert texts(driver) == before
    away = finding(FindingKind.SERVER, Severity.STUCK, server="Kafka at b1:9092")
    slow = finding(FindingKind.BACKPRESSURE, Severity.DEGRADED, operator=str(FILES))
    looks(away, slow, after_ms=1000)
    looks(away, slow, after_ms=24_000)
    looks(slow, after_ms=1000)
    events = driver.master.events()[:2]
    assert {(e.kind, e.level, e.text(driver.clock.now_ms()), e.operator) for e in events} == {
        (
            EventKind.SERVER,
            EventLevel.ERROR,
            "Kafka at b1:9092 does not respond, responded again after 31.0 s",
            None,
        ),
        (
            EventKind.HEALTH,
            EventLevel.WARNING,
            "a finding of backpressure, for 31.0 s so far",
            "the files",
        ),
    }
