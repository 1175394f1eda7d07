"""A column of each type that a sink may support, with a null."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

_AT = datetime(2026, 3, 1, 12, 30, 15, 123456)
_OLD = datetime(1960, 1, 1)

COLUMNS: Mapping[str, pa.Array] = {
    "bool": pa.array([True, False, None, True], pa.bool_()),
    "int8": pa.array([0, 127, None, -128], pa.int8()),
    "int16": pa.array([0, 2**15 - 1, None, -(2**15)], pa.int16()),
    "int32": pa.array([0, 2**31 - 1, None, -(2**31)], pa.int32()),
    "int64": pa.array([0, 2**63 - 1, None, -(2**63)], pa.int64()),
    "float32": pa.array([0.0, 1.5, None, -0.25], pa.float32()),
    "float64": pa.array([0.1, 1e300, None, -2.5e-7], pa.float64()),
    "string": pa.array(["a", "b, c; d\te", None, "語 🙂"], pa.string()),
    "binary": pa.array([b"a", b"\x00\xff", None, b"\r\n"], pa.binary()),
    "date": pa.array([date(1970, 1, 1), date(2026, 3, 1), None, date(1950, 12, 31)], pa.date32()),
    "timestamp": pa.array(
        [
            _AT.replace(tzinfo=UTC),
            datetime(1960, 1, 1, tzinfo=UTC),
            None,
            datetime(2026, 1, 1, tzinfo=UTC),
        ],
        pa.timestamp("us", "UTC"),
    ),
    "local_timestamp": pa.array([_AT, _OLD, None, _OLD], pa.timestamp("us")),
    "duration": pa.array(
        [timedelta(0), timedelta(days=3, microseconds=1), None, timedelta(seconds=-1)],
        pa.duration("us"),
    ),
    "decimal": pa.array(
        [Decimal("0"), Decimal("123456789012345678.000000000000000001"), None, Decimal("-0.5")],
        pa.decimal128(38, 18),
    ),
    "list": pa.array([[1, 2], [], None, [3, None]], pa.list_(pa.int64())),
    "map": pa.array([[("a", 1)], [], None, [("b", None)]], pa.map_(pa.string(), pa.int64())),
    "struct": pa.array(
        [{"x": 1, "y": "a"}, {"x": None, "y": "b"}, None, {"x": 2, "y": None}],
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
    ),
}
