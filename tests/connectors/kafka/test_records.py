"""Conversion of rows to records, in columns; a row that cannot be converted is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.kafka.records import RecordEncoder, RecordLayout, records
from rheos.core.errors import InputError, SchemaError
from tests.connectors.ports import batch_of

SCHEMA = pa.schema(
    [
        pa.field("user", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("part", pa.int64()),
        pa.field("trace", pa.string()),
        pa.field("gone", pa.bool_()),
        pa.field("raw", pa.binary()),
    ]
)
AT = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
FULL = {"user": "ada", "n": 1, "at": AT, "part": 2, "trace": "t1", "gone": False, "raw": b"\x00"}


def encoded(layout: RecordLayout, *rows: dict[str, Any], max_bytes: int = 0) -> list[Any]:
    layout.check(SCHEMA)
    encoder = RecordEncoder(layout, SCHEMA, partitions=3, max_bytes=max_bytes)
    return list(records(encoder.encode(batch_of(SCHEMA, *rows))))


def test_by_default_a_record_is_a_value_of_all_columns() -> None:
    layout = RecordLayout(rh.formats.json(), value=("user", "n"))
    assert encoded(layout, FULL) == [(b'{"user":"ada","n":1}', None, -1, 0, None)]


def test_columns_become_key_headers_partition_timestamp_and_tombstone() -> None:
    layout = RecordLayout(
        rh.formats.json(),
        key="user",
        headers=(("trace-id", "trace"), ("raw", "raw")),
        partition="part",
        timestamp="at",
        tombstone="gone",
        value=("n",),
    )
    rows = [
        FULL,
        {**FULL, "gone": True, "trace": None, "part": None},
        {**FULL, "gone": None, "at": None, "user": None},
    ]
    assert encoded(layout, *rows) == [
        (b'{"n":1}', b"ada", 2, 1_772_366_400_250, [("trace-id", b"t1"), ("raw", b"\x00")]),
        (None, b"ada", -1, 1_772_366_400_250, [("raw", b"\x00")]),
        (b'{"n":1}', None, 2, 0, [("trace-id", b"t1"), ("raw", b"\x00")]),
    ]


def test_keys_and_timestamps_may_be_whole_numbers() -> None:
    layout = RecordLayout(rh.formats.raw(), key="n", timestamp="part", value=("raw",))
    assert encoded(layout, FULL) == [(b"\x00", b"1", -1, 2, None)]


def test_partition_and_headers_are_not_in_the_value() -> None:
    layout = RecordLayout(
        rh.formats.json(), key="user", headers=(("t", "trace"),), partition="part", tombstone="gone"
    )
    assert layout.value_columns(SCHEMA) == ["user", "n", "at", "raw"]


@pytest.mark.parametrize(
    ("layout", "row", "said"),
    [
        ({"partition": "part"}, {"part": 3}, "not one of the 3"),
        ({"partition": "part"}, {"part": -1}, "not one of the 3"),
        ({"partition": "part"}, {"part": 2**40}, "not one of the 3"),
        ({"timestamp": "n"}, {"n": -5}, "before 1970"),
        ({"tombstone": "gone", "key": "user"}, {"gone": True, "user": None}, "it is a tombstone, but"),
        ({"format": rh.formats.raw(), "value": ("raw",)}, {"raw": None}, "its value is null"),
        ({"value": ("user",)}, {"user": "x" * 100}, "a record of 111 bytes"),
        ({"value": ("n",), "key": "user"}, {"user": "x" * 100}, "a record of 107 bytes"),
        (
            {"value": ("n",), "headers": (("abc", "user"),)},
            {"user": "x" * 100},
            "a record of 110 bytes",
        ),
    ],
)
def test_a_row_that_cannot_be_written_is_shown(
    layout: dict[str, Any], row: dict[str, Any], said: str
) -> None:
    shape = RecordLayout(**{"format": rh.formats.json(), "value": ("n",), **layout})
    limit = 99 if "bytes" in said else 0
    with pytest.raises(InputError, match=said) as refused:
        encoded(shape, FULL, {**FULL, **row}, max_bytes=limit)
    assert str(next(iter(row.values())))[:20] in (refused.value.record or "")
    assert refused.value.hint


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ({"key": "nobody"}, "key= names the column 'nobody'"),
        ({"key": "at"}, "'at', which is timestamp"),
        ({"partition": "user"}, "'user', which is string"),
        ({"timestamp": "user"}, "'user', which is string"),
        ({"tombstone": "n", "key": "user"}, "'n', which is int64"),
        ({"tombstone": "gone"}, "tombstone= needs key=: a tombstone deletes the record with its key"),
        ({"headers": (("a", "n"),)}, "'n', which is int64"),
        ({"value": ("x",)}, "'x', which the stream does not have"),
        ({"value": ()}, "no column remains for the value"),
        ({"format": rh.formats.raw()}, "raw"),
    ],
)
def test_a_layout_that_does_not_fit_the_stream_is_refused(layout: dict[str, Any], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        RecordLayout(**{"format": rh.formats.json(), **layout}).check(SCHEMA)
