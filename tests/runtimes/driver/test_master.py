"""The master, stepped by hand, with a launcher that the test controls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from rheos.connectors.collect import CollectedRows, CollectSink
from rheos.core.checkpoint.config import CheckpointConfig, FixedDelay
from rheos.core.checkpoint.events import AttemptEnded, AttemptLost, AttemptRunning
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.names import state_path
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.connectors.contract import (
    Committer,
    ReaderContext,
    Sink,
    SinkContext,
    SinkWriter,
    Source,
    Split,
    SplitReader,
)
from rheos.core.errors import (
    CheckpointError,
    ConfigurationError,
    FencedError,
    InputError,
    OutOfMemoryError,
    RheosError,
    Site,
    TransportError,
    UnavailableError,
    UserFunctionError,
    WorkerLostError,
)
from rheos.core.formats.arrow_bytes import table_bytes
from rheos.core.graph.nodes import StreamType
from rheos.core.operators.contract import PortType
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.core.protocol import control
from rheos.core.protocol.control import Acknowledge, CommittableHandle, Totals, ToTask
from rheos.core.protocol.error_data import ErrorData
from rheos.core.protocol.ids import Attempt, ChainId, CheckpointId, JobId, OperatorId
from rheos.core.protocol.readings import Reading
from rheos.core.protocol.snapshots import PartMode, StateHandle, StateKind
from rheos.core.protocol.stacks import StackProfile
from rheos.runtimes.driver.collected_results import EarlierResults
from rheos.runtimes.driver.launcher import LauncherEvent
from rheos.runtimes.driver.master import Master
from rheos.runtimes.driver.sources_and_sinks import enumerate_splits
from rheos.runtimes.job import JobConfig, JobState
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.store import MemoryStore

SCHEMA = pa.schema({"n": pa.int64()})
SOURCE, FILES, ROWS = OperatorId("source"), OperatorId("files"), OperatorId("rows")


class Numbers(Source):
    schema = SCHEMA
    bounded = True

    def splits(self) -> Sequence[Split]:
        return [Split("a"), Split("b")]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        raise NotImplementedError


class Nothing(Numbers):
    """Source that looks for splits, and has found none so far."""

    bounded = False
    discovery_ms = 200
    there: Sequence[Split] = ()

    def splits(self) -> Sequence[Split]:
        return list(self.there)

    def nothing_found(self) -> RheosError:
        return ConfigurationError("no topic matches 'a.*'", hint="look at it")


class Missing(Numbers):
    def splits(self) -> Sequence[Split]:
        raise InputError("no file matches logs/*.jsonl")


class Target(Sink, Committer):
    """Sink that is its own committer, and remembers what was published."""

    def __init__(self) -> None:
        self.published: list[bytes] = []
        self.aborted: list[tuple[str, int, list[bytes]]] = []
        self.away: Exception | None = None

    def open(self, ctx: SinkContext) -> SinkWriter:
        raise NotImplementedError

    def committer(self) -> Committer:
        return self

    def commit(self, committables: Sequence[bytes]) -> None:
        if self.away:
            raise self.away
        self.published += [payload for payload in committables if payload not in self.published]

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        self.aborted.append((job, before, list(keep)))


def plan_of(target: Target, source: Source | None = None) -> PhysicalPlan:
    port = PortType(
        StreamType(SCHEMA, event_time=True), (), SCHEMA.append(pa.field("__ts", pa.int64()))
    )

    def sink(id: OperatorId, line: int, sink: Sink) -> PlannedOperator:
        return PlannedOperator(id, f"the {id}", Site("job.py", line), SinkSpec(sink), (port,), {}, {})

    spec = SourceSpec(source or Numbers(), None)
    operators = (
        PlannedOperator(SOURCE, "the numbers", Site("job.py", 1), spec, (), {}, {}),
        sink(FILES, 2, target),
        sink(ROWS, 3, CollectSink()),
    )
    return PhysicalPlan("a program", (Chain(ChainId(0), operators, ()),), (), 2, 8)


@dataclass
class Slots:
    """Launcher that does as the test specifies, and remembers what it was sent."""

    told: list[object] = field(default_factory=list)
    events: list[LauncherEvent] = field(default_factory=list)
    refuses: RheosError | None = None

    dropped: int = 0

    def stage(self) -> str | None:
        return None

    def free_slots(self) -> int:
        return 2

    def joined(self) -> int:
        return 2

    def strangers(self) -> int:
        return self.dropped

    def prepare_state(self, restore: Restore, parallelism: int) -> None:
        self.told.append(("prepare", restore.entry.checkpoint, parallelism))

    def has_prepared(self) -> bool:
        return False

    def not_prepared(self) -> str | None:
        return None

    def is_prepared(self) -> bool:
        return True

    def launch(self, attempt: Attempt, restore: Restore | None, parallelism: int) -> None:
        self.told.append(("launch", attempt, restore.entry.checkpoint if restore else None))
        if self.refuses:
            raise self.refuses

    def send(self, message: ToTask, subtask: int | None = None) -> None:
        name = type(message).__name__
        if subtask is not None:
            self.told.append((name, message.attempt, subtask))
            return
        self.told.append((name, message.attempt, getattr(message, "checkpoint", None)))

    def stop(self, attempt: Attempt) -> None:
        self.told.append(("stop", attempt, None))

    def poll(self) -> Sequence[LauncherEvent]:
        events, self.events = self.events, []
        return events


CONFIG = CheckpointConfig(
    interval_ms=1000, retain=1, tolerable_failures=0, restart=FixedDelay(attempts=5, delay_ms=100)
)


class Driver:
    """Master and its surroundings. Several drivers may share a store, one after the other."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        target: Target | None = None,
        config: CheckpointConfig = CONFIG,
        owner: str = "me",
        source: Source | None = None,
        clock: SimClock | None = None,
        **about: Any,
    ) -> None:
        """Create a driver; `about` holds further settings of the job."""
        self.store = store or MemoryStore()
        self.target = target or Target()
        self.clock = clock or SimClock()
        self.slots = Slots()
        self.io = SimIo(self.clock.monotonic_us, lambda: 50_000)
        """It takes 50 ms to list anything."""
        self.publishing = SimIo(self.clock.monotonic_us, lambda: 0)
        self.config = JobConfig(JobId("job"), config, checkpoint_dir="DIR", **about)
        self.master = Master(
            plan_of(self.target, source),
            self.config,
            store=self.store,
            clock=self.clock,
            launcher=self.slots,
            io=self.publishing,
            listing=self.io,
            splits={},
            owner=owner,
        )

    def step(self, *events: LauncherEvent, after_ms: int = 0) -> list[object]:
        """Return what the launcher is sent in one step."""
        self.clock.advance(after_ms * 1000)
        self.slots.events.extend(events)
        self.slots.told.clear()
        self.master.step()
        while self.publishing.run_due():
            self.master.step()
        return list(self.slots.told)

    def runs(self) -> Driver:
        [launched] = self.step()
        assert isinstance(launched, tuple)
        assert launched[0] == "launch"
        self.step(AttemptRunning(launched[1]))
        return self

    def file(self, attempt: int, checkpoint: int, subtask: int) -> str:
        at = Attempt(attempt), CheckpointId(checkpoint), SOURCE, subtask, "splits"
        return state_path(JobId("job"), *at)

    def share(self, subtask: int, checkpoint: int, attempt: int = 1, rows: int = 0) -> Acknowledge:
        """Return an acknowledgement whose file exists in the store."""
        path = self.file(attempt, checkpoint, subtask)
        self.store.put(path, b"state")
        return Acknowledge(
            attempt=Attempt(attempt),
            subtask=subtask,
            checkpoint=CheckpointId(checkpoint),
            handles=[
                StateHandle(
                    operator=SOURCE,
                    subtask=subtask,
                    state="splits",
                    kind=StateKind.LIST,
                    mode=PartMode.FULL,
                    size_bytes=5,
                    rows=1,
                    checksum=0,
                    path=path,
                )
            ],
            committables=[
                CommittableHandle(FILES, f"{checkpoint}/{subtask}".encode()),
                CommittableHandle(ROWS, collected_rows(subtask, checkpoint, attempt)),
            ],
            totals=Totals(records_out={SOURCE: rows}, counters={"source/skipped": rows}),
        )

    def shares(self, checkpoint: int, attempt: int = 1, rows: int = 0) -> list[Acknowledge]:
        return [self.share(subtask, checkpoint, attempt, rows) for subtask in (0, 1)]

    def drains_and_commits(self, checkpoint: int, attempt: int = 1) -> None:
        at = Attempt(attempt)
        trigger = ("TriggerCheckpoint", at, checkpoint)
        assert trigger in self.step(*(control.Drained(attempt=at, subtask=i) for i in (0, 1)))
        assert self.step(*self.shares(checkpoint, attempt)) == [("CheckpointComplete", at, checkpoint)]
        told = [
            control.Committed(attempt=at, subtask=i, checkpoint=CheckpointId(checkpoint))
            for i in (0, 1)
        ]
        assert self.step(*told) == [("Finish", at, None)]
        self.step(AttemptEnded(at))
        assert self.master.done


def collected_rows(subtask: int, checkpoint: int, attempt: int) -> bytes:
    data = table_bytes(pa.table({"n": [10 * checkpoint + subtask]}, SCHEMA))
    return msgspec.msgpack.encode(CollectedRows(checkpoint, subtask, attempt, 0, data))


def progress(
    subtask: int, at_s: int, rows: int, busy: float = 0.5, blocked: float = 0.25, attempt: int = 1
) -> control.Progress:
    return control.Progress(
        attempt=Attempt(attempt),
        subtask=subtask,
        step_us=at_s * 1_000_000,
        records_in={FILES: rows},
        records_out={SOURCE: rows, FILES: 0},
        watermark_ms={SOURCE: 100 + rows, FILES: 50 + rows},
        busy_us=int(at_s * busy * 1e6),
        blocked_us=int(at_s * blocked * 1e6),
        counters={"source/skipped": rows},
    )


def failed(error: RheosError, subtask: int = 0, attempt: int = 1) -> control.Failed:
    return control.Failed(attempt=Attempt(attempt), subtask=subtask, error=ErrorData.of(error))


def test_a_fork_with_the_same_name_is_another_writer() -> None:
    """Otherwise one of them would delete what the other has staged."""
    job = JobConfig(JobId("job"), checkpoint_dir="s3://here")
    assert job.writer == replace(job, checkpoint_dir="s3://here/").writer
    assert job.writer != replace(job, checkpoint_dir="s3://there").writer
    assert job.writer != replace(job, job=JobId("other")).writer
    assert replace(job, checkpoint_dir=None).writer == "job"


def test_the_profile_of_a_subtask_is_requested_and_returned() -> None:
    driver = Driver().runs()
    asked = driver.master.request_profile(1, 500)
    assert driver.step() == [("SampleStacks", Attempt(1), 1)]
    profile = StackProfile(subtask=1, every_ms=10, samples=2, stacks={"a;b": 2})
    driver.step(control.StacksSampled(attempt=Attempt(1), request=1, profile=profile))
    assert asked.result(0) == profile
    waits = driver.master.request_profile(0, 500)
    driver.drains_and_commits(1)
    with pytest.raises(TransportError, match=r"profiled"):
        waits.result(0)


def test_the_steps_of_a_job_from_start_to_end() -> None:
    driver = Driver()
    assert driver.master.status().state is JobState.STARTING
    assert driver.step() == [("launch", 1, None)]
    assert driver.target.aborted == [(driver.config.writer, 1, [])]
    assert driver.master.status().state is JobState.STARTING
    assert driver.step(AttemptRunning(Attempt(1))) == []
    assert driver.master.status().state is JobState.RUNNING
    assert driver.master.next_step_us() == 1_000_000
    assert driver.step(after_ms=1000) == [("TriggerCheckpoint", 1, 1)]
    driver.clock.advance(30_000)
    assert driver.step(*driver.shares(1)) == [("CheckpointComplete", 1, 1)]
    driver.drains_and_commits(2)
    assert driver.target.aborted[1:] == [(driver.config.writer, 1, [b"2/0", b"2/1"])]
    status = driver.master.result().status
    assert (status.state, status.failure, status.name) == (JobState.FINISHED, None, "a program")
    assert (status.checkpoints_completed, status.checkpoints_failed, status.restarts) == (2, 0, 0)
    assert status.running_s == pytest.approx(1.03)


def test_collected_rows_arrive_with_checkpoints_exactly_once() -> None:
    driver = Driver().runs()
    driver.step(after_ms=1000)
    driver.step(*driver.shares(1))
    driver.step(failed(TransportError("lost")), AttemptEnded(Attempt(1)))
    driver.step(after_ms=100)
    driver.step(AttemptRunning(Attempt(2)))
    driver.drains_and_commits(3, attempt=2)
    assert driver.master.result().collected["the rows"].to_pydict() == {"n": [10, 11, 30, 31]}


def test_a_job_that_collects_nothing_returns_an_empty_table() -> None:
    driver = Driver().runs()
    driver.master.cancel()
    driver.step()
    driver.step(AttemptEnded(Attempt(1)))
    result = driver.master.result()
    assert result.status.state is JobState.CANCELLED
    assert result.collected["the rows"].schema == SCHEMA
    assert result.collected["the rows"].num_rows == 0


def test_an_open_checkpoint_collects_nothing() -> None:
    driver = Driver().runs()
    driver.step(after_ms=1000)
    driver.step(driver.share(0, 1))
    driver.master.cancel()
    assert driver.step() == [("Cancel", 1, None), ("stop", 1, None)]
    driver.step(AttemptEnded(Attempt(1)))
    assert driver.master.result().collected["the rows"].num_rows == 0


class TestRecovery:
    def test_recovery_commits_the_output_of_its_checkpoint_first(self) -> None:
        driver = Driver().runs()
        driver.step(after_ms=1000)
        driver.step(*driver.shares(1))
        assert driver.step(failed(TransportError("lost"))) == [("stop", 1, None)]
        assert driver.master.status().state is JobState.RESTARTING
        assert driver.step(AttemptEnded(Attempt(1))) == []
        assert driver.target.published == []
        assert driver.step(after_ms=100) == [("launch", 2, 1)]
        assert driver.target.published == [b"1/0", b"1/1"]
        assert driver.target.aborted[-1] == (driver.config.writer, 2, [b"1/0", b"1/1"])
        driver.step(AttemptRunning(Attempt(2)))
        assert driver.master.status().restarts == 1
        assert driver.master.status().failure == "lost"

    def test_output_staged_under_an_earlier_driver_is_aborted(self) -> None:
        first = Driver().runs()
        second = Driver(first.store, first.target, owner="another").runs()
        before = len(second.target.aborted)
        second.master.cancel()
        second.step()
        second.step(AttemptEnded(Attempt(2)))
        assert second.target.aborted[before:] == [(second.config.writer, 2, [])]

    def test_a_replaced_driver_aborts_nothing(self) -> None:
        first = Driver().runs()
        Driver(first.store, first.target, owner="another").runs()
        before = len(first.target.aborted)
        first.step(after_ms=1000)
        first.step(*first.shares(1))
        first.step(AttemptEnded(Attempt(1)))
        assert first.master.done
        assert first.target.aborted[before:] == []

    def test_a_replaced_driver_fails_with_a_fenced_error(self) -> None:
        first = Driver().runs()
        first.step(after_ms=1000)
        first.step(*first.shares(1))
        second = Driver(first.store, first.target, owner="another")
        assert second.step() == [("launch", 2, 1)]
        assert first.target.published == [b"1/0", b"1/1"]

        first.step(after_ms=1000)
        assert first.step(*first.shares(2)) == [("Cancel", 1, None), ("stop", 1, None)]
        first.step(AttemptEnded(Attempt(1)))
        with pytest.raises(FencedError, match="another driver now runs the job 'job' in DIR"):
            first.master.result()
        assert first.master.status().state is JobState.FAILED

    def test_a_finished_job_is_not_run_again(self) -> None:
        first = Driver().runs()
        first.drains_and_commits(1)
        second = Driver(first.store)
        assert second.step() == []
        result = second.master.result()
        assert (result.status.state, result.status.finished_before) == (JobState.FINISHED, True)
        assert result.status.operators == first.master.status().operators
        assert not first.master.status().finished_before

    def test_the_decisions_include_the_last_step(self) -> None:
        driver = Driver().runs()
        assert [line.split()[1] for line in driver.master.decisions()][-1] == "RUNNING"
        assert driver.master.decisions()[0].endswith("Start() -> ReadLog()")

    def test_reading_results_of_an_earlier_run_is_an_error(self) -> None:
        collected = EarlierResults(JobId("job"), ["counts"])
        assert list(collected) == ["counts"]
        with pytest.raises(ConfigurationError, match="has already finished, and its earlier run"):
            collected["counts"]
        with pytest.raises(KeyError):
            collected["others"]

    def test_a_missing_last_commit_needs_no_new_attempt(self) -> None:
        first = Driver().runs()
        first.step(*(control.Drained(attempt=Attempt(1), subtask=i) for i in (0, 1)))
        first.step(*first.shares(1))
        second = Driver(first.store)
        assert second.step() == []
        assert second.target.published == [b"1/0", b"1/1"]
        result = second.master.result()
        assert result.status.state is JobState.FINISHED
        assert result.collected["the rows"].to_pydict() == {"n": [10, 11]}

    @pytest.mark.parametrize("error", [ConnectionError("refused"), UnavailableError("refused")])
    def test_recovery_waits_without_limit_for_an_unreachable_target(self, error: Exception) -> None:
        first = Driver().runs()
        first.step(after_ms=1000)
        first.step(*first.shares(1))
        second = Driver(first.store)
        second.target.away = error
        assert second.step() == []
        for _ in range(100):
            assert second.step(after_ms=1000) == []
        second.target.away = None
        assert second.step(after_ms=1000) == [("launch", 2, 1)]  # It is the same attempt, not another.

    def test_a_recovery_with_an_unreachable_target_can_be_cancelled(self) -> None:
        first = Driver().runs()
        first.step(after_ms=1000)
        first.step(*first.shares(1))
        second = Driver(first.store)
        second.master.step()  # The recovery commit is in progress, and does not return.
        second.master.cancel()
        second.master.step()
        assert second.master.done
        assert second.master.result().status.state is JobState.CANCELLED

    def test_other_recovery_failures_follow_the_restart_strategy(self) -> None:
        first = Driver().runs()
        first.step(after_ms=1000)
        first.step(*first.shares(1))
        second = Driver(first.store)
        second.target.away = CheckpointError("refused")
        assert second.step() == []
        status = second.master.status()
        assert status.state is JobState.RESTARTING
        assert "job.py:2: operator 'the files': " in (status.failure or "")
        assert "refused" in (status.failure or "")
        second.target.away = None
        assert second.step(after_ms=100) == [("launch", 3, 1)]

    def test_a_source_without_splits_is_logged_and_in_the_status(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        topics = Nothing()
        assert enumerate_splits(plan_of(Target(), topics)) == {SOURCE: []}
        said = "job.py:1: operator 'the numbers': no topic matches 'a.*'\n  what to do: look at it"
        assert [record.getMessage() for record in caplog.records] == [said]
        driver = Driver(source=topics).runs()

        for there, failure in ([], said), ([Split("a/0")], None):
            topics.there = there
            for _ in range(4):  # A listing becomes due, runs, is received, and is shown in the status.
                driver.step(after_ms=240)
                driver.io.run_due()
            assert driver.master.status().failure == failure

    def test_unneeded_files_are_deleted(self) -> None:
        driver = Driver().runs()
        driver.step(after_ms=1000)
        driver.step(*driver.shares(1))
        driver.step(after_ms=1000)
        driver.step(*driver.shares(2))
        files = [driver.file(1, 2, 0), driver.file(1, 2, 1)]
        assert driver.store.list("job/state") == files
        orphan = driver.file(1, 3, 0)
        driver.store.put(orphan, b"of a checkpoint that never was")
        driver.step(failed(TransportError("lost")), AttemptEnded(Attempt(1)))
        driver.step(after_ms=100)
        assert driver.store.list("job/state") == files

    def test_unfinished_files_of_earlier_attempts_are_deleted(self) -> None:
        """An unfinished file of the current attempt may still be written."""
        driver = Driver().runs()
        folder = driver.file(1, 1, 0).rpartition("/")[0]
        driver.store.files[f"{folder}/.tmp-a"] = b"half"
        driver.step(after_ms=1000)
        driver.step(
            control.Decline(attempt=Attempt(1), subtask=0, checkpoint=CheckpointId(1), reason="")
        )
        driver.step(AttemptEnded(Attempt(1)))
        own = driver.file(2, 1, 0).rpartition("/")[0]
        driver.store.files[f"{own}/.tmp-b"] = b"half"
        assert driver.store.unfinished("job") == [f"{folder}/.tmp-a", f"{own}/.tmp-b"]
        driver.step(after_ms=100)
        assert driver.store.unfinished("job") == [f"{own}/.tmp-b"]

    def test_the_log_keeps_a_marker_for_a_dropped_checkpoint(self) -> None:
        driver = Driver().runs()
        for checkpoint in (1, 2):
            driver.step(after_ms=1000)
            driver.step(*driver.shares(checkpoint))
        files = driver.store.list("job/log")
        assert len(files) == 3
        assert json.loads(driver.store.get(files[1]))["entry"]["entry"]["dropped"] is True
        assert [
            kept.entry.checkpoint for kept in JobLog(driver.store, JobId("job")).read().completed
        ] == [2]

    def test_deleting_may_fail(self) -> None:
        driver = Driver().runs()
        driver.step(after_ms=1000)
        driver.step(*driver.shares(1))
        driver.step(after_ms=1000)
        shares = driver.shares(2)

        def fail(moment: str, operation: str, path: str) -> None:
            if operation in ("delete", "put"):
                raise OSError("not now")

        driver.store.on_access = fail
        assert driver.step(*shares) == [("CheckpointComplete", 1, 2)]


class TestStoreFailures:
    def test_an_unwritable_directory_is_an_error_at_the_start(self) -> None:
        def refuse(moment: str, operation: str, path: str) -> None:
            raise PermissionError("read-only file system")

        with pytest.raises(ConfigurationError, match="'DIR' cannot be written: read-only"):
            Driver(MemoryStore(refuse))

    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_after_a_failed_log_write_the_stored_log_decides(self, moment: str) -> None:
        driver = Driver().runs()
        driver.step(after_ms=1000)
        shares = driver.shares(1)

        def fail(now: str, operation: str, path: str) -> None:
            if (now, operation) == (moment, "put_if_absent"):
                raise TimeoutError("no answer")

        driver.store.on_access = fail
        assert driver.step(*shares) == [("stop", 1, None)]
        driver.step(AttemptEnded(Attempt(1)))
        driver.store.on_access = None
        written = moment == "after"
        assert driver.step(after_ms=100) == [("launch", 2, 1 if written else None)]
        assert driver.target.published == ([b"1/0", b"1/1"] if written else [])

    def test_a_truncated_log_is_reported_with_its_path(self) -> None:
        first = Driver().runs()
        [path] = first.store.list("job/log")
        first.store.put(path, first.store.get(path)[:-10])
        second = Driver(first.store)
        second.step()
        with pytest.raises(CheckpointError, match=r"job/log/0000000001\.json is damaged"):
            second.master.result()


class TestFailures:
    def test_the_error_that_ended_the_job_is_raised_unchanged(self) -> None:
        driver = Driver(config=CheckpointConfig()).runs()
        error = UserFunctionError("division by zero", site=Site("job.py", 7), record="{'n': 0}")
        assert driver.step(failed(error)) == [("stop", 1, None)]
        assert not driver.master.done
        driver.step(AttemptLost(Attempt(1), RheosError("the stage failed")), AttemptEnded(Attempt(1)))
        with pytest.raises(UserFunctionError, match="division by zero") as caught:
            driver.master.result()
        assert str(caught.value) == str(error)
        assert driver.master.status().failure == str(error)

    def test_unauthenticated_messages_are_counted_over_all_attempts(self) -> None:
        driver = Driver().runs()
        driver.step(msgspec.structs.replace(progress(0, 1, 10), strangers=2))
        driver.step(failed(TransportError("lost")), AttemptEnded(Attempt(1)))
        driver.step(after_ms=100)
        driver.step(AttemptRunning(Attempt(2)))
        driver.step(msgspec.structs.replace(progress(0, 1, 10, attempt=2), strangers=3))
        driver.slots.dropped = 1
        driver.step(progress(1, 1, 10, attempt=2))
        assert driver.master.status().strangers == 2 + 3 + 1

    def test_only_transport_errors_of_a_launch_are_retried(self) -> None:
        driver = Driver()
        driver.slots.refuses = TransportError("no port is free")
        assert driver.step() == [("launch", 1, None), ("stop", 1, None)]
        driver.slots.refuses = ConfigurationError("no slots")
        driver.step(after_ms=100)
        with pytest.raises(ConfigurationError, match="no slots"):
            driver.master.result()

    def test_messages_of_another_attempt_are_ignored(self) -> None:
        driver = Driver().runs()
        driver.step(failed(TransportError("lost")), AttemptEnded(Attempt(1)))
        driver.step(after_ms=100)
        driver.step(AttemptRunning(Attempt(2)))
        zombie: list[LauncherEvent] = [
            failed(UserFunctionError("zombie")),
            progress(0, 1, 1000),
            AttemptEnded(Attempt(1)),
        ]
        assert driver.step(*zombie) == []
        assert driver.master.status().state is JobState.RUNNING
        assert driver.master.status().operators[0].records_out == 0

    def test_cancel_before_the_first_step(self) -> None:
        driver = Driver()
        driver.master.cancel()
        assert driver.step() == []
        assert driver.master.result().status.state is JobState.CANCELLED


class TestMetrics:
    def test_rates_are_computed_from_the_last_two_reports(self) -> None:
        driver = Driver().runs()
        driver.step(progress(0, 1, 1000), progress(1, 5, 100))
        assert driver.master.status().records_per_s == 0.0
        driver.step(progress(0, 2, 3000, busy=0.6), progress(1, 7, 500, blocked=0.3))
        status = driver.master.status()
        assert status.records_per_s == pytest.approx(2000 + 200)
        assert status.busy_ratio == pytest.approx(0.7)
        assert status.backpressure_ratio == pytest.approx((7 * 0.3 - 5 * 0.25) / 2)

    def test_lag_and_publication_come_from_the_last_reports(self) -> None:
        driver = Driver().runs()
        status = driver.master.status()
        assert (status.source_lag_rows, status.source_lag_ms, status.since_published_ms) == (None,) * 3

        def reported(subtask: int, rows: int, ms: float, since_ms: float) -> control.Progress:
            readings = [
                Reading("source_lag_rows", (SOURCE,), rows),
                Reading("source_lag_ms", (SOURCE,), ms),
                Reading("since_published_ms", (FILES,), since_ms),
            ]
            return msgspec.structs.replace(progress(subtask, 1, 10), readings=readings)

        driver.step(reported(0, 40, 1500.4, 900.0), reported(1, 2, 100.0, 95_000.0))
        status = driver.master.status()
        assert status.source_lag_rows == 42
        assert status.source_lag_ms == 1500
        assert status.since_published_ms == 95_000

    def test_totals_and_watermarks_cover_all_subtasks(self) -> None:
        driver = Driver().runs()
        driver.step(progress(0, 1, 1000))
        assert driver.master.status().watermark_ms is None
        driver.step(progress(1, 1, 10))
        status = driver.master.status()
        source, files, rows = status.operators
        assert (source.name, source.records_out, source.watermark_ms) == ("the numbers", 1010, 110)
        assert (files.records_in, files.watermark_ms) == (1010, 60)
        assert rows.watermark_ms is None
        assert status.watermark_ms == 60
        assert source.counters == {"skipped": 1010}

    def test_replayed_rows_are_counted_once(self) -> None:
        driver = Driver().runs()
        driver.step(after_ms=1000)
        driver.step(progress(0, 1, 150), *driver.shares(1, rows=100))
        driver.step(failed(TransportError("lost")), AttemptEnded(Attempt(1)))
        driver.step(after_ms=100)
        driver.step(AttemptRunning(Attempt(2)), progress(0, 1, 60, attempt=2))
        [source, *_] = driver.master.status().operators
        assert source.records_out == 2 * 100 + 60
        driver.drains_and_commits(3, attempt=2)
        assert driver.master.result().counter("the numbers", "skipped") == 260

    def test_an_older_acknowledgement_does_not_lower_counts(self) -> None:
        driver = Driver().runs()
        driver.step(after_ms=1000)
        driver.step(progress(0, 1, 150), driver.share(0, 1, rows=100))
        assert driver.master.status().operators[0].records_out == 150


def test_splits_are_enumerated_by_source() -> None:
    assert enumerate_splits(plan_of(Target())) == {SOURCE: [Split("a"), Split("b")]}


def test_missing_input_is_reported_with_the_line_of_the_source() -> None:
    with pytest.raises(InputError) as caught:
        enumerate_splits(plan_of(Target(), Missing()))
    expected = "job.py:1: operator 'the numbers': no file matches logs/*.jsonl"
    assert str(caught.value) == expected


@pytest.mark.parametrize("kind", [WorkerLostError, OutOfMemoryError])
def test_memory_errors_state_the_memory_that_was_used(kind: type[RheosError]) -> None:
    driver = Driver().runs()
    for subtask, size in enumerate([200e6, 700e6]):
        report = progress(subtask, at_s=1, rows=1)
        driver.step(msgspec.structs.replace(report, readings=[Reading("memory_bytes", (), size)]))
    driver.step(*driver.shares(1))
    driver.step(AttemptLost(Attempt(1), kind("a worker is gone")), AttemptEnded(Attempt(1)))
    used = "\n  | memory of workers at their last reports: 900 MB; most in subtask 1: 700 MB"
    state = "\n  | most state at the last checkpoint: 'the numbers' 0.0 MB"
    assert driver.master.status().failure == "a worker is gone" + used + state
    driver.step(after_ms=60_000)
    driver.step(AttemptLost(Attempt(2), kind("a worker is gone")))
    assert driver.master.status().failure == "a worker is gone" + state, "its own checkpoints failed"
