"""Converts batches to pandas frames and back, by the types of the columns alone.

The default conversion of pandas depends on the rows of a batch: integers become floats if one of them
is null, and lose digits beyond 2**53. Here the dtype of a column follows from its type, whatever rows
the batch has:

| column | dtype |
|---|---|
| integers, floats, booleans that may be null | pandas' nullable ones: Int64, Float64, boolean |
| integers, floats, booleans that may not | NumPy's: int64, float64, bool |
| timestamps, durations | datetime64 and timedelta64 in the column's unit and zone |
| dates, times of day, lists, maps, structs | object: Python's date, time, list, dict |
| all others | what Arrow makes of them |
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError
from rheos.core.protocol.columns import column_of
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.plain_values import is_missing, plain_inside
from rheos.core.protocol.shown_rows import shown_record
from rheos.core.protocol.types import read_column


def pandas_frame(batch: Batch) -> Any:
    """Return the batch as a pandas.DataFrame. Raise InputError, with column and record, for a value
    that pandas cannot represent."""
    import pandas as pd  # Importing pandas takes long, and few programs need it.

    if not batch.num_columns:
        return pd.DataFrame(index=range(batch.num_rows))
    columns = {at: _series(batch, at) for at in range(batch.num_columns)}
    frame = pd.DataFrame(columns)
    frame.columns = pd.Index(batch.schema.names)
    return frame


def _series(batch: Batch, at: int) -> Any:
    import pandas as pd

    field, column, t = batch.schema.field(at), batch.column(at), pa.types
    kind = field.type
    if t.is_nested(kind) or t.is_date(kind) or t.is_time(kind):
        values = np.empty(batch.num_rows, object)
        values[:] = read_column(batch, field.name)
        return pd.Series(values, dtype=object)
    if t.is_timestamp(kind) or t.is_duration(kind):
        least = column.view(pa.int64())
        missing = pc.index(least, np.iinfo(np.int64).min).as_py()
        if missing >= 0:
            raise InputError(
                f"column {field.name!r} holds the smallest {kind}, which pandas treats as missing",
                record=shown_record(batch, missing),
                hint='filter out such rows first, or use form="arrow"',
            )
    if t.is_float16(kind) and field.nullable:
        column = column.cast(pa.float32())
    return column.to_pandas(types_mapper=_nullable_dtype if field.nullable else None)


def _nullable_dtype(kind: pa.DataType) -> Any:
    import pandas as pd

    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        signed = "UInt" if pa.types.is_unsigned_integer(kind) else "Int"
        name = "Float" if pa.types.is_floating(kind) else signed
        return pd.api.types.pandas_dtype(f"{name}{kind.bit_width}")
    return None


def table_of_pandas(frame: Any, declared: pa.Schema | None) -> pa.Table:
    """Return the frame's columns as an Arrow table, without its index.

    A value of an object column is converted like a result of a function that is called per record. If
    the column is not declared, its type follows from its values. In a nullable column, NaN is a missing
    value as in pandas, unless pandas' own Float64 distinguishes the two. In a column that is declared
    without nulls, NaN remains NaN.

    Raises:
        TypeMismatch: A column cannot be converted. Arrow's own errors may be raised, too.
        ValueError: Two columns have the same name.
    """
    if not frame.columns.is_unique:
        raise ValueError(f"two columns have the same name: {', '.join(map(str, frame.columns))}")
    fields = {field.name: field for field in declared or ()}
    columns = {}
    for name in frame.columns:
        try:
            columns[str(name)] = _column(frame[name], fields.get(str(name)))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"column {str(name)!r}: {error}") from error
    return pa.table(columns)


def _column(series: Any, field: pa.Field | None) -> Any:
    floats = field is not None and pa.types.is_floating(field.type)
    if series.dtype == object:
        values = [None if _is_none(value, floats) else value for value in series]
        if field is None:
            return pa.array(plain_inside(values))
        return column_of(values, field.with_nullable(True))
    if field is not None and floats and not field.nullable and isinstance(series.dtype, np.dtype):
        return pa.array(series.to_numpy(), from_pandas=False)
    return pa.array(series)


def _is_none(value: Any, floats: bool) -> bool:
    missing = isinstance(value, float) and value != value and not floats
    return value is None or missing or is_missing(value)
