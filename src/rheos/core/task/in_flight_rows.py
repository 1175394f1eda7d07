"""Rows between subtasks as state, which an unaligned checkpoint's barrier has overtaken (EX12).

They are parts of the *receiving* operator's state, under names that no operator uses. The receiving
subtask writes the rows at its input, the sending subtask those in its outputs:

    in-flight input 0     key_group | row<the user's columns, __ts, __wm>       of a keyed port
    in-flight output 0    key_group | row<...>
    in-flight input 1     row<...>                                              of a broadcast port
    in-flight output 1    receiver | row<...>
    in-flight input 2     row<...>                                              of any other
    in-flight output 2    row<...>

Rows for a keyed port are KEYED, so they follow their keys. They are sorted by key group and otherwise
keep their order, so that the rows of one key stay in order. Rows for a broadcast port are BROADCAST.
Each subtask has its own copy of such a row in flight. A restored subtask takes all copies that one old
subtask had not received. Other rows are LIST. The rows are nested, so no column name of the user can
collide with ours.

The watermark of the stream before a row (`__swm`) is not restored, because restored key groups and
channels may not have reached that event time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from rheos.core.errors import UnrestorableError
from rheos.core.operators.contract import PortType
from rheos.core.operators.iterate import FEEDBACK_PORT
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, SWM, Batch
from rheos.core.protocol.hashing import NullKeyError
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.snapshots import (
    IN_FLIGHT,
    IN_FLIGHT_INPUT,
    IN_FLIGHT_OUTPUT,
    RECEIVER,
    RestoredState,
    SnapshotPart,
    StateKind,
)
from rheos.core.state.format import KEY_GROUP
from rheos.core.state.key_groups import key_groups
from rheos.core.task.partition import gather

_ROW = "row"


@dataclass(frozen=True, slots=True)
class InFlight:
    """Overtaken rows that were in flight to one port."""

    operator: OperatorId
    """Operator that would have received them."""
    port: int
    type: PortType
    """Type of that port."""
    sent: bool
    """Whether they had left the sender's buffers. Such rows precede those that had not."""
    batches: list[Batch]
    receiver: int = 0
    """Receiving subtask. Only used for rows in a sender's buffers."""

    @staticmethod
    def to(
        operator: PlannedOperator, port: int, batches: list[Batch], *, sent: bool, receiver: int = 0
    ) -> InFlight:
        return InFlight(operator.id, port, operator.ports[port], sent, batches, receiver)

    @property
    def state(self) -> str:
        return f"{IN_FLIGHT_INPUT if self.sent else IN_FLIGHT_OUTPUT}{self.port}"

    @property
    def size_bytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)


def in_flight_parts(
    in_flight: Iterable[InFlight], max_parallelism: int
) -> Iterator[tuple[OperatorId, list[SnapshotPart]]]:
    """Yield the parts of a subtask's checkpoint that contain these rows, by operator."""
    by_state: dict[tuple[OperatorId, str], list[InFlight]] = {}
    for rows in in_flight:
        if rows.batches:
            by_state.setdefault((rows.operator, rows.state), []).append(rows)
    by_operator: dict[OperatorId, list[SnapshotPart]] = {}
    for (operator, _), of_state in by_state.items():
        by_operator.setdefault(operator, []).append(_part(of_state, max_parallelism))
    yield from by_operator.items()


def _part(rows: Sequence[InFlight], max_parallelism: int) -> SnapshotPart:
    """Return the part for rows of one port. Either all of the rows were sent, or none."""
    first = rows[0]
    kind = first.type.in_flight
    if kind is StateKind.KEYED:
        write = partial(_keyed, rows, max_parallelism)
    elif kind is StateKind.BROADCAST and not first.sent:
        write = partial(_copies, rows)
    else:
        write = partial(_listed, rows)
    return SnapshotPart(first.state, kind, write)


def _keyed(rows: Sequence[InFlight], max_parallelism: int) -> pa.Table:
    batch = _together(rows)
    port = rows[0].type
    try:
        groups = key_groups(batch, port.keys, max_parallelism)
    except NullKeyError as error:
        # With one subtask, senders do not check the keys of rows.
        raise error.located_in(batch, port.keys, port.keyed_at) from None
    order = np.argsort(groups, kind="stable")
    return _nested(gather(batch, order)).add_column(0, KEY_GROUP, pa.array(groups[order]))


def _copies(rows: Sequence[InFlight]) -> pa.Table:
    counts = [sum(batch.num_rows for batch in each.batches) for each in rows]
    receivers = np.repeat(np.array([each.receiver for each in rows], np.uint16), counts)
    return _listed(rows).add_column(0, RECEIVER, pa.array(receivers))


def _listed(rows: Sequence[InFlight]) -> pa.Table:
    return _nested(_together(rows))


def _together(rows: Sequence[InFlight]) -> Batch:
    batches = [batch for each in rows for batch in each.batches]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _nested(batch: Batch) -> pa.Table:
    rows = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
    return pa.table({_ROW: rows})


# --- restoring --------------------------------------------------------------------------------------


def without_in_flight(restored: Mapping[str, Iterable[pa.Table]]) -> dict[str, Iterable[pa.Table]]:
    """Return the state with which an operator is opened; it never contains rows in flight."""
    return {name: state for name, state in restored.items() if not name.startswith(IN_FLIGHT)}


def restored_batches(
    operator: PlannedOperator,
    restored: Mapping[str, Iterable[pa.Table]],
    prefix: str,
    batch_rows: int,
) -> Iterator[tuple[int, Batch]]:
    """Yield the rows that were in flight to the operator, by port. `prefix` selects the states.

    Raise UnrestorableError if the operator of a changed program cannot receive them.
    """
    for name, tables in restored.items():
        if not name.startswith(prefix):
            continue
        port = int(name.removeprefix(prefix))
        if port >= len(operator.ports):
            raise _misfit(operator, port, f"for input {port + 1}, which it no longer has")
        kind = tables.kind if isinstance(tables, RestoredState) else None
        if kind not in (None, operator.ports[port].in_flight):
            raise _misfit(operator, port, "whose distribution over its subtasks has changed")
        for table in tables:
            if table.num_rows:
                yield from ((port, batch) for batch in _rows(operator, port, table, batch_rows))


def _rows(operator: PlannedOperator, port: int, table: pa.Table, batch_rows: int) -> Iterator[Batch]:
    rows = pa.RecordBatch.from_struct_array(table.column(_ROW).combine_chunks())
    batch = _fitted(operator, port, rows)
    for begin in range(0, batch.num_rows, batch_rows):
        yield batch.slice(begin, batch_rows)


def _fitted(operator: PlannedOperator, port: int, rows: Batch) -> Batch:
    schema = operator.ports[port].schema
    if SWM in schema.names:
        unknown = pa.array(np.full(rows.num_rows, MIN_TIMESTAMP_MS))
        if SWM in rows.schema.names:
            rows = rows.drop_columns([SWM])
        rows = rows.append_column(SWM, unknown)
    if rows.schema.equals(schema):
        return rows
    try:
        return rows.select(schema.names).cast(schema)
    except (KeyError, pa.ArrowException) as error:
        raise _misfit(operator, port, f"that no longer fit its input: {error}") from error


def _misfit(operator: PlannedOperator, port: int, why: str) -> UnrestorableError:
    hint = (
        "take a savepoint with the unchanged program, and start the changed program from that: "
        "savepoints contain no in-flight rows"
    )
    if operator.spec.loop_capacity is not None and port == FEEDBACK_PORT:
        hint = (
            "rows in a loop are part of savepoints, too: restore the old columns of the loop, "
            "or let the unchanged program run until the loop is empty"
        )
    return UnrestorableError(
        f"the checkpoint contains in-flight rows for this operator {why}",
        site=operator.site,
        operator=operator.name,
        hint=hint,
    )
