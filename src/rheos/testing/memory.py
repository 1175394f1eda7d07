"""A two-phase sink in process memory. Committed rows survive every simulated crash.

It checks the engine against the sink contract: only staged rows are committed, no rows are staged
twice, and a repeated commit changes nothing. `violations` lists the broken rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import msgspec
import pyarrow as pa

from rheos.connectors.collect import WholeTableWriter
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.errors import ProgramError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId

Moment = Literal["before", "after"]


class StagedRows(msgspec.Struct, frozen=True):
    """Staged rows, identified by a name that is used only once. The name is the committable."""

    job: str
    operator: str
    attempt: int
    subtask: int
    number: int


_decoder = msgspec.msgpack.Decoder(StagedRows)


class MemoryTable:
    """Rows of one MemorySink. `on_commit` is called before and after each piece is committed, with the
    sink's operator and the committable, and may raise to make the commit fail there; "after" means that
    the commit has taken effect.

    ```python
    table = testing.MemoryTable()
    events.sink_to(testing.MemorySink(table))
    ```
    """

    def __init__(self) -> None:
        self.staged: dict[StagedRows, pa.Table] = {}
        self.committed: dict[StagedRows, pa.Table] = {}
        """Committed rows, in the order of their commits."""
        self.on_commit: Callable[[Moment, OperatorId, bytes], None] | None = None
        self.violations: list[str] = []

    def table(
        self, schema: pa.Schema | None = None, only: Set[tuple[OperatorId, bytes]] | None = None
    ) -> pa.Table:
        """Return the committed rows, in the order of their commits.

        Args:
            schema: The columns of the result if there are no rows.
            only: The committables to include; by default all.

        Returns:
            The rows.
        """
        pieces = [
            rows for name, rows in self.committed.items() if only is None or _known_as(name) in only
        ]
        return pa.concat_tables(pieces) if pieces else (schema or pa.schema([])).empty_table()

    def stage(self, name: StagedRows, rows: pa.Table) -> None:
        """Stage rows of a writer.

        Args:
            name: Name of the staged rows.
            rows: The rows.
        """
        if name in self.staged or name in self.committed:
            self.violations.append(f"{name} was staged twice")
        self.staged[name] = rows

    def commit(self, name: StagedRows) -> None:
        """Publish staged rows, once.

        Args:
            name: Name of the staged rows.
        """
        self._strike("before", name)
        if name in self.staged:
            self.committed[name] = self.staged.pop(name)
        elif name not in self.committed:
            self.violations.append(f"{name} was to be committed, but is not staged")
        self._strike("after", name)

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[StagedRows]) -> None:
        """Remove what earlier attempts of a job have staged.

        Args:
            job: The job.
            before: The attempt that starts; those before it are stale.
            keep: Names of staged rows to keep.
        """
        self.staged = {
            name: rows
            for name, rows in self.staged.items()
            if name.job != job or name.attempt >= before or name in keep
        }

    def _strike(self, moment: Moment, name: StagedRows) -> None:
        if self.on_commit is not None:
            self.on_commit(moment, *_known_as(name))


def _known_as(name: StagedRows) -> tuple[OperatorId, bytes]:
    return OperatorId(name.operator), msgspec.msgpack.encode(name)


@dataclass(frozen=True, eq=False)
class MemorySink(Sink):
    """A sink that writes into `target`, such as `testing.MemorySink(testing.MemoryTable())`. It runs
    within one process only."""

    in_process = True
    takes_changes = True

    target: MemoryTable = field(default_factory=MemoryTable)
    on_driver: bool = False
    """Whether the driver commits, as for tables of Spark."""

    def open(self, ctx: SinkContext) -> SinkWriter:
        return _MemoryWriter(self.target, ctx)

    def committer(self) -> Committer:
        return (_DriversCommitter if self.on_driver else _MemoryCommitter)(self.target)

    def describe(self) -> str:
        return "memory"

    def __reduce__(self) -> NoReturn:
        raise ProgramError(
            "a MemorySink stores its rows in one process, and cannot be sent to another",
            hint='use runtime="simulated", or stream.collect(name)',
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> MemorySink:
        return self


class _MemoryWriter(WholeTableWriter):
    def __init__(self, target: MemoryTable, ctx: SinkContext) -> None:
        super().__init__(ctx)
        self._target = target

    def stage(self, checkpoint: CheckpointId, number: int, rows: pa.Table) -> StagedRows:
        ctx = self._ctx
        name = StagedRows(ctx.job, ctx.operator, ctx.attempt, ctx.subtask, number)
        self._target.stage(name, rows)
        return name


@dataclass(frozen=True)
class _MemoryCommitter(Committer):
    target: MemoryTable

    def commit(self, committables: Sequence[bytes]) -> None:
        for committable in committables:
            self.target.commit(_decoder.decode(committable))

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        self.target.abort_stale(job, before, [_decoder.decode(committable) for committable in keep])


class _DriversCommitter(_MemoryCommitter):
    on_driver = True
