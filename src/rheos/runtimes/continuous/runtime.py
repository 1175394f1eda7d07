"""The continuous runtime: a job is one Spark stage, whose tasks are its slots."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from pyspark import SparkContext
from pyspark.sql import SparkSession

from rheos.connectors.urls import absolute
from rheos.core.checkpoint.names import safe_name
from rheos.core.checkpoint.savepoint import default_directory
from rheos.core.errors import CheckpointError, ConfigurationError, JobFailedError, RheosError
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ports import IoExecutor
from rheos.core.version import VERSION
from rheos.runtimes.continuous.launcher import SparkLauncher
from rheos.runtimes.continuous.resources import check_slots, most_slots
from rheos.runtimes.driver.driven_job import MasterDrivenJob
from rheos.runtimes.driver.driver_logs import RestartReport
from rheos.runtimes.driver.master import Master
from rheos.runtimes.driver.refused_job import RefusedJob
from rheos.runtimes.driver.sources_and_sinks import (
    as_of_now,
    check_targets,
    enumerate_splits,
    prepared_sinks,
    published_here,
    release_sources,
    runs_streaming_queries,
    staged_sinks,
    staged_sources,
    stages,
)
from rheos.runtimes.driver.stored_state_check import find_misfit
from rheos.runtimes.host.interruptible_waits import event_set, result_of
from rheos.runtimes.host.io import DetachedIo, SystemClock
from rheos.runtimes.host.process_metrics import driver_readings
from rheos.runtimes.host.scratch import OwnedFolder
from rheos.runtimes.host.stores import check_writable, open_store
from rheos.runtimes.job import JobConfig, JobResult, JobState, JobStatus
from rheos.runtimes.job_handle import JobHandle
from rheos.runtimes.spark.job_files import brought
from rheos.runtimes.spark.jvm import spark_ended
from rheos.runtimes.spark.session import (
    SessionIo,
    activate,
    found_session,
    get_context,
    get_session,
    is_local,
)

T = TypeVar("T")

_LISTEN_EVERY_S = 1.0
_LONGEST_WAIT_MS = 250
"""Maximum time in ms between two steps, for work that is due about every second."""
_LOOK_S = 0.02
_SESSION_AFTER_S = 5.0
"""Maximum time in seconds until Rheos makes a session. Spark needs a second or more for it."""
_STOP_TIMEOUT_S = 60.0
_LAST_EVENTS = 20
"""Number of decisions shown in the error if the driver itself fails."""


class ContinuousRuntime:
    """Runs plans on one Spark stage, on any master."""

    def submit(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None = None,
    ) -> MasterDrivenJob:
        """Start the plan. If the program does not fit its stored state, return a job that has failed,
        without starting Spark.

        Raises:
            ConfigurationError: the environment does not allow it.
            InputError: a source or sink cannot be used.
            CheckpointError: the driver waits for a running job, and does not fit the job's state.
        """
        if config.from_savepoint is not None:
            # The log stores the folder by this name, from whatever shell the job is started.
            config = replace(config, from_savepoint=absolute(config.from_savepoint).rstrip("/"))
        if config.until_now:
            plan = as_of_now(plan)
        misfit = find_misfit(plan, config)
        if misfit is not None:
            if config.succeeds is not None:
                raise misfit  # The job continues under the other driver (UP2).
            return RefusedJob(plan, config, misfit)
        # Staged sources list their splits after they are staged.
        splits = None if stages(plan) else enumerate_splits(plan)
        if config.checkpoint_dir is None and config.from_savepoint is None:
            check_targets(plan)  # A job without earlier state: check before Spark starts.
        wanted = most_slots(plan, config) + 1 + config.extra_slots
        context = get_context(config, wanted)
        session = found_session(config)
        if session is not None:
            activate(session)
        plan = prepared_sinks(plan)
        publishes = bool(published_here(plan))
        reserved = 1 if publishes or runs_streaming_queries(plan) else 0
        check_slots(context, config.min_parallelism or plan.parallelism, reserved)
        if publishes:
            session = get_session(config, wanted)
        plan = replace(plan, context=brought(context, plan.context))
        return ContinuousJob(plan, config, splits, context, session, listener)

    def settle(self, job: JobHandle, config: JobConfig) -> None:
        """Make a session for the user, next to the job. The job needs none, so its workers start first.
        A failure here does not affect the job."""
        if isinstance(job, RefusedJob):
            return
        with contextlib.suppress(Exception):
            if found_session(config) is None:
                deadline = time.monotonic() + _SESSION_AFTER_S
                while job.status().state is JobState.STARTING and time.monotonic() < deadline:
                    time.sleep(_LOOK_S)
                get_session(config, slots=0)


class ContinuousJob(MasterDrivenJob):
    """The JobHandle of a continuous job. Its own thread steps the master until the job has ended."""

    def __init__(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        splits: Any,
        context: SparkContext,
        session: SparkSession | None,
        listener: Callable[[JobStatus], None] | None,
    ) -> None:
        """Start the job. `session` is active while the driver publishes the job's output; it is None if
        the driver does not publish."""
        self._temporary = OwnedFolder("rheos-checkpoints-") if config.checkpoint_dir is None else None
        if self._temporary is not None and not is_local(context):
            self._temporary.close()
            raise ConfigurationError(
                "on a cluster, the job needs a checkpoint directory that every executor can access",
                hint='pass one: Environment(checkpoint_dir="s3://..."), or --checkpoint-dir',
            )
        directory = str(config.checkpoint_dir) if self._temporary is None else self._temporary.path
        staged = f"{directory.rstrip('/')}/{safe_name(config.job)}/staged"
        plan = staged_sinks(plan, staged)
        reserved = 1 if published_here(plan) or runs_streaming_queries(plan) else 0
        if splits is None:
            plan = self._staged(plan, staged, directory)
        self._plan = plan
        self._savepoints = f"{directory.rstrip('/')}/{default_directory(config.job)}"
        self._listener = listener
        self._session = session
        try:
            splits = enumerate_splits(plan) if splits is None else splits
            self._launcher = SparkLauncher(
                plan, config, splits, context, directory, VERSION, reserved=reserved
            )
            self._make_master(config, directory, splits)
        except BaseException:
            release_sources(plan)
            raise
        self._ended = threading.Event()
        self._crash: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rheos-master", daemon=True)
        self._thread.start()

    def _make_master(self, config: JobConfig, directory: str, splits: Any) -> None:
        # Detached: a server that does not respond delays neither a command nor the end of the job.
        detached = DetachedIo(self._launcher.wake)
        io: IoExecutor = detached
        if self._session is not None:
            io = SessionIo(self._session, f"{self._plan.name}: publishing", detached)
        try:
            self._master = Master(
                self._plan,
                config,
                store=open_store(directory),
                clock=SystemClock(),
                launcher=self._launcher,
                io=io,
                listing=detached,
                splits=splits,
                process=driver_readings,
            )
        except BaseException:
            self._launcher.close()
            raise

    def _staged(self, plan: PhysicalPlan, folder: str, directory: str) -> PhysicalPlan:
        """Stage rows next to the job's checkpoints, for as long as those exist."""
        try:
            check_writable(open_store(directory), directory)
            return staged_sources(plan, folder)
        except BaseException:
            if self._temporary is not None:
                self._temporary.close()
            raise

    def _run(self) -> None:
        clock = SystemClock()
        listen_at_us = 0
        report = RestartReport()
        try:
            while not self._master.done:
                self._master.step()
                report.heard(self._master.status())
                if self._listener is not None and clock.monotonic_us() >= listen_at_us:
                    listen_at_us = clock.monotonic_us() + int(_LISTEN_EVERY_S * 1e6)
                    self._listener(self._master.status())
                if not self._master.done:
                    # Messages that arrive meanwhile cost one step, not one each.
                    time.sleep(self._master.gather_us() / 1e6)
                    self._launcher.wait(self._wait_ms(clock.monotonic_us()))
        except BaseException as error:
            crash = error if isinstance(error, RheosError) else spark_ended(error) or error
            self._crash = crash
            self._master.abandon(crash.what if isinstance(crash, RheosError) else "its master failed")
        finally:
            self._launcher.close()
            release_sources(self._plan)
            if self._temporary is not None:
                self._temporary.close()
            self._ended.set()

    def _wait_ms(self, now_us: int) -> int:
        """Return the time in ms for which the master need not step if nothing happens."""
        due_us = self._master.next_step_us()
        if due_us is None:
            return _LONGEST_WAIT_MS
        return min(max(-(-(due_us - now_us) // 1000), 0), _LONGEST_WAIT_MS)

    @property
    def master(self) -> Master:
        return self._master

    def prepare(self) -> None:
        """Start the workers' processes before the first attempt. Raise the RheosError of a worker."""
        self._launcher.prepare()

    def wait(self, timeout_s: float | None = None) -> JobResult:
        if not event_set(self._ended, timeout_s):
            raise TimeoutError(f"the job has not ended within {timeout_s} s")
        if self._crash is not None:
            if isinstance(self._crash, RheosError):
                raise self._crash
            last = "\n".join(self.decisions()[-_LAST_EVENTS:])
            raise JobFailedError("the job's master failed", detail=last) from self._crash
        return self._master.result()

    def cancel(self) -> None:
        self._master.cancel()
        self._launcher.wake()
        event_set(self._ended, _STOP_TIMEOUT_S)

    def leave(self, within_s: float) -> None:
        self._master.leave()
        self._launcher.wake()
        event_set(self._ended, within_s)

    def answered(self, answer: Future[T], what_failed: str) -> T:
        """Wait for the answer on the caller's thread, as long as a checkpoint may take. Return it."""
        self._launcher.wake()
        return result_of(answer)

    def wait_until_over(self) -> None:
        event_set(self._ended, _STOP_TIMEOUT_S)

    def check_sampled(self) -> None:
        """Do nothing: every subtask can be sampled."""

    def savepoint_place(self, directory: str | None) -> str:
        if directory is None and self._temporary is not None:
            raise ConfigurationError(
                "this job's checkpoint directory, with any savepoint in it, is removed when "
                "the job ends",
                hint="pass a path for the savepoint, or set a checkpoint directory for the job",
            )
        directory = absolute(self._savepoints if directory is None else directory)
        try:
            # Check before all workers write their whole state to a place that cannot be written.
            check_writable(open_store(directory), directory)
        except ConfigurationError as error:
            raise CheckpointError(
                f"a savepoint cannot be written to {directory!r}: {error.what}",
                hint="choose a directory that the driver and every worker can write to",
            ) from error
        return directory
