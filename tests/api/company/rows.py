"""Twelve rows with a column of each type, and values that expressions often treat wrongly: nulls, empty
lists, NaN, long lists of floats."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

COUNT = 12
NULL_ROW = 3
"""Is null in nearly all columns."""
EMPTY_ROW = 1
"""Its lists are empty."""

NAN, INF = math.nan, math.inf
_LONG = [round(math.sin(i) * 1000 ** (i % 3 - 1), 6) for i in range(140)]
_FLOATS = [0.1, 5.0, 0.7, None, NAN, INF, -0.0, 9.0, -3.3, 1e-9, 1e17, 0.009]


def _each(of: Callable[[int], Any]) -> list[Any]:
    return [None if i == NULL_ROW else of(i) for i in range(COUNT)]


def _with_null(values: list[Any], i: int) -> list[Any]:
    """Add a null to the values of row 6."""
    return [None if i == 6 and place == 1 else value for place, value in enumerate(values)]


_TIMES = [
    dt.datetime(2026, 3, 29, 2, 30),
    dt.datetime(2026, 10, 25, 2, 30),
    dt.datetime(1969, 12, 31, 23),
]
_COLUMNS: dict[str, tuple[list[Any], pa.DataType]] = {
    "i": ([1, 5, None, -7, 3, 2**40, 0, 9, 1, 2, -1, 11], pa.int64()),
    "j": ([1, 2, 3, None, 5, 7, 2, 9, 1, 3, 4, 11], pa.int32()),
    "u": ([1, 2, 0, None, 1, 3, 2, 5, 1, 4, 2, 7], pa.uint8()),
    "f": (_FLOATS, pa.float64()),
    "g": ([*_FLOATS[:3], 2.5, None, *_FLOATS[5:]], pa.float32()),
    "b": ([True, False, None, True, True, False, False, None, True, False, True, False], pa.bool_()),
    "s": (["ab", "b", "a", None, "", "ba", "Éa", "abc", "b", "a.b", "c", "d"], pa.string()),
    "k": (["a", "b", "", None, "a", "b", "É", "bc", "b", ".", "x", "d"], pa.string()),
    "z": (["0a", "12", "-3", None, "", "ff", "1.5", "abcd", "YWI=", "7", "+4", "00"], pa.string()),
    "json": (_each(lambda i: f'{{"a": {i / 10}, "b": "x{i}"}}' if i % 4 else "{}"), pa.string()),
    "path": (_each(lambda i: "$.a" if i % 2 else "$.b"), pa.string()),
    "off": (_each(lambda i: ["1d", "1h", "1mo", "7m", "1w"][i % 5]), pa.string()),
    "amb": (["earliest", "latest"] * 6, pa.string()),
    "when": (
        [
            *("2026-01-02 03:04:05", "2026-01-02", "12:30", None, "", "2026-10-25 02:30:00"),
            *("02/01/2026", "2026-01-02T03:04:05", "2026-13-01", "2025-01-02 03:04:05", "23:59", "x"),
        ],
        pa.string(),
    ),
    "y": ([b"ab", b"b", b"a", None, b"", b"ba", b"00", b"abc", b"b", b"a.b", b"c", b"d"], pa.binary()),
    "y8": ([bytes([i]) * 8 for i in range(COUNT)], pa.binary()),
    "day": (_each(lambda i: dt.date(2026, 1, i + 1)), pa.date32()),
    "at": (
        _each(lambda i: dt.datetime(2026, 1, i + 1, i, i, i, i * 1001))[:9] + _TIMES,
        pa.timestamp("us"),
    ),
    "tz": (
        _each(lambda i: dt.datetime(2026, i + 1, i + 1, i, i, i, i, tzinfo=dt.UTC)),
        pa.timestamp("us", "Europe/Berlin"),
    ),
    "du": (_each(lambda i: dt.timedelta(seconds=i * 1000.1, microseconds=i)), pa.duration("us")),
    "tm": (_each(lambda i: dt.time(i, i)), pa.time64("us")),
    "li": (
        [
            [1, 2, 2],
            [],
            None,
            [5],
            [None],
            [3, None, 1],
            [0],
            [*range(9, 0, -1)],
            [1],
            [2, 2],
            [-1],
            [7],
        ],
        pa.list_(pa.int64()),
    ),
    "lf": (
        [
            *([0.1, 0.2, 0.3], [], None, [0.5], [None], [0.3, None, 0.1], [NAN, 1.0], _LONG),
            *([0.7], _LONG[:37], [*_LONG[5:], None], [-0.0, 0.0]),
        ],
        pa.list_(pa.float64()),
    ),
    "ls": (
        [
            *(["a", "b", "a"], [], None, ["c"], [None], ["x", None, "b"], ["d"], ["zz", "y", "q", "a"]),
            *(["b"], ["b", "b"], ["e"], ["k", "d"]),
        ],
        pa.list_(pa.string()),
    ),
    "lb": ([[i % 2 == 0, None, True][: i % 4] for i in range(COUNT)], pa.list_(pa.bool_())),
    "ll": (
        [
            *([[0.1]], [], None, [[]], [[0.5], None], [[0.3, None], [0.1]], [[1.0, 2.0, 3.0]], [[7.0]]),
            *([[0.7]], [[0.7], [0.1]], [[], [5.0]], [[None]]),
        ],
        pa.list_(pa.list_(pa.float64())),
    ),
    "lt": (
        _each(lambda i: [dt.datetime(2026, 1, i + 1), dt.datetime(2026, 2, 1)]),
        pa.list_(pa.timestamp("us")),
    ),
    "l3": (_each(lambda i: _with_null([i, i + 1, 3], i)), pa.list_(pa.int64())),
    "le": (
        _each(lambda i: [{"key": "a", "value": i}]),
        pa.list_(pa.struct({"key": pa.string(), "value": pa.int64()})),
    ),
    "af": (_each(lambda i: _with_null([0.1 * i, 0.7, 3.3 * i], i)), pa.list_(pa.float64(), 3)),
    "ai": (_each(lambda i: _with_null([i % 4, i % 3, 3], i)), pa.list_(pa.int64(), 3)),
    "a1": (_each(lambda i: [0.1 * i]), pa.list_(pa.float64(), 1)),
    "aw": (
        _each(lambda i: _with_null([value * i for value in _LONG], i) if i in (5, 6, 7) else None),
        pa.list_(pa.float64(), 140),
    ),
    "ab": (_each(lambda i: _with_null([True, i % 2 == 0, False], i)), pa.list_(pa.bool_(), 3)),
    "st": (_each(lambda i: {"a": i, "b": 0.1 * i}), pa.struct({"a": pa.int64(), "b": pa.float64()})),
    "dec": (_each(lambda i: Decimal(i * 7) / 100), pa.decimal128(10, 2)),
    "c": (
        ["b", "a", "c", None, "b", "d", "é", "aa", "", "z", "q", "y"],
        pa.dictionary(pa.int32(), pa.string()),
    ),
    "m": (_each(lambda i: {"a": i * 0.1, "b": 0.7}), pa.map_(pa.string(), pa.float64())),
}

ROWS = pa.record_batch({name: pa.array(values, kind) for name, (values, kind) in _COLUMNS.items()})
