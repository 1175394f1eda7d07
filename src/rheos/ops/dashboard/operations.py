"""The table of all REST operations. The routes and the OpenAPI document are made from it.

Most operations of a running job come from the table of job operations. The others are declared here:
they also answer for jobs that do not run, or show more than one operation returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from rheos.connectors.listener.admission import AdmissionCounts
from rheos.connectors.listener.server import listeners
from rheos.core.errors import ConfigurationError
from rheos.core.metrics.event_log import ShownEvent
from rheos.core.metrics.health import JobHealth
from rheos.ops.control.job_logs import LoggedLine
from rheos.ops.dashboard import served_jobs
from rheos.ops.dashboard.arguments import QueryParameter, body_of, meanings
from rheos.ops.dashboard.replays import (
    DebugRequest,
    ForkRequest,
    ReplayProcesses,
    ReplayRequest,
    WhyNotRequest,
    WhyRequest,
)
from rheos.ops.dashboard.served_jobs import Served, ServedJobs
from rheos.runtimes import job_operations
from rheos.runtimes.job_operations import answer_type
from rheos.runtimes.operation_contract import (
    MAX_READ_BYTES,
    Face,
    JobOperation,
    Meaning,
    Role,
    arguments_of,
    summary,
)

T = TypeVar("T")


MAX_BODY_BYTES = 16 * 1024
"""Maximum size of a body, except that of a read."""


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty body."""


class ListenerAnswer(msgspec.Struct, frozen=True):
    listener: str
    address: str
    connections: AdmissionCounts


@dataclass(frozen=True)
class RestRequest:
    """An admitted request, with its contents."""

    jobs: ServedJobs
    job: Served | None
    query: Mapping[str, list[str]]
    body: Any
    replays: ReplayProcesses


@dataclass(frozen=True)
class Operation:
    """A REST operation. `run` is called in its own thread, may take minutes, and raises RheosError."""

    name: str
    path: str
    summary: str
    run: Callable[[RestRequest], Any]
    answer: Any = dict[str, Any]
    """Type of the answer, for msgspec."""
    body: type[msgspec.Struct] | None = None
    """Type of the posted body; None for a GET request."""
    query: Mapping[str, QueryParameter] = field(default_factory=dict)
    """Parameters by name. Each may occur several times."""
    takes_long: bool = False
    """Whether it may take minutes although it only reads."""
    rows_of: str | None = None
    """Argument that names what the returned rows are read from, for which the role `LOOK` is not
    enough. None if it returns no rows."""
    changes_nothing: bool = False
    """Whether it needs the role `OPERATE` only because it runs the program of the job again."""
    deprecated: bool = False
    """Whether it is an old name of another operation, which the next release removes."""

    def __post_init__(self) -> None:
        """Raise TypeError if an argument does not declare the meaning of its string."""
        if self.body is not None:
            meanings(self.body)

    @property
    def role(self) -> Role:
        if self.rows_of is not None:
            return Role.READ
        return Role.LOOK if self.body is None else Role.OPERATE

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"

    @property
    def max_body_bytes(self) -> int:
        """Return the maximum size of its body."""
        return MAX_BODY_BYTES if self.rows_of is None else MAX_READ_BYTES


def _job_of(asked: RestRequest) -> Served:
    assert asked.job is not None, "the path of the operation names a job"
    return asked.job


_JOB = "/jobs/{job}"

_OF_REST = (
    Operation(
        "jobs",
        "/jobs",
        "The jobs that run on this machine, and those of the checkpoint directories",
        lambda asked: asked.jobs.listed(),
        list[dict[str, Any]],
    ),
    Operation(
        "listeners",
        "/listeners",
        "Listeners of this server's process, with the numbers of open, closed and refused connections",
        lambda asked: [ListenerAnswer(each.name, each.address, each.counts()) for each in listeners()],
        list[ListenerAnswer],
    ),
    Operation(
        "job",
        _JOB,
        "A job: its state, and the counts of each of its operators",
        lambda asked: served_jobs.job(_job_of(asked)),
    ),
    Operation(
        "metrics",
        f"{_JOB}/metrics",
        "All current metrics, by operator, subtask and edge",
        lambda asked: served_jobs.metrics(_job_of(asked)),
    ),
    Operation(
        "health",
        f"{_JOB}/health",
        "Its health: healthy, degraded, stuck or failing; with the problem, its start, and what to do",
        lambda asked: served_jobs.health(_job_of(asked)),
        JobHealth,
    ),
    Operation(
        "history",
        f"{_JOB}/history",
        "History of the metrics: at high resolution for an hour, at low resolution for a week",
        lambda asked: served_jobs.history(
            _job_of(asked), [*asked.query["metric"], *asked.query["figure"]]
        ),
        query={
            "metric": QueryParameter("Name of a metric; all by default", Meaning.TEXT),
            "figure": QueryParameter("Deprecated name of `metric`", Meaning.TEXT),
        },
    ),
    Operation(
        "checkpoints",
        f"{_JOB}/checkpoints",
        "The retained checkpoints, oldest first, with the cost of each",
        lambda asked: served_jobs.checkpoints(_job_of(asked)),
        list[dict[str, Any]],
    ),
    Operation(
        "event-log",
        f"{_JOB}/event-log",
        "Event log of the job under all of its drivers, newest first, with times and durations",
        lambda asked: served_jobs.event_log(_job_of(asked), asked.query.get("lines", [])),
        list[ShownEvent],
        query={"lines": QueryParameter("Number of events, up to 1000; 200 by default", Meaning.TEXT)},
    ),
    Operation(
        "logs",
        f"{_JOB}/logs",
        "Log lines of the job and of the program's functions: the most recent lines, oldest first",
        lambda asked: served_jobs.logs(_job_of(asked), asked.query.get("lines", [])),
        list[LoggedLine],
        query={"lines": QueryParameter("Number of lines, up to 1000; 200 by default", Meaning.TEXT)},
    ),
    Operation(
        "why-not",
        f"{_JOB}/why-not",
        "Why a window or timer of an operator has not fired yet",
        lambda asked: _replayed(asked, "why-not", _why_not(asked.query)),
        query={
            "operator": QueryParameter("Its id or name", Meaning.TEXT),
            "key": QueryParameter("A key of it, or column=value, separated by commas", Meaning.TEXT),
            "window": QueryParameter(
                "The window's start, or START/END: as in ISO 8601, or ms since the epoch", Meaning.TEXT
            ),
        },
        takes_long=True,
    ),
    Operation(
        "why",
        f"{_JOB}/why",
        "Input rows that led to a row of a sink, and their path; runs the program once more",
        lambda asked: _replayed(asked, "why", asked.body),
        body=WhyRequest,
        changes_nothing=True,
    ),
    Operation(
        "debug",
        f"{_JOB}/debug",
        "Replays one key of the job: each row and timer, its changes of the state, and its output",
        lambda asked: _replayed(asked, "debug", asked.body),
        body=DebugRequest,
        changes_nothing=True,
    ),
    Operation(
        "fork",
        f"{_JOB}/fork",
        "Differences in the job's output if it ran another program over the same input",
        lambda asked: _replayed(asked, "fork", asked.body),
        body=ForkRequest,
    ),
)


# --- operations of the job table ----------------------------------------------------------------------


def _of_table(kind: type[JobOperation[Any]]) -> Iterator[Operation]:
    """Yield the REST operations of a job operation. Its fields become the body, or query parameters. A
    read of rows has both, because many keys or a long condition do not fit into an address."""
    arguments = arguments_of(kind)
    looks = kind.role is not Role.OPERATE
    rows_of = kind.name if kind.role is Role.READ else None
    assert rows_of is None or rows_of in arguments, f"{kind.name} has no argument of its own name"

    def run(asked: RestRequest) -> Any:
        given = (
            {name: values[-1] for name, values in asked.query.items() if values}
            if asked.body is None
            else {name: getattr(asked.body, name) for name in arguments}
        )
        return served_jobs.asked(_job_of(asked), _operation(kind, given))

    operation = Operation(
        kind.name,
        f"{_JOB}/{kind.name}",
        summary(kind),
        run,
        answer_type(kind),
        None if looks else body_of(kind) if arguments else EmptyBody,
        {name: QueryParameter(of.help, of.meaning, of.max_chars) for name, of in arguments.items()}
        if looks
        else {},
        rows_of=rows_of,
    )
    yield operation
    if rows_of is not None:
        yield replace(operation, name=f"{kind.name}-by-body", body=body_of(kind), query={})


def _operation(kind: type[JobOperation[T]], given: Mapping[str, Any]) -> JobOperation[T]:
    """Return the operation with these arguments. Strings of a query become the fields' types."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"the arguments are not valid for {kind.name!r}: {error}", hint="see /openapi.json"
        ) from error


def operations() -> tuple[Operation, ...]:
    """Return all REST operations."""
    jobs = job_operations.JOB_OPERATIONS
    of_jobs = (each for kind in jobs if Face.REST in kind.faces for each in _of_table(kind))
    own = (*_OF_REST, *of_jobs)
    old = (_under_old_name(each, _OLD_NAMES[each.name]) for each in own if each.name in _OLD_NAMES)
    return (*own, *old)


_OLD_NAMES = {"metrics": "figures", "decisions": "story"}
"""Old names of operations, which answer until 0.3.0. If an answer has its operation's name as a key, it
has the old name there."""


def _under_old_name(operation: Operation, old: str) -> Operation:
    def run(asked: RestRequest) -> Any:
        answer = operation.run(asked)
        if isinstance(answer, dict) and operation.name in answer:
            answer[old] = answer.pop(operation.name)
        return answer

    return replace(operation, name=old, path=f"{_JOB}/{old}", run=run, deprecated=True)


# --- replays ------------------------------------------------------------------------------------------


def _replayed(asked: RestRequest, operation: str, request: ReplayRequest) -> msgspec.Raw:
    return asked.replays.ask(operation, served_jobs.running(_job_of(asked)), request)


def _why_not(query: Mapping[str, list[str]]) -> WhyNotRequest:
    given = {name: values[-1] for name, values in query.items() if values}
    if "operator" not in given:
        raise ConfigurationError(
            "an operator must be specified", hint="add ?operator=NAME, with its id or name"
        )
    return WhyNotRequest(operator=given["operator"], key=given.get("key"), window=given.get("window"))
