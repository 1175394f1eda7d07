"""Processing-time temporal join: each row meets the row of its key that has arrived last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rheos.core.graph.connected_functions import KeyedCoProcessFunction
from rheos.core.graph.functions import KeyedContext
from rheos.core.graph.state import ValueState

if TYPE_CHECKING:
    from rheos.api.keyed_stream import KeyedStream
    from rheos.api.streams import DataStream


class CurrentRow(KeyedCoProcessFunction):
    """Adds to each row of the first stream the last row of the second one with its key."""

    current = ValueState(object)
    """Values of the last row of the second stream."""

    def __init__(self, left: Sequence[str], right: Sequence[str], *, keeps_unmatched: bool) -> None:
        """Create the function. The names are those of the columns of both streams; `keeps_unmatched`
        is whether a row without a partner is emitted, with nulls."""
        self._names = (*left, *right)
        self._nothing = (None,) * len(right) if keeps_unmatched else None

    def process_element1(self, record: Any, ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        current: Any = self.current.value
        found = self._nothing if current is None else current
        if found is not None:
            yield dict(zip(self._names, (*record, *found), strict=True))

    def process_element2(self, record: Any, ctx: KeyedContext) -> None:
        self.current.value = tuple(record)


def with_current_rows(left: KeyedStream, right: KeyedStream, how: str) -> DataStream:
    """Return the rows of the left side, each with the current row of the right side. For an inner join,
    rows without a current row are dropped."""
    sides = left.schema, right.schema
    fn = CurrentRow(sides[0].names, sides[1].names, keeps_unmatched=how == "left")
    returns = pa.schema([*sides[0], *(each.with_nullable(True) for each in sides[1])])
    return left.connect(right).process(fn, returns=returns)
