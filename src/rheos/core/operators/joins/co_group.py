"""`co_group`: a function of all records of both streams with the same key, in one window.

The records of each side are sorted by timestamp; records with the same timestamp by their columns,
nulls last. The function is called for a window if either side has a record.

```python
class Missed(rh.CoGroupFunction):
    def co_group(self, left: list, right: list, ctx: rh.WindowContext):
        yield {"page": ctx.key, "end": ctx.window.end_ms, "missed": len(left) - len(right)}

check_example(
    OperatorExample(
        lambda shown, clicked: shown.key_by("page").co_group(
            clicked.key_by("page"),
            rh.Session(gap="10ms"),
            Missed(),
            returns={"page": str, "end": int, "missed": int},
        ),
        pa.schema([("page", pa.string()), ("at", pa.int64())]),
        [
            {"page": "home", "at": 1},
            {"page": "home", "at": 11},
            Right({"page": "home", "then": 9}),
            Right({"page": "cart", "then": 5}),
        ],
        on="at",
        right=pa.schema([("page", pa.string()), ("then", pa.int64())]),
        right_on="then",
    ),
    {
        "out": [
            {"page": "home", "end": 21, "missed": 1},
            {"page": "cart", "end": 15, "missed": -1},
        ]
    },
)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from rheos.core.graph.functions import CoGroupFunction
from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.joins.joined_columns import LEFT, RIGHT
from rheos.core.operators.joins.united_rows import UnitedRows
from rheos.core.operators.joins.window_join import BothSidesSpec, late_sides
from rheos.core.operators.origins import Origin, RowsOfKey, RowsOfWindow
from rheos.core.operators.window.base import WindowOperator
from rheos.core.operators.window.process import WindowProcessOperator
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.types import rows_of


@dataclass(frozen=True)
class CoGroupSpec(BothSidesSpec):
    """A function over the records of both sides in a window."""

    fn: CoGroupFunction
    records: tuple[type | None, type | None]
    """Type of the records that the function receives, for each side."""

    kind: ClassVar[str] = "co_group"

    def windows(self, ctx: OperatorContext, united: UnitedRows) -> WindowOperator:
        return _CoGroups(ctx, self, united)

    def summary(self) -> str:
        return str(self.window)

    def origin(self) -> Origin:
        if getattr(self.window, "time", None) == "processing_time":
            return RowsOfKey(calls_function=True)
        return RowsOfWindow(0, calls_function=True)


class _RecordOfSide:
    """A record, and the side that it belongs to."""

    __slots__ = ("port", "record")

    def __init__(self, port: int, record: Any) -> None:
        self.port = port
        self.record = record

    def __repr__(self) -> str:
        return repr(self.record)


@dataclass(frozen=True)
class _TwoStreamFunction:
    """Adapter that makes the user's function a function of windows over one stream."""

    fn: CoGroupFunction

    def process(self, records: list[_RecordOfSide], ctx: Any) -> Any:
        left, right = ([of.record for of in records if of.port == port] for port in (LEFT, RIGHT))
        return self.fn.co_group(left, right, ctx)


class _CoGroups(WindowProcessOperator):
    def __init__(self, ctx: OperatorContext, spec: CoGroupSpec, united: UnitedRows) -> None:
        super().__init__(ctx, replace(spec.as_rows, fn=_TwoStreamFunction(spec.fn)))
        self._of_sides = spec.records
        self._united = united

    def _divert(self, late: Batch, purged: int) -> Iterator[Out]:
        self._count_late(late, purged)
        yield from late_sides(self.ctx, self._united, late)

    def _records(self, batch: pa.RecordBatch) -> list[Any]:
        records: list[Any] = [None] * batch.num_rows
        right = self._united.is_right(batch)
        for port, of_port in ((LEFT, ~right), (RIGHT, right)):
            rows = np.flatnonzero(of_port)
            side = self._united.side(port, batch.take(pa.array(rows)))
            for row, record in zip(rows.tolist(), rows_of(side, self._of_sides[port]), strict=True):
                records[row] = _RecordOfSide(port, record)
        return records
