"""Rows of both sides in one schema, for operators that store them together.

A united row has the key, a flag for its side, and the columns of both sides. The columns of the other
side are null.

    0 | side  | left.id | left.at | right.order | right.at
    7 | false |       7 |      10 |           - |        -
    7 | true  |       - |       - |           7 |       12
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.graph.nodes import StreamType
from rheos.core.graph.types import common_key
from rheos.core.operators.contract import PortType
from rheos.core.operators.joins.joined_columns import LEFT, RIGHT
from rheos.core.protocol.elements import HIDDEN_PREFIX, TS, WM, Batch, visible

SIDE = "side"
"""Name of the flag column; it is true for rows of the right side."""

_PREFIXES = ("left.", "right.")


class UnitedRows:
    """Conversion of the rows of both ports of a join."""

    def __init__(self, ports: Sequence[PortType]) -> None:
        self._ports = ports
        self._sides = [visible(port.schema) for port in ports]
        pairs = zip(ports[LEFT].keys, ports[RIGHT].keys, strict=True)
        keys = [
            pa.field(str(n), common_key(self._sides[LEFT].field(one), self._sides[RIGHT].field(other)))
            for n, (one, other) in enumerate(pairs)
        ]
        columns = [
            pa.field(prefix + field.name, field.type)
            for prefix, port, side in zip(_PREFIXES, ports, self._sides, strict=True)
            for field in side
            if field.name not in port.keys
        ]
        shown = pa.schema([*keys, pa.field(SIDE, pa.bool_(), False), *columns])
        # Other hidden columns serve other operators of the stream, and differ between the sides.
        hidden = [field for field in ports[LEFT].schema if field.name in (TS, WM)]
        self.port = PortType(
            StreamType(shown, event_time=True),
            tuple(field.name for field in keys),
            pa.schema([*shown, *hidden]),
            ports[LEFT].keyed_at,
        )
        """Port of an operator that receives united rows."""

    def of(self, port: int, batch: Batch) -> Batch:
        """Return a batch of one side as united rows."""
        own = self._ports[port]
        keys = dict(zip(self.port.keys, own.keys, strict=True))
        prefix, rows = _PREFIXES[port], batch.num_rows
        arrays = []
        for field in self.port.schema:
            if field.name in keys:
                column = batch.column(keys[field.name])
                arrays.append(column if column.type == field.type else column.cast(field.type))
            elif field.name == SIDE:
                arrays.append(pa.repeat(pa.scalar(port == RIGHT), rows))
            elif field.name.startswith(HIDDEN_PREFIX):
                arrays.append(batch.column(field.name))
            elif field.name.startswith(prefix):
                arrays.append(batch.column(field.name.removeprefix(prefix)))
            else:
                arrays.append(pa.nulls(rows, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.port.schema)

    def side(self, port: int, united: Batch) -> Batch:
        """Return the columns of one side, without hidden columns, as they arrived. For rows of the
        other side, all columns except the keys are null."""
        keys = dict(zip(self._ports[port].keys, self.port.keys, strict=True))
        arrays, fields = [], []
        for field in self._sides[port]:
            column = united.column(keys.get(field.name, _PREFIXES[port] + field.name))
            arrays.append(column if column.type == field.type else column.cast(field.type))
            fields.append(field.with_nullable(True))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    @staticmethod
    def is_right(united: Batch) -> npt.NDArray[np.bool_]:
        """Return which rows belong to the right side."""
        found: npt.NDArray[np.bool_] = united.column(SIDE).to_numpy(zero_copy_only=False)
        return found
