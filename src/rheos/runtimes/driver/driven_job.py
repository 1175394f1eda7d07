"""The handle of a job that a master runs, in the continuous and the simulated runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import pyarrow as pa

from rheos.core.metrics.model import MetricsReport
from rheos.runtimes.job import JobStatus
from rheos.runtimes.job_handle import JobHandle
from rheos.runtimes.operation_contract import DrivenJob, DriverOperation

T = TypeVar("T")


class MasterDrivenJob(JobHandle, DrivenJob):
    """A JobHandle that passes requests to a master."""

    def ask(self, operation: DriverOperation[T]) -> T:
        """Return the master's answer. Raise the RheosError with which it refuses."""
        return operation.carry_out(self)

    def status(self) -> JobStatus:
        return self.master.status()

    def metrics(self) -> MetricsReport:
        return self.master.metrics()

    def take_collected(self) -> Mapping[str, pa.Table]:
        return self.master.take_collected()
