"""Moves a job of another system: positions, state, proof and savepoint, in this order.

The import does not need PySpark: it is loaded only for the checkpoint of a query.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rheos.api.overrides import Overrides
from rheos.api.program_file import planned_program
from rheos.connectors.kafka.bounds import named
from rheos.core.errors import ConfigurationError
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.core.site import located_at_call
from rheos.ops.migration.consumer_group import MovedSource, import_group
from rheos.ops.migration.moves import Move, MoveOutcome
from rheos.runtimes.job import JobConfig

if TYPE_CHECKING:
    from rheos.ops.migration.proof import Proof
    from rheos.ops.savepoints.bootstrap import PlannedProgram

_GROUP = "group:"

Report = Callable[[str], None]
"""Function that receives a line about the move as soon as it is known."""


@dataclass(frozen=True)
class ProofRequest:
    """The comparison of the query with the job."""

    query: Path
    """Program of the query."""
    arguments: Sequence[str] = ()
    """Arguments of this program."""
    rows: int | None = None
    """Number of rows after which the query stops; None for all rows that exist now."""
    key: Sequence[str] = ()
    """Columns by which rows are compared; empty for the key of the job's sink."""


@dataclass(frozen=True)
class Migration:
    """The parts of another system's job, with their places in a job of Rheos: `rh.migrate`."""

    moves: Sequence[Move]
    """Sources and operators, with their places in the job, and the reasons of refused ones."""
    proof: Proof | None
    """Comparison of the query and the job; None if it was not requested, or a part is refused."""
    savepoint: str | None
    """Folder of the savepoint; None if it was not written."""

    @property
    def refused(self) -> Sequence[Move]:
        """Return the parts that cannot be moved."""
        return [move for move in self.moves if move.outcome is MoveOutcome.REFUSED]

    @property
    def is_ready(self) -> bool:
        """Whether all parts can be moved, and the proof holds if there is one."""
        return not self.refused and (self.proof is None or self.proof.holds)


@located_at_call
def migrate(
    origin: str,
    program: str | os.PathLike[str] | PlannedProgram,
    *,
    arguments: Sequence[str] = (),
    to: str | None = None,
    prove: str | os.PathLike[str] | None = None,
    query_arguments: Sequence[str] = (),
    rows: int | None = None,
    key: Sequence[str] = (),
) -> Migration:
    """Move a Structured Streaming query or a Kafka consumer group to a job, with positions and state.

    ```python
    moved = rh.migrate("checkpoint", "job.py", prove="query.py")
    print(*moved.proof.explained(), sep="\\n")
    ```

    Stop the query or the consumers first. The checkpoint and the group do not change.

    Args:
        origin: The checkpoint folder of the query, a path or a URL; or "group:NAME" for a consumer
            group.
        program: The file of the job, or its Environment with streams and sinks.
        arguments: Arguments of the job's file.
        to: The new folder of the savepoint. None: nothing is written.
        prove: The Python file of the query. The query, from a copy of its checkpoint, and the job read
            the same input after the checkpoint, and their rows are compared.
        query_arguments: Arguments of the query's file.
        rows: With `prove`, number of rows after which the query stops, at the end of a batch. None: all
            rows that exist now.
        key: With `prove`, columns by which rows are compared. By default, the key of the job's sink.

    Returns:
        The parts, the comparison, and the folder of the savepoint.

    Raises:
        ConfigurationError: The checkpoint does not exist. With `to`, also: a part cannot be moved, or
            the query and the job emit different rows.
        CheckpointError: The checkpoint is damaged, or Spark cannot read its state.
        InputError: A position does not exist any more, or a row of the state does not match the job.
        RheosError: An error of one of the programs.
    """
    if isinstance(program, str | os.PathLike):
        plan = planned_program(Path(program), arguments, Overrides())
    else:
        plan = program.plan()
    request = None if prove is None else ProofRequest(Path(prove), query_arguments, rows, key)
    made = run_migration(origin, plan, to, request, lambda line: None)
    if to is not None and made.savepoint is None:
        raise _not_ready(made)
    return made


def run_migration(
    origin: str, plan: PhysicalPlan, to: str | None, request: ProofRequest | None, report: Report
) -> Migration:
    """Move a job of another system; the arguments are those of `migrate`. If it is not ready, no
    savepoint is written. `report` receives the explanation."""
    if origin.startswith(_GROUP):
        if request is not None:
            raise ConfigurationError(
                "a consumer group has no query that could be compared with the job",
                hint="leave out --prove, or prove=, or pass the checkpoint of a query",
            )
        return _move_group(origin.removeprefix(_GROUP), plan, to, report)
    return _move_query(origin, plan, to, request, report)


def _move_group(group: str, plan: PhysicalPlan, to: str | None, report: Report) -> Migration:
    found = import_group(plan, group)
    moves = []
    for source in found.sources:
        report(f"source {source.name} ({source.operator})")
        lines = [*_continued(source)]
        for line in lines:
            report(f"  {line}")
        place = f"{source.name} ({source.operator})"
        moves.append(Move(f"group {group}", MoveOutcome.MOVED, place, "; ".join(lines)))
    return Migration(moves, None, None if to is None else found.write(to))


def _continued(source: MovedSource) -> Iterator[str]:
    """Yield what a source continues from, by partition."""
    for partition, offset in sorted(source.offsets.items()):
        yield f"{named(partition)} continues at offset {offset}"
    for split in source.from_first:
        yield f"{split} has no committed offset: it begins with its first record"


def _move_query(
    path: str, plan: PhysicalPlan, to: str | None, request: ProofRequest | None, report: Report
) -> Migration:
    from rheos.ops.migration.proof import prove
    from rheos.ops.migration.query_import import explained, import_query
    from rheos.ops.migration.spark_program import captured_query
    from rheos.runtimes.spark.session import get_session

    query = None
    if request is not None:
        # The program of the query may set up the session, such as with the jars of its sources.
        query = captured_query(request.query, request.arguments, path, request.rows)
    session = get_session(JobConfig(job=JobId("migrate")), slots=max(plan.parallelism, 1))
    found = import_query(session, path, plan)
    for line in explained(found):
        report(line)
    if found.refused:
        return Migration(found.moves, None, None)
    proof = None
    if request is not None and query is not None:
        proof = prove(found, plan, query, rows=request.rows, key=request.key)
        for line in proof.explained():
            report(line)
        if not proof.holds:
            return Migration(found.moves, proof, None)
    return Migration(found.moves, proof, None if to is None else found.write(to))


def _not_ready(made: Migration) -> ConfigurationError:
    if made.refused:
        first = made.refused[0]
        return ConfigurationError(
            f"{len(made.refused)} parts of the checkpoint cannot be moved, such as {first.part}: "
            f"{first.reason}",
            hint=first.hint or None,
        )
    assert made.proof is not None
    return ConfigurationError(
        "the job does not continue the query: " + "; ".join(made.proof.explained()),
        hint="leave out to=, and look at the rows of the result's proof",
    )
