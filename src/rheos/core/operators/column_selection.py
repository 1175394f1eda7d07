"""Drops columns that no operator downstream needs. The planner adds it before an exchange.

```python
from rheos.core.operators.column_selection import ColumnSelectionSpec

assert ColumnSelectionSpec(("user",)).summary() == "columns user"
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import Needed, Operator, OperatorContext, Out, RowSpec
from rheos.core.operators.origins import Origin, SameRow
from rheos.core.protocol.elements import Batch


@dataclass(frozen=True)
class ColumnSelectionSpec(RowSpec):
    """Passes on the named columns, unchanged."""

    kind: ClassVar[str] = "columns"

    columns: tuple[str, ...]

    def operator(self, ctx: OperatorContext) -> Operator:
        return ColumnSelectionOperator(ctx)

    def columns_read(self, port: int, columns: pa.Schema, needed: Needed) -> frozenset[str] | None:
        return needed[MAIN]

    def keeps_columns(self, columns: Collection[str]) -> bool:
        return True

    def origin(self) -> Origin:
        return SameRow()

    def summary(self) -> str:
        return f"columns {', '.join(self.columns)}"


class ColumnSelectionOperator(Operator):
    """Selects columns without copying their data."""

    def __init__(self, ctx: OperatorContext) -> None:
        super().__init__(ctx)
        output = ctx.outputs.get(MAIN)
        self._names = [] if output is None else output.schema.names

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        yield Out(batch.select(self._names))
