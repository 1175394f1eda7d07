"""Explains why a job emitted a row: `why`.

It copies a checkpoint of the job into memory, and records the subsequent input on tapes, as `fork`
does. The running program continues from it over the tapes, traced, with sinks that only record their
rows. No file of the job is opened for writing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.urls import absolute
from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint, kept_checkpoints
from rheos.core.errors import ConfigurationError, Site
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.elements import visible
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.moments import parsed_moment
from rheos.ops.control.started_program import StartedProgram
from rheos.ops.forks.input import CheckpointInput, state_of
from rheos.ops.forks.job_program import (
    JobProgram,
    job_program,
    planned,
    savepoint_of,
    sink_of,
    working_as,
)
from rheos.ops.forks.reservations import Reservation, reservations
from rheos.ops.forks.tape import Beginning, state_backend
from rheos.ops.lineage.answer import Answers, ExplainedRow
from rheos.ops.lineage.traced_run import TracedRun
from rheos.runtimes.driver.sources_and_sinks import sources
from rheos.runtimes.host.scratch import scratch_folder

MOST_ROWS = 3


@dataclass(frozen=True)
class WhyResult:
    """The explanation of the matching rows: `rh.why`."""

    job: JobId
    sink: str
    checkpoint: int | None
    """Number of the checkpoint from which the program was run again; None: from the beginning of its
    input."""
    rows_read: Mapping[str, int]
    """Number of rows read from each source, by its name."""
    given: int
    """Number of rows that the sink would have received from there on."""
    matches: int
    """Number of them that match."""
    rows: Sequence[ExplainedRow]
    """The newest of the matches, the newest first."""
    reservations: Sequence[Reservation]
    """Operators on the path whose rows may differ between the job and this run."""


def why(
    job: str,
    sink: str,
    row: Mapping[str, Any],
    *,
    most: int = MOST_ROWS,
    for_: Duration | None = None,
    against: str | os.PathLike[str] | None = None,
    checkpoint_dir: str | None = None,
    from_savepoint: str | None = None,
    from_start: bool = False,
) -> WhyResult:
    """Return which input rows led to a row that a job emitted, through which operators, windows and
    timers.

    ```python
    found = rh.why("orders", "alerts", {"user": 7})
    for input in found.rows[0].inputs:
        print(input.source, input.split, input.unit, input.place, input.row)
    ```

    `why` runs the job's program again in this process, over the same input, and traces every operator.
    It starts from the newest checkpoint from which the program emits such a row. It does not touch the
    job.

    Args:
        job: the id or name of a running job, as in `rheos jobs`, or of a job in `checkpoint_dir`.
        sink: the name or id of the sink that received the row.
        row: the values of some of its columns. Times may be strings in ISO 8601 format.
        most: maximum number of rows to explain: the newest of those that have the values.
        for_: event time to process after the checkpoint, as for `fork`. None: all that the sources
            have now.
        against: the file of the running program, if the job does not report it.
        checkpoint_dir: the job's checkpoint directory, if the job does not run, or if it reports the
            directory without credentials.
        from_savepoint: the folder of a savepoint of the job to start from, instead of its checkpoints.
        from_start: read all input from its beginning and restore no state. Then no earlier rows are
            missing from the explanation.

    Returns:
        The explained rows.

    Raises:
        ConfigurationError: The job, checkpoint, sink, column or row does not exist, or the input cannot
            be read alongside the job.
        CheckpointError: The checkpoint does not fit the program.
        RheosError: An error of the program.
    """
    question = WhyQuestion(
        job, sink, row, most, for_, against, checkpoint_dir, from_savepoint, from_start
    )
    answer = next(traced_answers(question))
    return answer.result


@dataclass(frozen=True)
class WhyQuestion:
    """The arguments of `why`, which describes them."""

    job: str
    sink: str
    row: Mapping[str, Any]
    most: int = MOST_ROWS
    for_: Duration | None = None
    against: str | os.PathLike[str] | None = None
    checkpoint_dir: str | None = None
    from_savepoint: str | None = None
    from_start: bool = False


@dataclass(frozen=True)
class TracedAnswer:
    """The explanation of some rows, and the run that was traced for it."""

    result: WhyResult
    started: StartedProgram
    plan: PhysicalPlan
    sink: PlannedOperator
    run: TracedRun
    """The run, which is closed; its ledger has all rows."""
    newest: int
    """Number of the newest match in the ledger."""
    input_rows: Sequence[int]
    """Numbers of the source rows that led to it."""


def traced_answers(question: WhyQuestion) -> Iterator[TracedAnswer]:
    """Yield the answer from each beginning from which the program emits such a row, the newest first.
    The caller takes as many as it needs: each one is a run. Raise the errors of `why`."""
    if question.from_start and question.from_savepoint is not None:
        raise ConfigurationError(
            "--from-start and a savepoint exclude each other", hint="leave out one of them"
        )
    found = job_program(question.job, question.checkpoint_dir, question.against)
    with working_as(found.started):
        plan = planned(found.started)
        asked = _OutputQuery.of(plan, found.job, question.sink, question.row)
    beginnings = _beginnings(found, question.from_savepoint, question.from_start)
    given, first, is_answered = 0, "the start", False
    while True:
        with working_as(found.started):
            try:
                checkpoint = next(beginnings)
            except StopIteration:
                break
            first = _named(checkpoint)
            answer, given = _answer(found, plan, checkpoint, asked, question)
        if answer is not None:
            is_answered = True
            yield answer
    if not is_answered:
        raise ConfigurationError(
            f"{asked.sink.site}: of the {given} rows that reach the sink {asked.name!r} from "
            f"{first} on, none has {asked.shown}",
            hint="check the spelling"
            if question.from_start
            else "it may be older: read all input, with --from-start, or pass an older savepoint",
        )


@dataclass(frozen=True)
class SinkReplay:
    """A traced run of a job's program over its input, and a row that its sink may receive."""

    started: StartedProgram
    plan: PhysicalPlan
    sink: PlannedOperator
    row: Mapping[str, Any]
    """The row of the question, in the types of the sink's columns."""
    run: TracedRun
    """The run, which is closed; its ledger has all rows."""
    answers: Answers


def sink_replay(question: WhyQuestion) -> SinkReplay:
    """Run the program of the job over all of its input, or from a savepoint on. Raise the errors of
    `why`."""
    found = job_program(question.job, question.checkpoint_dir, question.against)
    with working_as(found.started):
        plan = planned(found.started)
        asked = _OutputQuery.of(plan, found.job, question.sink, question.row)
        savepoint = question.from_savepoint
        checkpoint = next(_beginnings(found, savepoint, from_start=savepoint is None))
        input = _input(plan, checkpoint, question)
        run = _traced_run(found, plan, checkpoint, input)
        answers = Answers(run.ledger, run.watched, checkpoint)
    return SinkReplay(found.started, plan, asked.sink, asked.values, run, answers)


def _beginnings(
    found: JobProgram, from_savepoint: str | None, from_start: bool
) -> Iterator[CopiedCheckpoint | None]:
    """Yield the checkpoints to search from, the newest first; None for the beginning of the input."""
    if from_start:
        yield None
    elif from_savepoint is not None:
        yield savepoint_of(found.job, absolute(from_savepoint))
    else:
        yield from kept_checkpoints(found.store, found.job)


def _named(checkpoint: CopiedCheckpoint | None) -> str:
    return "the start" if checkpoint is None else f"checkpoint {checkpoint.savepoint.entry.checkpoint}"


# --- the request --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _OutputQuery:
    sink: PlannedOperator
    name: str
    values: Mapping[str, Any]
    """Values in the types of the sink's columns."""

    @property
    def shown(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.values.items()) or "any values"

    @staticmethod
    def of(plan: PhysicalPlan, job: JobId, sink: str, row: Mapping[str, Any]) -> _OutputQuery:
        one = sink_of(plan, sink, f"the job {job!r}")
        columns = visible(one.ports[0].schema)
        owner = f"the sink {one.name!r}"
        values = {
            name: column_value(columns, name, value, owner, one.site) for name, value in row.items()
        }
        return _OutputQuery(one, sink, values)


def column_value(columns: pa.Schema, name: str, value: Any, owner: str, site: Site) -> Any:
    """Return a value of JSON in the type of a column.

    Args:
        columns: The columns.
        name: Name of one of them.
        value: The value.
        owner: Owner of the rows in the message: "the sink 'alerts'".
        site: Line of the owner in the program.

    Raises:
        ConfigurationError: The column does not exist, or cannot have the value.
    """
    if name not in columns.names:
        raise ConfigurationError(
            f"{site}: the rows of {owner} have no column {name!r}",
            hint=f"they have {', '.join(columns.names)}",
        )
    kind = columns.field(name).type
    try:
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    try:
        return _typed(value, kind).cast(kind).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{site}: {value!r} is not a value of the column {name!r} of {owner}, which is {kind}",
            hint="write the time with its offset from UTC: 2026-01-01T12:00:00Z"
            if pa.types.is_timestamp(kind)
            else "write the value as JSON",
        ) from error


def _typed(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Return the value in a type from which it can be cast. Arrow parses only as many decimals of a
    second as the type has."""
    is_time = pa.types.is_timestamp(kind) and isinstance(value, str)
    return pa.scalar(parsed_moment(value) if is_time else value)


# --- the answer ---------------------------------------------------------------------------------------


def _input(
    plan: PhysicalPlan, checkpoint: CopiedCheckpoint | None, question: WhyQuestion
) -> CheckpointInput:
    length_ms = None if question.for_ is None else duration_ms(question.for_)
    return CheckpointInput(checkpoint, plan, length_ms)


def _traced_run(
    found: JobProgram, plan: PhysicalPlan, checkpoint: CopiedCheckpoint | None, input: CheckpointInput
) -> TracedRun:
    """Return a run of the program from a checkpoint, which has ended."""
    restored = {} if checkpoint is None else state_of(checkpoint)
    with scratch_folder(None) as folder:
        beginning = Beginning(restored, state_backend(checkpoint), folder)
        replay = TracedRun(found.job, plan, input.tapes, beginning)
        with contextlib.closing(replay):
            replay.run()
    return replay


def _answer(
    found: JobProgram,
    plan: PhysicalPlan,
    checkpoint: CopiedCheckpoint | None,
    asked: _OutputQuery,
    question: WhyQuestion,
) -> tuple[TracedAnswer | None, int]:
    """Return the answer, or None if no row matches; and the number of rows that the sink receives."""
    input = _input(plan, checkpoint, question)
    replay = _traced_run(found, plan, checkpoint, input)
    ledger, place = replay.ledger, replay.operators[asked.sink.id]
    given = [arrival.row for arrival in ledger.arrivals(place)]
    matches = [
        number
        for number in given
        for row in [ledger.rows[number]]
        if all(row.value(name) == value for name, value in asked.values.items())
    ]
    if not matches:
        return None, len(given)
    answers = Answers(ledger, replay.watched, checkpoint)
    rows = [answers.explained(number) for number in reversed(matches[-question.most :])]
    splits = sum(len(tape.splits) for tape in input.tapes.values())
    way = {(step.operator, step.site) for row in rows for step in row.steps}
    doubts = [
        each for each in reservations(plan.operators(), splits) if (each.operator, each.site) in way
    ]
    read = {source.name: input.tapes[source.id].rows for source, _ in sources(plan)}
    number = None if checkpoint is None else checkpoint.savepoint.entry.checkpoint
    result = WhyResult(found.job, asked.name, number, read, len(given), len(matches), rows, doubts)
    newest = matches[-1]
    inputs = answers.input_rows(newest)
    return TracedAnswer(result, found.started, plan, asked.sink, replay, newest, inputs), len(given)
