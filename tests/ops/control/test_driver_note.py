"""Two drivers of one job: which of them acquires the job, keeps it, and releases it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from rheos.core.checkpoint.driver_note import RENEW_MS, WATCH_MS, Driver, DriverNote
from rheos.core.checkpoint.events import Outcome
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.ids import JobId
from rheos.ops.control import driver_note
from rheos.ops.control.driver_note import HeldNote, NoteKeeper, driver_of
from rheos.ops.control.processes import ProcessId, this_process
from rheos.runtimes.simulated.store import MemoryStore

JOB = JobId("job")
PATH = "job/driver.json"
AWAY = ProcessId(host="away", boot="b", namespace="n", pid=7, started_s=1.0)


@dataclass
class Time:
    """Clock that moves only in `pause`; `then` is called in each pause and does what other drivers
    would do."""

    now_us: int = 0
    then: Callable[[int], None] = lambda ms: None
    told: list[str] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.now_us // 1000

    def now_ns(self) -> int:
        return self.now_us * 1000

    def monotonic_us(self) -> int:
        return self.now_us

    def pause(self, seconds: float) -> None:
        self.now_us += round(seconds * 1e6)
        self.then(self.now_us // 1000)


def note(store: MemoryStore, owner: str, process: ProcessId = AWAY) -> HeldNote:
    return HeldNote(store, JOB, process, owner, now_ms=1_700_000_000_000)


def acquire(
    taken: HeldNote, time: Time, looks: Callable[[DriverNote], Driver] | None = None
) -> HeldNote:
    taken.acquire(time, time.pause, "/checkpoints", time.told.append, looks)
    return taken


def released(store: MemoryStore) -> bool:
    return msgspec.json.decode(store.files[PATH], type=DriverNote).released


def owner_in(store: MemoryStore) -> str:
    return msgspec.json.decode(store.files[PATH], type=DriverNote).owner


def test_an_unused_job_is_acquired_at_once_and_released() -> None:
    store, time = MemoryStore(), Time()
    taken = acquire(note(store, "a"), time)
    assert (taken.held, owner_in(store), time.now_us) == (True, "a", 0)
    taken.release()
    assert released(store)
    assert acquire(note(store, "b"), time).held


def test_a_living_driver_of_this_host_refuses_at_once() -> None:
    store, time = MemoryStore(), Time()
    acquire(note(store, "a", this_process()), time)
    with pytest.raises(ConfigurationError) as caught:
        acquire(note(store, "b"), time)
    assert caught.value.what == (
        f"the job 'job' in /checkpoints is being run by process {this_process().pid} on host "
        f"{this_process().host}, since 2023-11-14T22:13:20Z"
    )
    assert "rheos cancel job" in (caught.value.hint or "")
    assert (owner_in(store), time.now_us, time.told) == ("a", 0, [])


def test_a_dead_driver_of_this_host_is_replaced_at_once() -> None:
    store, time = MemoryStore(), Time()
    gone = msgspec.structs.replace(this_process(), started_s=this_process().started_s - 100)
    acquire(note(store, "a", gone), time)
    assert acquire(note(store, "b"), time).held
    assert (owner_in(store), time.now_us) == ("b", 0)


def test_a_remote_driver_that_renews_keeps_the_job() -> None:
    store, time = MemoryStore(), Time()
    first = acquire(note(store, "a"), time)
    time.then = lambda ms: first.renew() and None if ms == RENEW_MS else None
    with pytest.raises(ConfigurationError, match="process 7 on host away"):
        acquire(note(store, "b"), time)
    assert RENEW_MS <= time.now_ms() < WATCH_MS
    assert time.told == ["process 7 on host away"]
    assert owner_in(store) == "a"


def test_a_remote_driver_that_stops_renewing_is_replaced() -> None:
    store, time = MemoryStore(), Time()
    silent = acquire(note(store, "a"), time)
    taken = acquire(note(store, "b"), time)
    assert (owner_in(store), time.now_ms()) == ("b", WATCH_MS)
    # The driver wakes, finds that another has the job, and leaves it alone.
    assert not silent.renew()
    silent.release()
    assert owner_in(store) == "b"
    assert taken.renew()


def test_only_one_of_two_drivers_acquires_an_unused_job() -> None:
    store, time = MemoryStore(), Time()
    quicker = note(store, "a", this_process())

    def in_between(moment: str, operation: str, path: str) -> None:
        if (moment, operation) == ("before", "put_if_absent"):
            store.on_access = None
            acquire(quicker, time)

    store.on_access = in_between
    with pytest.raises(ConfigurationError, match="is being run by"):
        acquire(note(store, "b"), time)
    assert owner_in(store) == "a"


def test_the_later_write_wins_if_two_replace_a_dead_driver() -> None:
    store, time = MemoryStore(), Time()
    store.files[PATH] = b"damaged"
    later = note(store, "a", this_process())

    def in_between(moment: str, operation: str, path: str) -> None:
        if (moment, operation) == ("after", "put"):
            store.on_access = None
            store.files[PATH] = b"damaged"
            acquire(later, time)

    store.on_access = in_between
    with pytest.raises(ConfigurationError, match="is being run by"):
        acquire(note(store, "b"), time)
    assert (later.held, owner_in(store)) == (True, "a")


def test_a_slow_renewal_does_not_undo_the_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver_note, "RENEW_MS", 20)
    store = MemoryStore()
    taken = note(store, "a", this_process())
    acquire(taken, Time())
    begun, may_end = threading.Event(), threading.Event()

    def slow(moment: str, operation: str, path: str) -> None:
        if (moment, operation) == ("before", "put"):
            begun.set()
            assert may_end.wait(20)

    store.on_access = slow
    keeper = NoteKeeper(taken)
    assert begun.wait(20)
    keeper.close()
    may_end.set()
    keeper._thread.join(20)
    assert released(store)


@pytest.mark.parametrize("operation", ["get", "put_if_absent", "put"])
def test_a_failing_store_does_not_stop_the_job(operation: str) -> None:
    def fails(moment: str, at: str, path: str) -> None:
        if at == operation:
            raise OSError("full")

    store, time = MemoryStore(), Time()
    taken = note(store, "a")
    if operation == "put":
        acquire(taken, time)
    store.on_access = fails
    if operation == "put":
        assert taken.renew()  # The operation is retried.
    else:
        acquire(taken, time)
        assert not taken.held
        assert not taken.renew()
    taken.release()


def test_the_driver_in_a_newer_note_is_unknown() -> None:
    note = DriverNote(owner="a", driver="d", process=msgspec.Raw(b'{"pod":"p"}'), since_ms=0)
    assert driver_of(note) is Driver.UNKNOWN


# --- standing by ------------------------------------------------------------------------------------


def stand_by(taken: HeldNote, time: Time) -> DriverNote | None:
    return taken.stand_by(time, time.pause, time.told.append)


def test_a_standby_takes_over_when_the_driver_stops_renewing() -> None:
    store, time = MemoryStore(), Time()
    first = acquire(note(store, "a"), time)
    lives_ms = 60_000
    time.then = lambda ms: first.renew() and None if ms < lives_ms and ms % RENEW_MS == 0 else None
    waits = note(store, "b")
    assert stand_by(waits, time) is None
    assert (waits.held, owner_in(store), time.told) == (True, "b", ["process 7 on host away"])
    assert lives_ms < time.now_ms() <= lives_ms + WATCH_MS + 2_000
    assert not first.renew()


@pytest.mark.parametrize("outcome", Outcome)
def test_a_standby_ends_with_the_job(outcome: Outcome) -> None:
    store, time = MemoryStore(), Time()
    first = acquire(note(store, "a"), time)
    time.then = lambda ms: first.release(outcome) if ms >= 5_000 else None
    waits = note(store, "b")
    ended = stand_by(waits, time)
    assert ended is not None
    assert (ended.owner, ended.outcome, waits.held) == ("a", outcome, False)
    assert time.now_ms() <= 6_000
    # From now on a new driver starts the job.
    assert acquire(note(store, "c"), time).held


def test_a_standby_without_a_connection_to_the_store_does_not_take_over() -> None:
    """The driver is alive, and its renewals are visible again when the network is back."""
    store, time = MemoryStore(), Time()
    first = acquire(note(store, "a"), time)
    cut_off = range(10_000, 120_000)

    def fails(moment: str, operation: str, path: str) -> None:
        if time.now_ms() in cut_off:
            raise OSError("no route to host")

    def then(ms: int) -> None:
        store.on_access = None
        if ms % RENEW_MS == 0 and ms < 150_000:
            first.renew()
        store.on_access = fails

    time.then = then
    assert stand_by(note(store, "b"), time) is None
    assert time.now_ms() > 150_000


def test_one_of_two_standbys_takes_over_and_the_other_waits() -> None:
    """Both write at the same moment, and the last write wins."""
    store, time = MemoryStore(), Time()
    acquire(note(store, "a"), time)
    second = note(store, "b", this_process())

    def in_between(moment: str, operation: str, path: str) -> None:
        if (moment, operation) == ("after", "put"):
            store.on_access = None
            assert stand_by(second, Time(now_us=time.now_us, then=lambda ms: None)) is None

    store.on_access = in_between
    first = note(store, "c")
    time.then = lambda ms: second.release(Outcome.FINISHED) if second.held and ms > 60_000 else None
    ended = stand_by(first, time)
    assert ended is not None
    assert ended.owner == "b"
    assert (second.held, first.held) == (False, False)


def test_a_replaced_driver_does_not_record_an_outcome() -> None:
    store, time = MemoryStore(), Time()
    first = acquire(note(store, "a"), time)
    acquire(note(store, "b"), time)
    first.release(Outcome.CANCELLED)
    assert owner_in(store) == "b"
    assert msgspec.json.decode(store.files[PATH], type=DriverNote).outcome is None
