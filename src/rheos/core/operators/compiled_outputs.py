"""Makes batches of the columns that compiled loops fill."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.compiler.values import EmittedType, Kind
from rheos.core.compiler.writer import OutputColumns
from rheos.core.errors import UserFunctionError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.compiled_loops import Filled, RunningLoop
from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.records import HiddenColumns, Stamps, with_hidden
from rheos.core.protocol.elements import Batch, visible
from rheos.core.protocol.types import TypeMismatch, rows_of
from rheos.core.safe_strings import shown
from rheos.core.state.columnar.string_codes import StringCodes

_HINT = "return the declared output type, or declare the type that is returned (returns=)"


def emitted_types(ctx: OperatorContext, side_outputs: Iterable[str]) -> dict[str, EmittedType | None]:
    """Return the types of the outputs of a function, by tag; None for outputs that no operator reads.
    Their rows, without known columns, are only checked."""
    found: dict[str, EmittedType | None] = dict.fromkeys((MAIN, *side_outputs))
    for tag, output in ctx.outputs.items():
        if tag in found:
            found[tag] = EmittedType(visible(output.schema), output.type.record)
    return found


def bounded_batches(
    ctx: OperatorContext, tag: str, shown: Batch, hidden: HiddenColumns
) -> Iterator[Out]:
    """Yield the rows of an output that some operator reads, with its hidden columns. No batch exceeds
    the job's number of rows."""
    whole = with_hidden(shown, ctx.outputs[tag].schema, hidden)
    for start in range(0, whole.num_rows, ctx.batch_rows):
        yield Out(whole.slice(start, ctx.batch_rows), tag)


class CompiledOutputs:
    """The outputs of one function. `schemas` are those of the outputs to make, by tag."""

    def __init__(
        self,
        ctx: OperatorContext,
        schemas: Mapping[str, pa.Schema],
        record: type | None,
        texts: StringCodes,
    ) -> None:
        self._ctx = ctx
        self._schemas = schemas
        self._record = record
        self._texts = texts

    def made(
        self, running: RunningLoop, made: Filled, batch: Batch | None
    ) -> Iterator[tuple[str, Batch, Stamps]]:
        """Yield each output that has rows: its tag, the rows, and the call that emitted each row."""
        by_tag: dict[str, list[tuple[Stamps, Stamps, Batch]]] = {}
        for output, count in zip(running.loop.outputs, running.counts, strict=True):
            if count and output.tag in self._schemas:
                calls = made[f"o{output.number}_calls"][:count]
                order = made[f"o{output.number}_order"][:count]
                columns = self._columns(output, made, count, calls, batch)
                by_tag.setdefault(output.tag, []).append((order, calls, columns))
        for tag, parts in by_tag.items():
            order, calls, columns = parts[0]
            if len(parts) > 1:
                # Several places in the function emit to this output: sort by the order of emission.
                orders = np.concatenate([part[0] for part in parts])
                place = np.argsort(orders)
                calls = np.concatenate([part[1] for part in parts])[place]
                columns = pa.concat_batches([part[2] for part in parts]).take(pa.array(place))
            yield tag, columns, calls

    def _columns(
        self,
        output: OutputColumns,
        made: Filled,
        count: int,
        calls: Stamps,
        batch: Batch | None,
    ) -> Batch:
        schema = self._schemas[output.tag]
        arrays = []
        for at, column in enumerate(output.columns):
            field = schema.field(column.name)
            taken = output.taken.get(column.name)
            if taken is not None:
                assert batch is not None
                array = batch.column(taken).take(pa.array(calls))
            else:
                values = made[f"o{output.number}_{at}"][:count]
                nulls = made[f"z{output.number}_{at}"][:count] if column.nullable else None
                array = self._array(values, nulls, column.kind)
            if array.type != field.type:
                try:
                    array = array.cast(field.type)
                except pa.ArrowException as error:
                    raise UserFunctionError(
                        f"the function returned an invalid output: field {field.name!r} should "
                        f"be {field.type}: {error}",
                        site=self._ctx.site,
                        operator=self._ctx.name,
                        hint=_HINT,
                    ) from None
            if array.null_count and not field.nullable:
                row = 0 if batch is None else int(calls[array.is_null().index(True).as_py()])
                record = None if batch is None else shown(rows_of(batch.slice(row, 1), self._record)[0])
                mismatch = TypeMismatch(0, field.name, str(field.type), None)
                raise UserFunctionError(
                    f"the function returned an invalid output: {mismatch}",
                    site=self._ctx.site,
                    operator=self._ctx.name,
                    record=record,
                    hint=_HINT,
                )
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _array(self, values: npt.NDArray[Any], nulls: Any, kind: Kind) -> pa.Array:
        if kind == "str":
            codes = values if nulls is None else np.where(nulls, -1, values)
            return self._texts.array(codes)
        return pa.array(values.copy(), mask=nulls)
