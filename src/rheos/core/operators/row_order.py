"""One order of values and rows as Python objects: nulls last, NaN after all numbers, -0.0 as 0.0.

```python
order = row_order(pa.schema([("user", pa.int64()), ("price", pa.float64())]))
rows = [(2, 1.0), (1, float("nan")), (1, None), (1, 3.0)]
assert [str(price) for _, price in sorted(rows, key=order)] == ["3.0", "nan", "None", "1.0"]
assert alike((1, float("nan")), (1, float("nan")))
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa


def plain_type(type: pa.DataType) -> pa.DataType:
    """Return the type of a column's values; for a dictionary, that of its values."""
    return type.value_type if pa.types.is_dictionary(type) else type


def value_order(type: pa.DataType) -> Callable[[Any], Any]:
    """Return a sort key for the non-null values of a column.

    Args:
        type: Type of the column. Values of nested types are sorted by their `repr`.
    """
    plain = plain_type(type)
    if pa.types.is_floating(plain):
        return _float_order
    return repr if pa.types.is_nested(plain) else _itself


def row_order(columns: pa.Schema) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a sort key for rows: it compares their columns from first to last."""
    orders = [value_order(field.type) for field in columns]

    def order(row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            (True, None) if value is None else (False, of_value(value))
            for value, of_value in zip(row, orders, strict=True)
        )

    return order


def alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two rows of a table are equal. NaN equals itself."""
    return one == other or all(
        left == right or repr(left) == repr(right) for left, right in zip(one, other, strict=True)
    )


def _float_order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if value != value else (False, value)


def _itself(value: Any) -> Any:
    return value
