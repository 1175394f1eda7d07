"""`map` and `flat_map`: a plain Python function of one record.

The hidden columns go with the record: what is made of it has its timestamp.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from itertools import islice
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from rheos.errors import RheosError, UserFunctionError
from rheos.graph.nodes import MAIN, MapSpec
from rheos.operators.contract import Operator, OperatorContext, Out
from rheos.protocol.elements import HIDDEN_PREFIX, Batch
from rheos.protocol.types import TypeMismatch, batch_of, rows_of


class MapOperator(Operator):
    """One record out for each that comes in."""

    def __init__(self, ctx: OperatorContext, spec: MapSpec) -> None:
        super().__init__(ctx)
        self._fn = spec.fn
        self._calls = _Calls(ctx, spec)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        fn, rows = self._fn, self._calls.rows(batch)
        made: list[Any] = []
        add = made.append
        try:
            for row in rows:
                add(fn(row))
        except Exception as error:
            self._calls.fail(error, rows[len(made)])
        if made:
            yield from self._calls.emit(made, batch, rows, None)


class FlatMapOperator(Operator):
    """Any number of records out for each that comes in; in batches of a bounded size."""

    def __init__(self, ctx: OperatorContext, spec: MapSpec) -> None:
        super().__init__(ctx)
        self._fn = spec.fn
        self._calls = _Calls(ctx, spec)

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        rows = self._calls.rows(batch)
        most = self.ctx.batch_rows
        made: list[Any] = []
        origins: list[int] = []
        for index, row in enumerate(rows):
            records = self._iterate(row)
            while True:
                had = len(made)
                try:
                    made.extend(islice(records, most - had))
                except Exception as error:
                    self._calls.fail(error, row)
                origins += [index] * (len(made) - had)
                if len(made) < most:
                    break
                yield from self._calls.emit(made, batch, rows, origins)
                made, origins = [], []
        if made:
            yield from self._calls.emit(made, batch, rows, origins)

    def _iterate(self, row: Any) -> Iterator[Any]:
        try:
            result = self._fn(row)
        except Exception as error:
            self._calls.fail(error, row)
        if result is None:
            return iter(())
        try:
            return iter(result)
        except TypeError:
            raise self._calls.located(
                f"{self._calls.name}() gave {type(result).__name__}, and should give records to iterate over",
                record=row,
                hint="yield the records, return a list of them, or use map() for one record each",
            ) from None


class _Calls:
    """What surrounds the calls of the user's function: records in, records out, errors located."""

    def __init__(self, ctx: OperatorContext, spec: MapSpec) -> None:
        self.name = getattr(spec.fn, "__name__", type(spec.fn).__name__)
        self._ctx = ctx
        self._record = spec.record
        self._output = ctx.outputs.get(MAIN)
        self._hidden: list[str] = []
        if self._output is not None:
            names = self._output.schema.names
            self._hidden = [name for name in names if name.startswith(HIDDEN_PREFIX)]

    def rows(self, batch: Batch) -> list[Any]:
        return rows_of(batch, self._record)

    def emit(
        self, made: list[Any], batch: Batch, rows: list[Any], origins: list[int] | None
    ) -> Iterator[Out]:
        """A batch of what was made; `origins` says of which rows, None of each in turn."""
        if self._output is None:
            return
        schema = self._output.schema
        try:
            shown = batch_of(made, schema, self._output.type.record)
        except TypeMismatch as error:
            origin = error.index if origins is None else origins[error.index]
            raise self.located(
                f"{self.name}() gave a record of another type than declared: {error}",
                record=rows[origin],
                hint="make the function give what its annotation or returns= declares",
            ) from None
        hidden = [batch.column(name) for name in self._hidden]
        if origins is not None and hidden:
            indices = pa.array(np.array(origins, dtype=np.int64))
            hidden = [column.take(indices) for column in hidden]
        yield Out(pa.RecordBatch.from_arrays([*shown.columns, *hidden], schema=schema))

    def fail(self, error: Exception, record: Any) -> NoReturn:
        """Raises the error that the function raised, with its place."""
        if isinstance(error, RheosError):
            raise error.located(site=self._ctx.site, operator=self._ctx.name) from error.__cause__
        raise self.located(
            f"{self.name}() raised {type(error).__name__}: {error}",
            record=record,
            detail=user_traceback(error),
        ) from error

    def located(
        self, what: str, *, record: Any, hint: str | None = None, detail: str | None = None
    ) -> UserFunctionError:
        return UserFunctionError(
            what,
            site=self._ctx.site,
            operator=self._ctx.name,
            record=repr(record),
            hint=hint,
            detail=detail,
        )


def user_traceback(error: BaseException) -> str:
    """The traceback from the user's first line on: the frames above are ours."""
    own = error.__traceback__
    below = own.tb_next if own is not None and own.tb_next is not None else own
    return "".join(traceback.format_exception(type(error), error, below))
