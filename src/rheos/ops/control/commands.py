"""The client of a running job."""

from __future__ import annotations

from typing import TypeVar

from rheos.core.errors import TransportError
from rheos.core.metrics.model import MetricsReport
from rheos.core.plan.outline import PlanOutline
from rheos.core.protocol.decoding import MalformedError
from rheos.ops.control.command_messages import Refused, Returned, answer_decoder, encoded_request
from rheos.ops.control.control_socket import ask_by_socket
from rheos.ops.control.mailbox import ask_by_mail
from rheos.ops.control.registry import JobRecord
from rheos.runtimes.job import JobStatus
from rheos.runtimes.job_methods import JobMethods
from rheos.runtimes.job_operations import (
    CancelJob,
    GetMetrics,
    GetPlan,
    GetSettings,
    GetStatus,
)
from rheos.runtimes.operation_contract import JobOperation

T = TypeVar("T")


class JobClient(JobMethods):
    """Client of one running job, in any process of the same user on the same host, or through the
    job's checkpoint directory.

    Every call raises the RheosError with which the job refused. If no answer comes within `timeout_s`,
    it raises TransportError; if the job ends meanwhile, CheckpointError.
    """

    def __init__(self, record: JobRecord, timeout_s: float = 30.0) -> None:
        self._record = record
        self._timeout_s = timeout_s

    def status(self) -> JobStatus:
        """Return the current status of the job."""
        return self.ask(GetStatus())

    def metrics(self) -> MetricsReport:
        """Return all current metrics of the job."""
        return self.ask(GetMetrics())

    def plan(self) -> PlanOutline:
        """Return the running plan."""
        return self.ask(GetPlan())

    def settings(self) -> dict[str, str]:
        """Return the job's settings, by the names of `rh.Settings`."""
        return self.ask(GetSettings())

    def cancel(self) -> None:
        """Stop the job without a savepoint. Return when it has stopped."""
        self.ask(CancelJob())

    def ask(self, operation: JobOperation[T]) -> T:
        """Return the job's answer to an operation."""
        record = self._record
        ask = ask_by_socket if record.directory is None else ask_by_mail
        data = ask(record, encoded_request(record.job, operation), self._timeout_s)
        try:
            answer: Returned[T] | Refused = answer_decoder(type(operation)).decode(data)
        except MalformedError as error:
            raise TransportError(
                f"the job {record.job!r} sent an unreadable answer: {error}",
                hint="use the command of the version of Rheos that runs the job",
            ) from error
        if isinstance(answer, Refused):
            raise answer.error.error()
        return answer.value
