"""Times in Parquet files by Spark's old calendar, and times of type INT96."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rheos.connectors.files.parquet import ParquetDecoder, open_parquet
from rheos.core.errors import InputError

DAY = pa.schema([("v", pa.date32())])
AT = pa.schema([("v", pa.timestamp("us", "UTC"))])
OLD_DAY, OLD_AT = date(1582, 10, 14), datetime(1899, 12, 31, 23, tzinfo=UTC)
NEW_DAY, NEW_AT = date(1582, 10, 15), datetime(1900, 1, 1, tzinfo=UTC)


def written(
    values: list[Any], schema: pa.Schema, notes: dict[str, str], *, int96: bool = False
) -> bytes:
    out = io.BytesIO()
    table = pa.table({"v": values}, schema)
    with pq.ParquetWriter(out, table.schema, use_deprecated_int96_timestamps=int96) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(notes)
    return out.getvalue()


def read(data: bytes, schema: pa.Schema, *, skip_bad: bool = False) -> tuple[list[Any], list[str]]:
    def opened() -> pq.ParquetFile:
        return open_parquet("memory://f.parquet", lambda _: pa.BufferReader(data))

    import fsspec

    fsspec.filesystem("memory").pipe("/f.parquet", data)
    chunk = ParquetDecoder("f.parquet", schema, skip_bad=skip_bad, opened=opened).read()
    assert chunk is not None
    return chunk.batch.column("v").to_pylist(), [each.record.error for each in chunk.rejected]


SPARK = "org.apache.spark."
CASES = [
    ({SPARK + "version": "2.4.8"}, False, True),
    ({SPARK + "version": "3.5.1"}, False, False),
    ({SPARK + "version": "3.5.1", SPARK + "legacyDateTime": ""}, False, True),
    ({SPARK + "version": "3.5.1", SPARK + "legacyDateTime": ""}, True, False),
    ({SPARK + "version": "3.0.3"}, True, True),
    ({SPARK + "version": "4.0.0", SPARK + "legacyINT96": ""}, True, True),
    ({SPARK + "version": "4.0.0", SPARK + "legacyINT96": ""}, False, False),
    ({}, False, False),
]


@pytest.mark.parametrize(("notes", "int96", "refused"), CASES)
def test_times_by_the_old_calendar_are_bad_rows(
    notes: dict[str, str], int96: bool, refused: bool
) -> None:
    data = written([NEW_AT, OLD_AT, None], AT, notes, int96=int96)
    if not refused:
        assert read(data, AT) == ([NEW_AT, OLD_AT, None], [])
        return
    with pytest.raises(InputError, match=r"f.parquet:2: column 'v' holds a date or time from before"):
        read(data, AT)
    rows, [error] = read(data, AT, skip_bad=True)
    assert rows == [NEW_AT, None]
    assert "written by a version of Spark that used another calendar: read the file with" in error


def test_dates_are_gregorian_from_their_first_day_on() -> None:
    data = written([NEW_DAY, OLD_DAY], DAY, {SPARK + "version": "2.4.8"})
    assert read(data, DAY, skip_bad=True)[0] == [NEW_DAY]


def test_int96_holds_all_years() -> None:
    times = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)]
    assert read(written(times, AT, {}, int96=True), AT) == (times, [])
