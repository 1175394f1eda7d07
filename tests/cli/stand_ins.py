"""Stand-in for a job in tests of commands: it runs nothing, but answers requests."""

from __future__ import annotations

import threading
from typing import Any

from rheos.core.metrics.event_log import EventKind, EventLevel, JobEvent
from rheos.core.metrics.history_files import HistorySegment, HistoryView
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.outline import OutlinedChain, OutlinedEdge, OutlinedOperator, PlanOutline
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.control import Cost
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.readings import Reading
from rheos.core.protocol.stacks import StackProfile
from rheos.runtimes.job import CheckpointInfo, JobResult, JobState, JobStatus, OperatorStatus
from rheos.runtimes.job_handle import JobHandle
from rheos.runtimes.job_operations import (
    DoneAnswer,
    GetCheckpoints,
    GetDecisions,
    GetEvents,
    GetHistory,
    ProfileSubtask,
    RescaleJob,
    SavepointAnswer,
    StopJob,
    TakeSavepoint,
)
from rheos.runtimes.operation_contract import DriverOperation
from rheos.runtimes.stored_reads import GetFeatures, GetStates, GetViews, ReadKeyedState, ReadView

STATUS = JobStatus(
    JobId("job"),
    "a job",
    JobState.RUNNING,
    2,
    3.5,
    1e6,
    -5,
    4,
    1,
    120,
    1,
    0.5,
    0.25,
    (OperatorStatus("o", "map", 3, 2, None, {"late": 1}),),
    None,
    2,
)
INFO = CheckpointInfo(3, 2, 1_700_000_000_000, 120, 4096, Cost(sync_us=5, unaligned=True), "/s/3")


def outline(name: str = "a job") -> PlanOutline:
    """Return a job graph of a source, and a map downstream of a shuffle."""

    def chain(id: str, operator: str, name: str, line: int) -> OutlinedChain:
        made = OutlinedOperator(
            id=operator, name=name, site=f"job.py:{line}", note="", outputs={"": "n: int64"}
        )
        return OutlinedChain(id=id, operators=[made], subtasks=2)

    edge = OutlinedEdge(
        id="0",
        source="0",
        sender="source-1",
        target="1",
        exchange="hash",
        keys=["n"],
        feedback=False,
    )
    chains = [chain("0", "source-1", "clicks", 3), chain("1", "map-1", "map", 4)]
    return PlanOutline(name=name, parallelism=2, max_parallelism=128, chains=chains, edges=[edge])


METRICS = MetricsReport(
    job="job",
    name="a job",
    at_ms=1_700_000_000_000,
    attempt=2,
    operators={"source-1": "clicks", "map-1": "map"},
    chains={"0": ["source-1"], "1": ["map-1"]},
    edges={"0": ("0", "1")},
    readings=[
        Reading("restarts", ("TransportError",), 1),
        Reading("memory_bytes", ("0",), 1 << 27),
        Reading("busy_ms", ("1", "0"), 900.0, 250.0),
        Reading("busy_ms", ("1", "1"), 1900.0, 750.0),
        Reading("rows_in", ("map-1", "0"), 30, 10.0),
        Reading("rows_in", ("map-1", "1"), 50, 20.0),
        Reading("watermark_lag_ms", ("map-1", "0"), 1500),
        Reading("sent_bytes", ("0", "0"), 4096, 512.0),
        Reading("counter", ("map-1", "late", "0"), 3, 0.0),
        Reading("accumulated", ("map-1", "ms", "0"), Accumulated(3, 6.0, 1.0, 3.0, {16: 3})),
    ],
)

HISTORY = HistoryView(
    HistorySegment(
        "job",
        "fine",
        10_000,
        ["rows_in\tmap-1"],
        [1_700_000_000_000, 1_700_000_010_000],
        [[5.0], [None]],
    ),
    HistorySegment("job", "coarse", 600_000, ["rows_in\tmap-1"], [1_699_999_000_000], [[7.5]]),
)

EVENTS = (
    JobEvent(
        id="d-2",
        at_ms=1_700_000_010_000,
        until_ms=1_700_000_014_000,
        kind=EventKind.RESTART,
        level=EventLevel.WARNING,
        what="worker 1 lost (killed by signal 9)",
        outcome="restarted in {span}",
        subtask=1,
    ),
    JobEvent(id="d-1", at_ms=1_700_000_000_000, kind=EventKind.STARTED, what="started"),
)
STORY = ("RUNNING Tick() -> SendToAll(message=TriggerCheckpoint 1)", "ENDED CancelRequested()")


class StandIn(JobHandle):
    """Job that ends when it is requested to. Savepoints wait for `allowed`."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.shown = STATUS
        self.allowed = threading.Event()
        self.asked: list[tuple[Any, ...]] = []
        self.failure: Exception | None = None
        self.savepoint_failure: Exception | None = None

    def status(self) -> JobStatus:
        return self.shown

    def wait(self, timeout_s: float | None = None) -> JobResult:
        if not self.over.wait(timeout_s):
            raise TimeoutError
        if self.failure is not None:
            raise self.failure
        return JobResult(STATUS)

    def cancel(self) -> None:
        self.asked.append(("cancel",))
        self.over.set()

    def ask(self, operation: DriverOperation[Any]) -> Any:
        match operation:
            case TakeSavepoint(directory=directory):
                return SavepointAnswer(self._savepoint(directory))
            case StopJob(directory=directory, drain=drain):
                self._stop(directory, drain)
                return SavepointAnswer(f"{directory}/savepoint-1")
            case RescaleJob(parallelism=parallelism):
                self.asked.append(("rescale", parallelism))
                return DoneAnswer()
            case ProfileSubtask(subtask=subtask, seconds=seconds):
                self.asked.append(("profile", subtask, round(seconds * 1000)))
                stacks = {"step (engine.py:1);count (job.py:7)": 3, "step (engine.py:1)": 1}
                return StackProfile(subtask=subtask, every_ms=10, samples=4, stacks=stacks)
            case GetCheckpoints():
                return [INFO]
            case GetHistory():
                return HISTORY
            case GetEvents():
                return list(EVENTS)
            case GetDecisions():
                return list(STORY)
            case GetViews() | ReadView() | GetFeatures() | GetStates() | ReadKeyedState():
                raise operation.refusal()
            case _:
                raise NotImplementedError(operation)

    def _stop(self, directory: str | None, drain: bool) -> None:
        self.asked.append(("stop", directory, drain))
        self.over.set()

    def _savepoint(self, directory: str | None) -> str:
        self.asked.append(("savepoint", directory))
        assert self.allowed.wait(20)
        if self.savepoint_failure is not None:
            raise self.savepoint_failure
        return f"{directory}/savepoint-1"

    def metrics(self) -> MetricsReport:
        return METRICS
