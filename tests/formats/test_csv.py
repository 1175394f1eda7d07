"""CSV payloads: which are one record, and which are not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from rheos import formats
from rheos.formats import csv_format
from tests.formats.test_every_format import decode

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("s", pa.string()),
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
AT = b"2026-01-01T10:00:00Z"


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (b"x,a," + AT, "column 'n' must be int64, but is 'x'"),
        (b",a," + AT, "column 'n' is missing or null"),
        (b"1,a,noon", "column 'at' must be timestamp[us, tz=UTC], but is 'noon'"),
        (b"1,a", "it has 2 fields, but 3 are expected"),
        (b"", "it is empty, but 3 fields are expected"),
        (b'1,"a,' + AT, "it has 2 fields, but 3 are expected"),
        (b'1,a,"' + AT, "it is not a single record"),
        (b"1,a,%s\n2,b,%s" % (AT, AT), "it is not a single record"),
        (b"1,\xff," + AT, "column 's' must be string, but is invalid UTF8 data"),
    ],
)
def test_a_bad_payload_is_rejected_with_its_error(payload: bytes, what: str) -> None:
    good = b"1,a," + AT
    decoded = decode(formats.csv().decoder(SCHEMA), good, payload, good)
    [bad] = decoded.bad
    assert (bad.at, bad.payload) == (1, payload)
    assert bad.error.startswith(what)
    assert decoded.rows.num_rows == 2


@pytest.mark.parametrize(
    "text", ["2026-01-01 10:00:00", "2026-01-01T10:00Z", "2026-01-01T12:00:00.000+02:00"]
)
def test_a_time_without_zone_is_in_utc(text: str) -> None:
    decoded = decode(formats.csv().decoder(SCHEMA), f"1,,{text}".encode())
    at = datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert decoded.rows.to_pylist() == [{"n": 1, "s": None, "at": at}]


def test_an_empty_field_is_null_or_the_empty_string() -> None:
    schema = pa.schema([pa.field("a", pa.string()), pa.field("b", pa.string(), nullable=False)])
    decoded = decode(formats.csv().decoder(schema), b",", b'"",""')
    assert decoded.rows.to_pylist() == [{"a": None, "b": ""}, {"a": "", "b": ""}]


def test_records_may_contain_line_ends_and_quotes() -> None:
    payloads = [
        b'1,"a\r\n""b""",%s' % AT,
        b'2,5" wide,' + AT,
        b"\xef\xbb\xbf3,c," + AT,
        b"4,d,%s\r" % AT,
    ]
    decoded = decode(formats.csv().decoder(SCHEMA), *payloads)
    assert decoded.rows.column("s").to_pylist() == ['a\r\n"b"', '5" wide', "c", "d"]


def test_payloads_that_fit_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    read = csv_format._CsvDecoder._read

    def counted(self: Any, records: pa.Buffer, wanted: int) -> Any:
        calls.append(records.size)
        return read(self, records, wanted)

    monkeypatch.setattr(csv_format._CsvDecoder, "_read", counted)
    assert decode(formats.csv().decoder(SCHEMA), *[b"1,a," + AT] * 1000).rows.num_rows == 1000
    assert len(calls) == 1
