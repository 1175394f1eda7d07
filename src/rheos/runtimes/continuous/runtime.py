"""The continuous runtime: a job is one Spark barrier stage, whose tasks are its slots."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from pyspark.sql import SparkSession

from rheos.errors import ConfigurationError, JobFailedError, RheosError
from rheos.plan.physical import PhysicalPlan
from rheos.runtimes.continuous.cluster import check_slots, driver_host, is_local
from rheos.runtimes.continuous.launcher import SparkLauncher
from rheos.runtimes.contract import JobConfig, JobResult, JobStatus, WithoutCheckpoints
from rheos.runtimes.io import SystemClock
from rheos.runtimes.local_store import open_store
from rheos.runtimes.master import Master, enumerate_splits
from rheos.runtimes.spark_session import get_session

_LISTEN_EVERY_S = 1.0
_STEP_MS = 20
_STOP_TIMEOUT_S = 60.0


class ContinuousRuntime:
    """Runs plans on a Spark barrier stage, on any master."""

    def submit(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None = None,
    ) -> ContinuousJob:
        """Starts the plan. Raises ConfigurationError, InputError."""
        splits = enumerate_splits(plan)
        session, _ = get_session(config, plan.parallelism + 1)
        check_slots(session, plan.parallelism)
        return ContinuousJob(plan, config, splits, session, listener)


class ContinuousJob(WithoutCheckpoints):
    """A JobHandle. One thread of its own steps the master until the job has ended."""

    def __init__(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        splits: Any,
        session: SparkSession,
        listener: Callable[[JobStatus], None] | None,
    ) -> None:
        self._temporary = (
            tempfile.mkdtemp(prefix="rheos-checkpoints-") if config.checkpoint_dir is None else None
        )
        if self._temporary is not None and not is_local(session):
            shutil.rmtree(self._temporary)
            raise ConfigurationError(
                "on a cluster the job needs a checkpoint directory that every executor reaches",
                hint='give one: Environment(checkpoint_dir="s3://..."), or --checkpoint-dir',
            )
        directory = self._temporary or str(config.checkpoint_dir)
        self._listener = listener
        self._launcher = SparkLauncher(
            plan, config, splits, session, directory, driver_host(session), version("rheos")
        )
        try:
            self._master = Master(
                plan, config, store=open_store(directory), clock=SystemClock(), launcher=self._launcher
            )
        except BaseException:
            self._launcher.close()
            raise
        self._ended = threading.Event()
        self._crash: BaseException | None = None
        self._cancel = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rheos-master", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        clock = SystemClock()
        listen_at_us = 0
        try:
            while not self._master.done:
                if self._cancel.is_set():
                    self._cancel.clear()
                    self._master.cancel()
                self._launcher.wait(_STEP_MS)
                self._master.step()
                if self._listener is not None and clock.monotonic_us() >= listen_at_us:
                    listen_at_us = clock.monotonic_us() + int(_LISTEN_EVERY_S * 1e6)
                    self._listener(self._master.status())
        except BaseException as error:
            self._crash = error
        finally:
            self._launcher.close()
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)
            self._ended.set()

    def status(self) -> JobStatus:
        return self._master.status()

    def wait(self, timeout_s: float | None = None) -> JobResult:
        if not self._ended.wait(timeout_s):
            raise TimeoutError(f"the job has not ended within {timeout_s} s")
        if self._crash is not None:
            if isinstance(self._crash, RheosError):
                raise self._crash
            raise JobFailedError("the job's master failed") from self._crash
        return self._master.result()

    def cancel(self) -> None:
        self._cancel.set()
        self._ended.wait(_STOP_TIMEOUT_S)
