"""Types of a Delta table's columns.

```python
import pyarrow as pa

stream = pa.schema({"n": pa.uint8(), "at": pa.timestamp("ms", "UTC")})
assert table_schema(stream) == pa.schema({"n": pa.int16(), "at": pa.timestamp("us", "UTC")})
```
"""

from __future__ import annotations

import pyarrow as pa

from rheos.connectors.table_columns import TableTypes

_SAME = frozenset({"bool", "int8", "int16", "int32", "int64", "float", "double", "string", "binary"})
_STORED_AS = {
    "uint8": pa.int16(),
    "uint16": pa.int32(),
    "uint32": pa.int64(),
    "halffloat": pa.float32(),
    "date32[day]": pa.date32(),
    "date64[ms]": pa.date32(),
    "large_string": pa.string(),
    "string_view": pa.string(),
    "large_binary": pa.binary(),
    "binary_view": pa.binary(),
}
_WIDER = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
}


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type with which a table stores values of a type that has no children.

    Timestamps have microseconds. A finer time is an error when a row has one.
    """
    t = pa.types
    if str(kind) in _SAME:
        return kind
    if str(kind) in _STORED_AS:
        return _STORED_AS[str(kind)]
    if t.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if t.is_fixed_size_binary(kind):
        return pa.binary()
    if t.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= 38 else None
    return None


_TYPES = TableTypes("Delta", "delta.sink", _plain_type, _WIDER)
stored_type = _TYPES.stored_type
table_schema = _TYPES.table_schema
new_columns = _TYPES.new_columns
fitted_schema = _TYPES.fitted_schema
