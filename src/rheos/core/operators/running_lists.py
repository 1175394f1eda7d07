"""Values of a key as a list, row by row, when rows may also be retracted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from rheos.core.aggregates.cells import At, Cell, Frozen
from rheos.core.aggregates.contract import Agg, RunningForm, State
from rheos.core.aggregates.segments import Ints, Segments
from rheos.core.protocol.columns import plain_type

_VALUE, _SIGN = "value", "sign"
_NAN = float("nan")
"""Representative of every NaN. A list finds it by its identity."""


def signed_values(values: pa.Array, signs: Ints) -> pa.Array:
    """Return a column of values with their signs, as `CollectedList` reads it."""
    return pa.StructArray.from_arrays([values, pa.array(signs)], [_VALUE, _SIGN])


def signed_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of what `signed_values` returns for values of a type."""
    return pa.struct([(_VALUE, kind), (_SIGN, pa.int64())])


@dataclass(frozen=True)
class CollectedList(Agg):
    """The non-null values of a key, in the order of their arrival. A result exists only after the last
    row of a key in a batch, because a list after each row would take quadratic space."""

    kind: ClassVar[str] = "collect"

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return pa.list_(self._type(schema).field(_VALUE).type)

    def windowed(self, schema: pa.Schema) -> State:
        raise NotImplementedError

    def running(self, schema: pa.Schema) -> RunningForm:
        kind = self.result_type(schema)
        return RunningForm(partial(_ListCell, kind), kind)

    @staticmethod
    def running_value(parts: Mapping[str, pa.Array], kind: pa.DataType) -> pa.Array:
        plain = plain_type(kind.value_type)
        return pa.array([_decoded(each, plain) for each in parts["values"]], pa.list_(plain)).cast(kind)


def _encoded(values: Sequence[Any], kind: pa.DataType) -> bytes:
    """Return values of a type as an Arrow record batch without its schema."""
    batch = pa.record_batch([pa.array(values, kind)], names=[_VALUE])
    stored: bytes = batch.serialize().to_pybytes()
    return stored


def _decoded(stored: pa.Scalar, kind: pa.DataType) -> list[Any]:
    """Return the values that `_encoded` stored."""
    if not stored.is_valid:
        return []
    batch = pa.ipc.read_record_batch(stored.as_buffer(), pa.schema([(_VALUE, kind)]))
    values: list[Any] = batch.column(0).to_pylist()
    return values


class _ListCell(Cell):
    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._plain = pa.list_(plain_type(kind.value_type))
        self._lists: list[list[Any]] = []

    def grow(self, slots: int) -> None:
        self._lists.extend([] for _ in range(slots - len(self._lists)))

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        values = (
            column.field(_VALUE).cast(self._plain.value_type).take(pa.array(rows.order)).to_pylist()
        )
        signs = column.field(_SIGN).take(pa.array(rows.order)).to_pylist()
        ends = rows.ends.tolist()
        begin = 0
        for slot, end in zip(rows.slots.tolist(), ends, strict=True):
            known = self._lists[slot]
            for place in range(begin, end + 1):
                value = values[place]
                if value is None:
                    continue
                value = _NAN if value != value else value
                if signs[place] > 0:
                    known.append(value)
                    continue
                with suppress(ValueError):
                    known.remove(value)
            begin = end + 1
        last = pa.array([self._lists[slot] for slot in rows.slots.tolist()], self._plain)
        places = np.full(rows.rows, -1)
        places[rows.order[rows.ends]] = np.arange(len(ends))
        return last.cast(self._kind).take(pa.array(places, mask=places < 0))

    def freeze(self, at: At) -> dict[str, Frozen]:
        slots = range(*at.indices(len(self._lists))) if isinstance(at, slice) else at.tolist()
        kind = self._plain.value_type
        stored = pa.array([_encoded(self._lists[slot], kind) for slot in slots], pa.binary())
        return {"values": lambda: stored}

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        for slot, stored in zip(slots.tolist(), parts["values"], strict=True):
            values = _decoded(stored, self._plain.value_type)
            self._lists[slot] = [_NAN if value != value else value for value in values]
