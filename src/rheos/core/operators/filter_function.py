"""`filter` with a function: keeps the rows for which a Python function returns True.

```python
def is_new(click) -> bool:
    return click.seen == 0

check_example(
    OperatorExample(
        lambda clicks: clicks.filter(is_new),
        pa.schema([("id", pa.int64()), ("seen", pa.int64())]),
        [{"id": 1, "seen": 0}, {"id": 2, "seen": 3}, {"id": 3, "seen": 0}],
    ),
    {"out": [{"id": 1, "seen": 0}, {"id": 3, "seen": 0}]},
)
```
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from rheos.core.compiler.eligibility import Automatic, named_form, summary_of
from rheos.core.compiler.forms import RESULT
from rheos.core.errors import UserFunctionError
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.render import spell_record
from rheos.core.operators.automatic_rows import automatic_rows, predicate_typing
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec, Out, RowSpec
from rheos.core.operators.records import UserRaised, user_error
from rheos.core.operators.rich_function import RichFunctionOperator
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.types import RowsOfBatch
from rheos.core.safe_strings import shown

_BOOLS = {bool, np.bool_}


@dataclass(frozen=True)
class FilterFunctionSpec(RowSpec):
    """A predicate of one record, which may be a RichFunction."""

    fn: Callable[[Any], bool]
    record: type | None
    automatic: Automatic = None

    kind: ClassVar[str] = "filter_function"

    def operator(self, ctx: OperatorContext) -> Operator:
        return FilterFunctionOperator(ctx, self)

    def interpreted(self) -> OperatorSpec:
        return replace(self, automatic=None)

    def function_forms(self) -> Mapping[str, str]:
        return named_form(self.fn, self.automatic)

    def summary(self) -> str:
        return f"takes {spell_record(self.record)}{summary_of(self.automatic)}"

    def keeps_columns(self, columns: Collection[str]) -> bool:
        return True


class FilterFunctionOperator(RichFunctionOperator):
    """Emits the accepted rows unchanged, with their hidden columns."""

    def __init__(self, ctx: OperatorContext, spec: FilterFunctionSpec) -> None:
        super().__init__(ctx, spec.fn)
        self._record = spec.record
        typing = predicate_typing(ctx.ports[0].schema, spec.record)
        self._compiled = automatic_rows(ctx, self._fn, spec.automatic, typing)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        results = None if self._compiled is None else self._compiled.results(batch)
        kept = self._by_python(batch) if results is None else results[0].column(RESULT)
        output = self.ctx.outputs.get(MAIN)
        if output is not None:
            yield Out(batch.filter(kept).select(output.schema.names))

    def _by_python(self, batch: Batch) -> pa.Array:
        """Return for each row whether the function accepts it."""
        fn, rows = self._fn, RowsOfBatch(batch, self._record)
        kept: list[Any] = []
        add, due = kept.append, iter(rows)
        try:
            for row in due:
                add(fn(row))
        except UserRaised as error:
            raise user_error(self.ctx, error, record=rows[len(kept)]) from error
        if not set(map(type, kept)) <= _BOOLS:
            at = next(at for at, answer in enumerate(kept) if type(answer) not in _BOOLS)
            raise self._undecided(rows[at], kept[at])
        return pa.array(kept, pa.bool_())

    def _undecided(self, row: Any, answer: Any) -> UserFunctionError:
        return UserFunctionError(
            f"the function of filter() returned {shown(answer)}, but must return True or False",
            site=self.ctx.site,
            operator=self.ctx.name,
            record=shown(row),
            hint="return a bool, as in `return bool(...)`, on every path through the function",
        )
