"""`truncation`: converts a change that truncates a table into one row for each part of the table.

A TRUNCATE row has no key, and applies to all rows of the table. So this operator distributes the keys
to a fixed number of parts, in an added column. A TRUNCATE row becomes one row for each part, in order
with the rows before and after it. `truncation_deletes`, which is keyed by the parts, converts
each into deletions.

Messages and tombstones are not changes, and are dropped; the columns of a tombstone are all null. Rows
with an unknown `op` or without a key are assigned to part 0, as rejected.

```python
check_example(
    OperatorExample(
        parts_by_id,
        pa.schema([("id", pa.int64()), ("op", pa.string())]),
        [{"id": 1, "op": "insert"}, {"id": None, "op": "message"}, {"id": None, "op": "null"}],
    ),
    {"out": [{"id": 1, "op": "insert", "part": 580}]},
)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError
from rheos.core.graph.changelog import MESSAGE, OP, REJECTED, TOMBSTONE, TRUNCATE
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.change_rows import table_columns
from rheos.core.operators.contract import Operator, OperatorContext, Out, SplitSpec
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shown_rows import shown_record
from rheos.core.state.key_groups import groups_of_columns

PARTS = 1024
"""Number of parts of a table. The format of stored state depends on it."""


@dataclass(frozen=True)
class TruncationSpec(SplitSpec):
    key: tuple[str, ...]
    """Primary key of the table."""
    part: str
    """Name of the column that the operator adds."""
    skips: bool
    """Whether rows that are not changes are rejected. Otherwise such a row fails the job."""

    kind: ClassVar[str] = "truncation"
    takes_changes: ClassVar[bool] = True

    def operator(self, ctx: OperatorContext) -> Operator:
        return TruncationOperator(ctx, self)

    def summary(self) -> str:
        return f"in {PARTS} parts by {', '.join(self.key)}"


class TruncationOperator(Operator):
    def __init__(self, ctx: OperatorContext, spec: TruncationSpec) -> None:
        super().__init__(ctx)
        self._spec = spec

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        output = self.ctx.outputs.get(MAIN)
        if output is None or not batch.num_rows:
            return
        ops = batch.column(OP)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        keys = [batch.column(name) for name in self._spec.key]
        plain = not any(key.null_count for key in keys)
        marks = pc.is_in(ops, pa.array([TRUNCATE, MESSAGE, TOMBSTONE]))
        if plain and not pc.any(marks).as_py() and not self._unknown(ops).any():
            columns[self._spec.part] = pa.array(groups_of_columns(keys, PARTS), pa.int64())
            yield self._output_of(columns, output.schema)
            return
        yield from self._with_marks(batch, columns, output.schema)

    def _unknown(self, ops: pa.Array) -> npt.NDArray[np.bool_]:
        if not self._spec.skips:  # An unknown `op` has already ended the job.
            return np.zeros(len(ops), np.bool_)
        found: npt.NDArray[np.bool_]
        found = pc.starts_with(ops, REJECTED).to_numpy(zero_copy_only=False)
        return found

    def _with_marks(
        self, batch: Batch, columns: dict[str, pa.Array], schema: pa.Schema
    ) -> Iterator[Out]:
        """Handle the rare batches that contain more than changes of rows with keys."""
        ops = batch.column(OP).to_pylist()
        names = table_columns(batch.schema).names
        empty = np.logical_and.reduce(
            [batch.column(name).is_null().to_numpy(zero_copy_only=False) for name in names]
        )
        no_key = np.logical_or.reduce(
            [batch.column(name).is_null().to_numpy(zero_copy_only=False) for name in self._spec.key]
        )
        unknown = self._unknown(batch.column(OP))
        with_key = np.flatnonzero(~no_key)
        parts = np.zeros(batch.num_rows, np.int64)
        taken = [batch.column(name).take(pa.array(with_key)) for name in self._spec.key]
        parts[with_key] = groups_of_columns(taken, PARTS)
        repeats = np.ones(batch.num_rows, np.int64)
        for at, op in enumerate(ops):
            if op == TRUNCATE:
                repeats[at] = PARTS
            elif op == MESSAGE or (op == TOMBSTONE and empty[at]):
                repeats[at] = 0
            elif op == TOMBSTONE or unknown[at] or no_key[at]:
                what = "has a null key" if no_key[at] and op != TOMBSTONE else "has no kind of change"
                ops[at] = self._rejected(batch, at, op, what)
                parts[at] = 0
        rows = np.repeat(np.arange(batch.num_rows), repeats)
        part_of_row = parts[rows]
        begins = np.cumsum(repeats) - repeats
        for at in np.flatnonzero(repeats == PARTS).tolist():
            part_of_row[begins[at] : begins[at] + PARTS] = np.arange(PARTS)
        columns[OP] = pa.array(ops, pa.string())
        spread = {name: column.take(pa.array(rows)) for name, column in columns.items()}
        spread[self._spec.part] = pa.array(part_of_row)
        whole = self._output_of(spread, schema).batch
        for begin in range(0, whole.num_rows, self.ctx.batch_rows):
            yield Out(whole.slice(begin, self.ctx.batch_rows))

    def _rejected(self, batch: Batch, at: int, op: str, what: str) -> str:
        if self._spec.skips:
            return op if op.startswith(REJECTED) else f"{REJECTED}{op}"
        raise InputError(
            f"a change {what}",
            site=self.ctx.site,
            operator=self.ctx.name,
            record=shown_record(batch, at),
            hint='correct it at its source, or skip such changes with on_error="skip"',
        )

    def _output_of(self, columns: dict[str, pa.Array], schema: pa.Schema) -> Out:
        arrays = [columns[field.name].cast(field.type) for field in schema]
        return Out(pa.RecordBatch.from_arrays(arrays, schema=schema))
