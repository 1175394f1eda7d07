"""The table of job operations: all requests that a running job accepts.

An operation is a class. Its fields are the request, and `carry_out` is its handler. The class declares
the answer's type, the role that may request it and, as its docstring, the help. The table
`JOB_OPERATIONS` generates the client and the server of the control socket, the REST route, its OpenAPI
description and the command. A new operation is a class here, and a method of `Master`. Those that read
stored rows are in `rheos.runtimes.stored_reads`.

The help of the command line is built from this module, so it imports the types of answers only when
they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeVar,
    get_type_hints,
)

import msgspec

from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.errors import ConfigurationError
from rheos.runtimes.operation_contract import (
    NOWHERE,
    ONLY_REST,
    Argument,
    AskedJob,
    DrivenJob,
    DriverOperation,
    JobOperation,
    Meaning,
    Operations,
    Role,
)
from rheos.runtimes.stored_reads import (
    GetFeatures,
    GetStates,
    GetViews,
    ReadKeyedState,
    ReadView,
    StoredRead,
)

if TYPE_CHECKING:
    from rheos.core.metrics.event_log import JobEvent
    from rheos.core.metrics.history_files import HistoryView
    from rheos.core.metrics.model import MetricsReport
    from rheos.core.plan.outline import PlanOutline
    from rheos.core.protocol.stacks import StackProfile
    from rheos.runtimes.job import CheckpointInfo, JobStatus

T = TypeVar("T")


class SavepointAnswer(msgspec.Struct, frozen=True):
    """A savepoint that was taken."""

    directory: str


class DoneAnswer(msgspec.Struct, frozen=True):
    """The answer of an operation that only acts."""

    done: bool = True


class SuccessionAnswer(msgspec.Struct, frozen=True):
    """The situation of a driver in a handover."""

    owner: str
    """Id of the driver in the log."""
    situation: Situation | None
    """Situation according to the log; None if it runs the job itself."""
    is_ready: bool
    """Whether it waits, and could continue the job from its newest checkpoint."""
    is_prepared: bool = True
    """Whether its slots have restored a recent checkpoint, so that the handover need not wait."""


# --- operations that read ---------------------------------------------------------------------------


class GetStatus(JobOperation["JobStatus"], frozen=True):
    """The state of a job, with its counts and its operators."""

    name = "status"
    faces = NOWHERE

    def of_job(self, job: AskedJob) -> JobStatus:
        return job.handle.status()


class GetMetrics(JobOperation["MetricsReport"], frozen=True):
    """All metrics as they are now, by operator, subtask and edge."""

    name = "metrics"
    faces = NOWHERE

    def of_job(self, job: AskedJob) -> MetricsReport:
        return job.handle.metrics()


class GetPlan(JobOperation["PlanOutline"], frozen=True):
    """The plan that runs: chains, operators with their line of the program, edges."""

    name = "plan"
    faces = ONLY_REST

    def of_job(self, job: AskedJob) -> PlanOutline:
        return job.plan


class GetSettings(JobOperation[dict[str, str]], frozen=True):
    """The settings with which the job runs, by their names in rh.Settings, as a user writes them."""

    name = "settings"
    faces = ONLY_REST

    def of_job(self, job: AskedJob) -> dict[str, str]:
        return job.settings


class GetCheckpoints(DriverOperation["Sequence[CheckpointInfo]"], frozen=True):
    """The retained checkpoints, the oldest first, with the cost of each."""

    name = "checkpoints"
    faces = NOWHERE

    def carry_out(self, job: DrivenJob) -> Sequence[CheckpointInfo]:
        return job.master.checkpoints()

    def nothing(self) -> Sequence[CheckpointInfo]:
        return ()


class GetHistory(DriverOperation["HistoryView"], frozen=True):
    """Past values of the metrics: fine for an hour, coarse for a week."""

    name = "history"
    faces = NOWHERE

    def carry_out(self, job: DrivenJob) -> HistoryView:
        return job.master.history()

    def nothing(self) -> HistoryView:
        from rheos.core.metrics.history_files import HistoryView

        return HistoryView.nothing()


class GetEvents(DriverOperation["Sequence[JobEvent]"], frozen=True):
    """The event log of the job under all of its drivers, the newest event first."""

    name = "event-log"
    faces = NOWHERE

    def carry_out(self, job: DrivenJob) -> Sequence[JobEvent]:
        return job.master.events()

    def nothing(self) -> Sequence[JobEvent]:
        return ()


class GetDecisions(DriverOperation[Sequence[str]], frozen=True):
    """The protocol trace, for developers: which event of the driver led to which actions."""

    name = "decisions"
    faces = ONLY_REST

    def carry_out(self, job: DrivenJob) -> Sequence[str]:
        return job.master.decisions()

    def nothing(self) -> Sequence[str]:
        return ()


# --- operations that act ----------------------------------------------------------------------------


_Folder = Annotated[
    str,
    Argument(
        "Directory in which to create the savepoint's folder: a path or an fsspec URL.",
        Meaning.SAVEPOINT_FOLDER,
        positional="DIR",
        default="below the job's checkpoint directory",
    ),
]


class TakeSavepoint(DriverOperation[SavepointAnswer], frozen=True):
    """Take a savepoint of a running job, which continues. The command prints the savepoint's folder."""

    name = "savepoint"
    role = Role.OPERATE
    reports = False
    timeout = "10m"
    directory: _Folder | None = None

    def carry_out(self, job: DrivenJob) -> SavepointAnswer:
        answer = job.master.request_savepoint(job.savepoint_place(self.directory))
        return SavepointAnswer(job.answered(answer, "no savepoint was taken"))

    def refusal(self) -> ConfigurationError:
        return _no_savepoints()

    def text(self, answer: SavepointAnswer) -> str:
        return answer.directory


class StopJob(DriverOperation[SavepointAnswer], frozen=True):
    """Stop a job with a savepoint: all up to it is committed, and nothing after it."""

    name = "stop"
    role = Role.OPERATE
    faces = ONLY_REST
    reports = False
    timeout = "10m"
    ends_job = True
    directory: _Folder | None = None
    drain: Annotated[
        bool,
        Argument("End the input first, so that all windows fire; for a job that will not be resumed."),
    ] = False

    def carry_out(self, job: DrivenJob) -> SavepointAnswer:
        answer = job.master.request_stop(job.savepoint_place(self.directory), drain=self.drain)
        folder = job.answered(answer, "no savepoint was taken")
        job.wait_until_over()
        return SavepointAnswer(folder)

    def refusal(self) -> ConfigurationError:
        return _no_savepoints()

    def text(self, answer: SavepointAnswer) -> str:
        return answer.directory


class RescaleJob(DriverOperation[DoneAnswer], frozen=True):
    """Change the parallelism of a running job. The job takes a checkpoint and continues from it. The
    driver stays, and nothing is lost or repeated. A job that is restarted later keeps the
    parallelism."""

    name = "rescale"
    role = Role.OPERATE
    reports = False
    timeout = "10m"
    parallelism: Annotated[
        int,
        Argument("Number of subtasks of each operator.", bounds={"ge": 1, "lt": 1 << 31}),
    ]

    def carry_out(self, job: DrivenJob) -> DoneAnswer:
        job.answered(job.master.request_rescale(self.parallelism), "the job was not rescaled")
        return DoneAnswer()

    def refusal(self) -> ConfigurationError:
        return ConfigurationError(
            "this job cannot be rescaled: a batch job takes no checkpoints",
            hint='run it with runtime="continuous", or start it again with another parallelism',
        )

    def note(self, job: str) -> str:
        return f"{job} runs with parallelism {self.parallelism}"


class HandoverRequest(DriverOperation[DoneAnswer], frozen=True):
    """Hand a running job over to another driver, which waits for it. The answer comes when nothing of
    this driver runs."""

    name = "hand-over"
    role = Role.OPERATE
    faces = NOWHERE
    reports = False
    timeout = "10m"
    successor: Annotated[str, Argument("Id of the driver that waits.")]
    keep_s: Annotated[
        float,
        Argument("Time for which this driver is kept ready, for a rollback.", bounds={"ge": 0}),
    ] = 0.0

    def carry_out(self, job: DrivenJob) -> DoneAnswer:
        keep_ms = round(self.keep_s * 1000)
        answer = job.master.request_handover(self.successor, keep_ms)
        job.answered(answer, "the job was not handed over")
        return DoneAnswer()

    def refusal(self) -> ConfigurationError:
        return ConfigurationError(
            "this job cannot be handed over: a batch job takes no checkpoints",
            hint='run it with runtime="continuous", or start the changed program from the beginning',
        )


class GetSuccession(DriverOperation[SuccessionAnswer], frozen=True):
    """The situation of a driver that waits for the job, or is kept ready. It refuses if its program
    does not fit the newest checkpoint."""

    name = "succession"
    faces = NOWHERE
    checked: Annotated[bool, Argument("Whether to refuse if the program does not fit.")] = True

    def carry_out(self, job: DrivenJob) -> SuccessionAnswer:
        master = job.master
        if self.checked and (misfit := master.misfit) is not None:
            raise misfit
        return SuccessionAnswer(master.owner, master.situation, master.has_looked, master.is_prepared)


class TakeJob(DriverOperation[DoneAnswer], frozen=True):
    """Notify a driver that is kept ready that the other driver has ended its attempt. It claims the job
    if the log permits it."""

    name = "take-job"
    role = Role.OPERATE
    faces = NOWHERE
    reports = False
    lost: Annotated[
        str | None, Argument("Process and host of the other driver, if it is lost; for the event log.")
    ] = None
    seen_ms: Annotated[
        int | None, Argument("Time of its last sign of life, in ms since the epoch.")
    ] = None

    def carry_out(self, job: DrivenJob) -> DoneAnswer:
        job.master.other_is_gone(self.lost, self.seen_ms)
        return DoneAnswer()


class WithdrawWait(DriverOperation[DoneAnswer], frozen=True):
    """End a driver that waits for the job, unless the log names it as the next."""

    name = "withdraw"
    role = Role.OPERATE
    faces = NOWHERE
    reports = False

    def carry_out(self, job: DrivenJob) -> DoneAnswer:
        job.master.withdraw()
        return DoneAnswer()


class ProfileSubtask(DriverOperation["StackProfile"], frozen=True):
    """Sample where a subtask of a running job spends its time. The command prints folded
    stacks: for speedscope, or flamegraph.pl."""

    name = "profile"
    role = Role.OPERATE
    timeout = None
    subtask: Annotated[
        int, Argument("Number of the subtask, from 0.", bounds={"ge": 0, "lt": 1 << 31})
    ] = 0
    seconds: Annotated[
        float,
        Argument(
            "Duration of the profile.", bounds={"gt": 0, "le": 3600}, option="--for", seconds=True
        ),
    ] = 10.0

    @property
    def lasts_s(self) -> float:
        return self.seconds

    def carry_out(self, job: DrivenJob) -> StackProfile:
        job.check_sampled()
        answer = job.master.request_profile(self.subtask, round(self.seconds * 1000))
        return job.answered(answer, "no subtask was profiled")

    def refusal(self) -> ConfigurationError:
        return ConfigurationError(
            "this job has no long-running subtasks: Spark runs it as separate tasks",
            hint='run it with runtime="continuous"; or profile its functions on their own',
        )

    def text(self, answer: StackProfile) -> str:
        return answer.folded().rstrip("\n")


class CancelJob(JobOperation[DoneAnswer], frozen=True):
    """Stop a job as it is. It can go on from its last checkpoint, where it has a checkpoint
    directory."""

    name = "cancel"
    role = Role.OPERATE
    reports = False
    timeout = "90s"
    always_admitted = True
    ends_job = True

    def of_job(self, job: AskedJob) -> DoneAnswer:
        job.handle.cancel()
        return DoneAnswer()

    def note(self, job: str) -> str:
        return f"cancelled {job}"


def _no_savepoints() -> ConfigurationError:
    return ConfigurationError(
        "this job takes no savepoints: a batch job stores no state",
        hint='run it with runtime="continuous", or cancel it',
    )


JOB_OPERATIONS: Operations = (
    GetStatus,
    GetMetrics,
    GetPlan,
    GetSettings,
    GetCheckpoints,
    GetHistory,
    GetEvents,
    GetDecisions,
    GetViews,
    ReadView,
    GetFeatures,
    GetStates,
    ReadKeyedState,
    TakeSavepoint,
    StopJob,
    RescaleJob,
    HandoverRequest,
    GetSuccession,
    TakeJob,
    WithdrawWait,
    ProfileSubtask,
    CancelJob,
)
"""All operations. Everything derived from the table reads it when it is built."""


# --- derived from the table ---------------------------------------------------------------------------


def answer_type(operation: type[JobOperation[Any]]) -> Any:
    """Return the type of the operation's answer, which its handler declares. Raise TypeError if it does
    not."""
    from rheos.core.metrics.event_log import JobEvent
    from rheos.core.metrics.history_files import HistoryView
    from rheos.core.metrics.model import MetricsReport
    from rheos.core.plan.outline import PlanOutline
    from rheos.core.protocol.stacks import StackProfile
    from rheos.runtimes.job import CheckpointInfo, JobStatus
    from rheos.runtimes.views.answers import ViewInfo, ViewPage

    answers = (
        JobEvent,
        HistoryView,
        MetricsReport,
        PlanOutline,
        StackProfile,
        CheckpointInfo,
        JobStatus,
        ViewInfo,
        ViewPage,
    )
    handler: Any = operation.of_job
    if issubclass(operation, DriverOperation):
        handler = operation.of_stored if issubclass(operation, StoredRead) else operation.carry_out
    names = {each.__name__: each for each in answers} | {"ViewReader": Any}
    answer = get_type_hints(handler, localns=names)["return"]
    if isinstance(answer, TypeVar):
        raise TypeError(f"{operation.__name__} does not declare the type of its answer")
    return answer
