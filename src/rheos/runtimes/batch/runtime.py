"""The batch runtime: a job over bounded input is a Spark DataFrame plan."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import assert_never
from uuid import uuid4

import pyarrow as pa
from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

from rheos.core.checkpoint.names import safe_name
from rheos.core.connectors import capabilities, sink_capabilities
from rheos.core.connectors.sink_capabilities import CollectsRows
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.known_names import NamedItems
from rheos.core.metrics import declarations as f
from rheos.core.metrics.model import MetricsReport
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.accumulators import Accumulated
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.core.protocol.readings import Reading
from rheos.runtimes.batch import task_notes
from rheos.runtimes.batch.bounded_plans import bounded_plan
from rheos.runtimes.batch.execution import run
from rheos.runtimes.batch.lazy_dataframes import explained
from rheos.runtimes.driver.collected_results import NO_RESULT
from rheos.runtimes.driver.sources_and_sinks import (
    begin_targets,
    check_targets,
    prepared_sinks,
    sinks_stage,
    sources,
    staged_sinks,
    staged_sources,
)
from rheos.runtimes.host.interruptible_waits import event_set
from rheos.runtimes.host.scratch import folder_of
from rheos.runtimes.job import JobConfig, JobResult, JobState, JobStatus, OperatorStatus
from rheos.runtimes.job_handle import JobHandle, WithoutCheckpoints
from rheos.runtimes.spark.session import activate, get_session
from rheos.runtimes.spark.shipping import worker_error


def staged_for(
    owner: object, plan: PhysicalPlan, config: JobConfig, spark: SparkContext
) -> PhysicalPlan:
    """Return the plan with staged streams, and with a folder for each sink that needs one. A temporary
    folder is removed with `owner`. Raise ConfigurationError if workers on other machines could not
    access it."""
    if any(capabilities.queries(source) for _, source in sources(plan)):
        hint = 'use the continuous runtime, which stages next to the checkpoints: runtime="continuous"'
        plan = staged_sources(plan, _temporary(owner, spark, "staged rows of a Spark stream", hint))
    if not sinks_stage(plan):
        return plan
    if config.checkpoint_dir is not None:
        return staged_sinks(
            plan, f"{config.checkpoint_dir.rstrip('/')}/{safe_name(config.job)}/staged-batch"
        )
    hint = 'set one: Environment(checkpoint_dir="s3://..."), or --checkpoint-dir'
    return staged_sinks(plan, _temporary(owner, spark, "staged rows of a sink", hint))


def _temporary(owner: object, spark: SparkContext, what: str, hint: str) -> str:
    if not str(spark.master).startswith("local"):
        raise ConfigurationError(
            f"on a cluster, {what} need a directory that every executor can access", hint=hint
        )
    return folder_of(owner, "rheos-staged-")


_LISTEN_EVERY_S = 1.0
_ENDED = (JobState.FINISHED, JobState.CANCELLED, JobState.FAILED)


class BatchRuntime:
    """The runtime that executes plans with bounded sources as Spark DataFrame jobs, on any master."""

    def submit(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None = None,
    ) -> BatchJob:
        """Start the plan. Raise ConfigurationError if a source never ends, or Spark is missing."""
        plan = bounded_plan(plan)
        check_targets(plan)
        session = get_session(config, plan.parallelism)
        plan = prepared_sinks(plan)
        check_targets(plan)
        return BatchJob(plan, config, session, listener)

    def settle(self, job: JobHandle, config: JobConfig) -> None:
        """Do nothing: the session exists already."""


def spark_plan(plan: PhysicalPlan, config: JobConfig) -> str:
    """Return Spark's plan, as `DataFrame.explain` shows it. Run nothing. Raise ConfigurationError if a
    source never ends, or Spark is missing."""
    plan = bounded_plan(plan)
    session = get_session(config, plan.parallelism)
    return explained(session, plan)


@dataclass
class _OperatorCounts:
    """Counts that the subtasks of one operator have reported so far."""

    records_in: int = 0
    records_out: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    accumulated: dict[str, Accumulated] = field(default_factory=dict)
    staged: list[bytes] = field(default_factory=list)


class BatchJob(WithoutCheckpoints):
    """The JobHandle of a batch job. Its own thread lets Spark run the plan. Sinks commit at the end."""

    def __init__(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        session: SparkSession,
        listener: Callable[[JobStatus], None] | None,
    ) -> None:
        self._plan = plan = staged_for(self, plan, config, session.sparkContext)
        self._config = config
        # It deletes all that it has staged. A running job of the same name must keep its own staged
        # rows.
        self._writer = JobId(f"{config.writer}-batch")
        self._session = session
        self._listener = listener
        self._tag = f"rheos-{config.job}"
        self._first_attempt = time.time_ns() // 1_000_000_000 * 1_000_000
        self._began = time.monotonic()
        self._took_s: float | None = None
        self._state = JobState.STARTING
        self._metrics = {operator.id: _OperatorCounts() for operator in plan.operators()}
        self._results: dict[OperatorId, pa.Table] = {}
        self._collected: dict[str, pa.Table] = {}
        self._failure: RheosError | None = None
        self._cancelled = threading.Event()
        self._ended = threading.Event()
        InheritableThread(target=self._run, name="rheos-batch", daemon=True).start()
        if listener is not None:
            threading.Thread(target=self._listen, name="rheos-status", daemon=True).start()

    # --- the job's thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            activate(self._session)
            context = self._session.sparkContext
            context.addJobTag(self._tag)
            context.setJobDescription(self._plan.name)
            self._state = JobState.RUNNING
            self._results = run(
                self._session,
                self._plan,
                job=self._writer,
                first_attempt=self._first_attempt,
                batch_rows=self._config.task.batch_rows,
                limits=self._config.state.limits,
                on_note=self._note,
            )
            if not self._cancelled.is_set():
                self._commit()
                self._took_s = time.monotonic() - self._began
                self._state = JobState.FINISHED
        except BaseException as error:
            if not self._cancelled.is_set():
                self._failure = worker_error(error)
        finally:
            self._clear_away()
            self._took_s = self._took_s or time.monotonic() - self._began
            if self._state is not JobState.FINISHED:
                self._state = JobState.FAILED if self._failure else JobState.CANCELLED
            self._ended.set()

    def _note(self, note: task_notes.AnyNote) -> None:
        metrics = self._metrics.get(note.operator)
        if metrics is None:
            # It is a union that the planner added upstream of siblings, not an operator of the user.
            return
        match note:
            case task_notes.Staged():
                metrics.staged.append(note.committable)
            case task_notes.Counted():
                metrics.records_in += note.records_in
                metrics.records_out += note.records_out
                for name, count in note.counters.items():
                    metrics.counters[name] = metrics.counters.get(name, 0) + count
                for name, added in note.accumulated.items():
                    before = metrics.accumulated.get(name, Accumulated())
                    metrics.accumulated[name] = before.plus(added)
            case task_notes.Handed() | task_notes.Ended():
                pass
            case _:
                assert_never(note)

    def _commit(self) -> None:
        """Publish what those tasks staged whose rows Spark has accepted. Omit other tasks' files."""
        # A table treats the output of two jobs with one identity as the same, and keeps only the first.
        log = f"{self._writer}-{uuid4().hex}"
        begin_targets(self._plan)
        for operator, sink in self._sinks():
            staged = self._metrics[operator.id].staged
            committer = sink.sink.committer()
            if committer is not None and staged:
                committer = sink_capabilities.of_log(committer, log)
                try:
                    _persistently(lambda: committer.commit(staged))  # noqa: B023
                except RheosError as error:
                    raise error.located(site=operator.site, operator=operator.name) from None
            if isinstance(sink.sink, CollectsRows):
                self._collected[operator.name] = self._results[operator.id]

    def _clear_away(self) -> None:
        """Delete what repeated, failed or cancelled tasks have staged."""
        for _, sink in self._sinks():
            committer = sink.sink.committer()
            if committer is not None:
                try:
                    committer.abort_stale(self._writer, Attempt(2**62), [])
                except Exception as error:
                    if self._failure is None and self._state is not JobState.FINISHED:
                        self._failure = worker_error(error)

    def _sinks(self) -> list[tuple[PlannedOperator, SinkSpec]]:
        return [
            (operator, operator.spec)
            for operator in self._plan.operators()
            if isinstance(operator.spec, SinkSpec)
        ]

    def _listen(self) -> None:
        assert self._listener is not None
        while not self._ended.wait(_LISTEN_EVERY_S):
            self._listener(self.status())

    # --- the handle -------------------------------------------------------------------------------

    def status(self) -> JobStatus:
        running_s = self._took_s or time.monotonic() - self._began
        finished = self._state is JobState.FINISHED
        watermark_ms = MAX_TIMESTAMP_MS if finished else None
        return JobStatus(
            job=self._config.job,
            name=self._plan.name,
            state=self._state,
            attempt=1,
            running_s=running_s,
            records_per_s=self._source_records() / max(running_s, 1e-6),
            watermark_ms=watermark_ms,
            checkpoints_completed=0,
            checkpoints_failed=0,
            last_checkpoint_ms=None,
            restarts=0,
            busy_ratio=0.0,
            backpressure_ratio=0.0,
            operators=tuple(
                self._operator_status(operator, watermark_ms) for operator in self._plan.operators()
            ),
            failure=str(self._failure) if self._failure else None,
        )

    def metrics(self) -> MetricsReport:
        """Return metrics that have only rows per operator, of all tasks together."""
        status = self.status()
        rows = [(f.ROWS_IN, of.id, of.records_in) for of in status.operators]
        rows += [(f.ROWS_OUT, of.id, of.records_out) for of in status.operators]
        return MetricsReport(
            job=status.job,
            name=status.name,
            at_ms=time.time_ns() // 1_000_000,
            attempt=status.attempt,
            operators={of.id: of.name for of in status.operators},
            chains={},
            edges={},
            readings=[Reading(metric.name, (id, "all"), count) for metric, id, count in rows],
        )

    def _source_records(self) -> int:
        sources = [o.id for o in self._plan.operators() if isinstance(o.spec, SourceSpec)]
        return sum(self._metrics[source].records_out for source in sources)

    def _operator_status(self, operator: PlannedOperator, watermark_ms: int | None) -> OperatorStatus:
        metrics = self._metrics[OperatorId(operator.id)]
        return OperatorStatus(
            id=operator.id,
            name=operator.name,
            records_in=metrics.records_in,
            # The rows of a collecting sink leave the job there, for the driver.
            records_out=0 if isinstance(operator.spec, SinkSpec) else metrics.records_out,
            watermark_ms=watermark_ms,
            counters=dict(metrics.counters),
            accumulated=dict(metrics.accumulated),
        )

    def wait(self, timeout_s: float | None = None) -> JobResult:
        if not event_set(self._ended, timeout_s):
            raise TimeoutError(f"the job has not ended within {timeout_s} s")
        if self._failure is not None:
            raise self._failure
        return JobResult(self.status(), NamedItems(NO_RESULT, self._collected))

    def cancel(self) -> None:
        if self._state in _ENDED:
            return
        self._cancelled.set()
        while not self._ended.wait(0.1):
            # A job that is not submitted yet reads the flag then. Without a JVM, it ends by itself.
            with contextlib.suppress(Exception):
                self._session.sparkContext.cancelJobsWithTag(self._tag)


def _persistently(commit: Callable[[], None], pauses_s: Sequence[float] = (0.1, 1.0)) -> None:
    """Commit, and retry if that fails: it is idempotent, and a store may be briefly unavailable."""
    for pause_s in pauses_s:
        try:
            return commit()
        except Exception:
            time.sleep(pause_s)
    commit()
