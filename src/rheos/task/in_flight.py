"""Rows between subtasks, as state: what the barrier of an unaligned checkpoint has overtaken (EX12).

They are parts of the *receiving* operator, under names that no operator uses. What lay at its input is
written by the receiving subtask, what waited in an output by the sending one:

    in-flight input 0     key_group | row<the user's columns, __ts, __wm>
    in-flight output 0    key_group | row<...>

Rows that were on their way to a keyed operator are KEYED, so they go wherever their keys go; sorted by
key group and otherwise in their order, so that the rows of one key stay in theirs. Others are LIST,
and have no column `key_group`. The rows are nested, so no name of the user's can meet one of ours.

What the stream had reached before a row (`__swm`) does not come back with it: the rows may now meet
key groups, and come on channels, that have not come as far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rheos.errors import UnrestorableError
from rheos.operators.contract import PortType
from rheos.plan.physical import PlannedOperator
from rheos.protocol.elements import MIN_TIMESTAMP_MS, SWM, Batch
from rheos.protocol.ids import OperatorId
from rheos.protocol.snapshots import (
    IN_FLIGHT,
    IN_FLIGHT_INPUT,
    IN_FLIGHT_OUTPUT,
    SnapshotPart,
    StateKind,
)
from rheos.state.format import KEY_GROUP
from rheos.state.key_groups import key_groups
from rheos.task.partition import gather

_ROW = "row"


@dataclass(frozen=True, slots=True)
class InFlight:
    """Overtaken rows on their way to one port."""

    operator: OperatorId
    """The one that would have got them."""
    port: int
    keys: tuple[str, ...]
    """By which they are partitioned; empty on forward edges."""
    sent: bool
    """Whether they had left the sender's buffers: they go before those that had not."""
    batches: list[Batch]

    @property
    def state(self) -> str:
        return f"{IN_FLIGHT_INPUT if self.sent else IN_FLIGHT_OUTPUT}{self.port}"

    @property
    def size_bytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)


def in_flight_parts(
    in_flight: Iterable[InFlight], max_parallelism: int
) -> Iterator[tuple[OperatorId, list[SnapshotPart]]]:
    """The parts of a subtask's checkpoint that hold these rows, by operator."""
    by_state: dict[tuple[OperatorId, str], InFlight] = {}
    for rows in in_flight:
        if not rows.batches:
            continue
        known = by_state.setdefault(
            (rows.operator, rows.state),
            InFlight(rows.operator, rows.port, rows.keys, rows.sent, []),
        )
        known.batches.extend(rows.batches)
    by_operator: dict[OperatorId, list[SnapshotPart]] = {}
    for (operator, _), rows in by_state.items():
        by_operator.setdefault(operator, []).append(_part(rows, max_parallelism))
    yield from by_operator.items()


def _part(rows: InFlight, max_parallelism: int) -> SnapshotPart:
    if not rows.keys:
        return SnapshotPart(rows.state, StateKind.LIST, lambda: _nested(_together(rows.batches)))

    def write() -> pa.Table:
        batch = _together(rows.batches)
        groups = key_groups(batch, rows.keys, max_parallelism)
        order = np.argsort(groups, kind="stable")
        table = _nested(gather(batch, order))
        return table.add_column(0, KEY_GROUP, pa.array(groups[order]))

    return SnapshotPart(rows.state, StateKind.KEYED, write)


def _together(batches: Sequence[Batch]) -> Batch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _nested(batch: Batch) -> pa.Table:
    rows = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
    return pa.table({_ROW: rows})


# --- coming back ------------------------------------------------------------------------------------


def without_in_flight(restored: Mapping[str, Iterable[pa.Table]]) -> dict[str, Iterable[pa.Table]]:
    """What an operator is opened with: it never sees these names."""
    return {name: state for name, state in restored.items() if not name.startswith(IN_FLIGHT)}


def restored_batches(
    operator: PlannedOperator,
    restored: Mapping[str, Iterable[pa.Table]],
    prefix: str,
    batch_rows: int,
) -> Iterator[tuple[int, Batch]]:
    """The rows that were in flight to the operator, by port: those whose state begins with `prefix`.

    Raises UnrestorableError where the program has changed so that the operator cannot take them.
    """
    for name, tables in restored.items():
        if not name.startswith(prefix):
            continue
        port = int(name.removeprefix(prefix))
        for table in tables:
            if table.num_rows:
                yield from ((port, batch) for batch in _rows(operator, port, table, batch_rows))


def _rows(operator: PlannedOperator, port: int, table: pa.Table, batch_rows: int) -> Iterator[Batch]:
    rows = pa.RecordBatch.from_struct_array(table.column(_ROW).combine_chunks())
    if port >= len(operator.ports):
        raise _misfit(operator, f"for an input {port + 1} that it no longer has")
    batch = _fitted(operator, operator.ports[port], rows)
    for begin in range(0, batch.num_rows, batch_rows):
        yield batch.slice(begin, batch_rows)


def _fitted(operator: PlannedOperator, port: PortType, rows: Batch) -> Batch:
    if SWM in port.schema.names:
        unknown = pa.array(np.full(rows.num_rows, MIN_TIMESTAMP_MS))
        if SWM in rows.schema.names:
            rows = rows.drop_columns([SWM])
        rows = rows.append_column(SWM, unknown)
    if rows.schema.equals(port.schema):
        return rows
    try:
        return rows.select(port.schema.names).cast(port.schema)
    except (KeyError, pa.ArrowException) as error:
        raise _misfit(operator, f"that do not fit its input any more: {error}") from error


def _misfit(operator: PlannedOperator, why: str) -> UnrestorableError:
    return UnrestorableError(
        f"the checkpoint holds rows on their way to this operator {why}",
        site=operator.site,
        operator=operator.name,
        hint="take a savepoint with the program as it was, and start the changed program from that: "
        "savepoints hold no rows in flight",
    )
