"""The printed form of a row is parsed as that row again, for every type; errors explain invalid
rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from rheos.core.errors import ProgramError
from rheos.testing.notation import distance_ms, row_of, shown_distance, shown_row_of, tokens

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema({"a": pa.string(), "b": pa.int64()})

VALUES: list[tuple[pa.DataType, Any, str]] = [
    (pa.string(), "ada", "ada"),
    (pa.string(), 'Ada, of "x" @ #5 > [a', r'"Ada, of \"x\" @ #5 > [a"'),
    (pa.string(), "null", '"null"'),
    (pa.string(), "", '""'),
    (pa.string(), None, "null"),
    (pa.int64(), -5, "-5"),
    (pa.float64(), 2.0, "2.0"),
    (pa.bool_(), True, "true"),
    (pa.decimal128(6, 2), Decimal("12.50"), "12.50"),
    (pa.timestamp("us", "UTC"), START + timedelta(seconds=90), "1m30s"),
    (pa.timestamp("us", "UTC"), START - timedelta(milliseconds=250), "-250ms"),
    (pa.timestamp("us"), START.replace(tzinfo=None), "0s"),
    (pa.duration("ms"), timedelta(hours=26), "1d2h"),
    (pa.date32(), date(2026, 1, 2), "2026-01-02"),
    (pa.time64("us"), time(12, 30), "12:30:00"),
    (pa.binary(), b"\x00ada", '"AGFkYQ=="'),
    (pa.list_(pa.int64()), [1, 2], "[1, 2]"),
    (pa.struct({"x": pa.int64()}), {"x": 1}, '{"x": 1}'),
    (pa.map_(pa.string(), pa.int64()), {"x": 1}, '{"x": 1}'),
    (pa.dictionary(pa.int8(), pa.string()), "red", "red"),
]


@pytest.mark.parametrize(("kind", "value", "text"), VALUES, ids=[text for *_, text in VALUES])
def test_a_printed_value_is_parsed_again(kind: pa.DataType, value: Any, text: str) -> None:
    schema = pa.schema({"n": pa.int64(), "v": kind})
    row = {"n": 1, "v": value}
    assert shown_row_of(row, schema, START) == f"1,{text}"
    assert row_of(f"1,{text}", schema, START) == row


def test_distances_are_parsed_and_printed() -> None:
    texts = ["0", "10", "1.5", "10s", "-5m", "1h30m", "250ms"]
    assert [distance_ms(text) for text in texts] == [0, 10000, 1500, 10000, -300000, 5400000, 250]
    assert [shown_distance(ms) for ms in (0, 10000, -300000, 5400250)] == [
        "0s",
        "10s",
        "-5m",
        "1h30m250ms",
    ]


def test_a_line_is_split_into_tokens() -> None:
    line = '  ada,"a b # c"@5s   w10s > x:[1, 2],{"a b": 1}  # > no more'
    assert tokens(line) == ['ada,"a b # c"@5s', "w10s", ">", 'x:[1, 2],{"a b": 1}']


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ada", "'ada' has 1 values, but the row has 2 columns"),
        ("ada,5,6", "'ada,5,6' has 3 values, but the row has 2 columns"),
        ("ada,five", "'five' is not a value of the column 'b', which is int64"),
        (",5", "'' is not a value of the column 'a', which is string"),
        ('"ada,5', "'\"ada,5' has an unclosed quote"),
        ("[ada,5", "'[ada,5' has an unclosed bracket"),
    ],
)
def test_an_invalid_row_is_refused(text: str, what: str) -> None:
    with pytest.raises(ProgramError) as found:
        row_of(text, SCHEMA, START)
    assert found.value.what == what
