from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rheos.connectors.collect import CollectSink, collected
from rheos.connectors.collection import collection
from rheos.connectors.print import PrintSink
from rheos.core.errors import SchemaError
from rheos.core.protocol.ids import CheckpointId
from tests.connectors.ports import assert_resumes_everywhere, batch_of, read_all, sink_context


@dataclass
class Ride:
    driver: str
    fare: float | None
    at: datetime


AT = datetime(2026, 1, 1, tzinfo=UTC)
RIDES = [Ride("ann", 1.5, AT), Ride("bob", None, AT), Ride("cy", 2.0, AT)]


def test_dataclass_instances_are_a_bounded_source_of_one_split() -> None:
    source = collection(RIDES)
    assert source.bounded
    assert source.record is Ride
    assert [field.nullable for field in source.schema] == [False, True, False]
    assert read_all(source, max_rows=2) == [vars(ride) for ride in RIDES]
    [split] = source.splits()
    assert_resumes_everywhere(source, split, max_rows=2)
    assert read_all(pickle.loads(pickle.dumps(source))) == read_all(source)


def test_tables_frames_and_dicts_are_accepted() -> None:
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    table = pa.Table.from_pylist(rows, schema=schema)
    for given in (
        rows,
        table,
        table.to_batches()[0],
        pl.DataFrame(rows),
        pa.concat_tables([table[:1], table[1:]]),
    ):
        assert read_all(collection(given)) == rows
        assert collection(given, schema).schema == schema
    assert read_all(collection([], schema)) == []
    assert read_all(collection(schema.empty_table())) == []


def test_rows_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(SchemaError, match="the collection is empty, so its column types are unknown"):
        collection([])
    with pytest.raises(SchemaError, match="field 'fare'") as caught:
        collection([RIDES[0], Ride("dan", "much", AT)])  # type: ignore[arg-type]
    assert caught.value.record is not None
    assert "dan" in caught.value.record
    with pytest.raises(SchemaError, match="has no named columns"):
        collection([1, 2])
    with pytest.raises(SchemaError, match="have no column 'driver'"):
        collection(pl.DataFrame({"a": [1]}), Ride)
    nulls = pl.DataFrame({"driver": ["x", None], "fare": [1.0, 1.0], "at": [AT, AT]})
    with pytest.raises(SchemaError, match="column 'driver' is missing or null"):
        collection(nulls, Ride)
    with pytest.raises(SchemaError, match="do not fit their schema"):
        collection(pl.DataFrame({"driver": ["x"], "fare": ["y"], "at": [AT]}), Ride)


# --- collect ---------------------------------------------------------------------------------------

SCHEMA = pa.schema([("n", pa.int64())])
C1, C2 = CheckpointId(1), CheckpointId(2)


def test_collected_rows_count_once_in_the_order_of_checkpoints() -> None:
    payloads = {}
    for subtask in (1, 0):
        out = CollectSink().open(sink_context(SCHEMA, subtask=subtask))
        for checkpoint in (C1, C2):
            out.write(batch_of(SCHEMA, {"n": 10 * checkpoint + subtask}))
            out.write(batch_of(SCHEMA, {"n": 10 * checkpoint + subtask}))
            payloads[checkpoint, subtask] = out.prepare(checkpoint)
        assert out.prepare(CheckpointId(3)) == []
        out.close()
    assert CollectSink().committer() is None
    everything = [payload for found in payloads.values() for payload in found]
    table = collected(everything + everything[:2])
    assert table is not None
    assert table["n"].to_pylist() == [10, 10, 11, 11, 20, 20, 21, 21]
    assert collected([]) is None


def test_rows_of_an_earlier_program_are_collected_with_those_of_this_one() -> None:
    def staged(checkpoint: CheckpointId, rows: pa.RecordBatch) -> list[bytes]:
        out = CollectSink().open(sink_context(rows.schema))
        out.write(rows)
        return out.prepare(checkpoint)

    before = pa.record_batch({"n": pa.array([1], pa.int32()), "gone": pa.array(["a"])})
    now = pa.record_batch({"new": pa.array([True]), "n": pa.array([1 << 40], pa.int64())})
    table = collected([*staged(C2, now), *staged(C1, before)])
    assert table is not None
    assert table.to_pylist() == [
        {"new": None, "n": 1, "gone": "a"},
        {"new": True, "n": 1 << 40, "gone": None},
    ]
    assert table.column_names == ["new", "n", "gone"]


def test_rows_of_another_attempt_count_separately() -> None:
    payloads = []
    for attempt in (1, 2):
        out = CollectSink().open(sink_context(SCHEMA, attempt=attempt))
        out.write(batch_of(SCHEMA, {"n": attempt}))
        payloads += out.prepare(C1)
    table = collected(payloads)
    assert table is not None
    assert table["n"].to_pylist() == [1, 2]


# --- print -----------------------------------------------------------------------------------------


def test_rows_are_printed_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    schema = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("t", pa.string())])
    rows = [{"n": 1, "at": AT, "t": "é\n"}, {"n": None, "at": None, "t": None}]
    for sink, name in ((PrintSink(), "sink"), (PrintSink("rides"), "rides")):
        out = sink.open(sink_context(schema, subtask=3))
        out.write(batch_of(schema, *rows))
        out.write(batch_of(schema))
        assert out.prepare(C1) == []
        out.close()
        first, second = capsys.readouterr().out.splitlines()
        assert first == f'{name}[3]> {{"n":1,"at":"2026-01-01T00:00:00Z","t":"é\\n"}}'
        assert second == f'{name}[3]> {{"n":null,"at":null,"t":null}}'


def test_dicts_have_the_columns_that_any_of_them_has() -> None:
    table = collection([{"a": 1}, {"a": 2, "b": 3}]).table
    assert table.to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": 3}]


def test_a_fixed_offset_is_read_as_utc_and_a_named_zone_is_kept() -> None:
    fixed, named = timezone(timedelta(hours=5, minutes=30)), ZoneInfo("Europe/Berlin")
    for zone, kept in ((fixed, "UTC"), (named, "Europe/Berlin")):
        at = datetime(2026, 3, 1, 12, tzinfo=zone)
        table = collection([{"at": at, "list": [at]}]).table
        assert table.schema.field("at").type.tz == kept
        assert table.column("at")[0].as_py() == at == table.column("list")[0].as_py()[0]


def test_nanoseconds_of_pandas_are_kept() -> None:
    fine = pd.Timestamp("2026-03-01T12:00:00.123456789")
    with pytest.raises(SchemaError, match=r"column 'at'.*higher resolution than microseconds"):
        collection([{"at": fine}])
    schema = pa.schema([("at", pa.timestamp("ns"))])
    assert collection([{"at": fine}], schema).table.column("at")[0].as_py() == fine
    assert collection(pd.DataFrame({"at": [fine]})).table.column("at")[0].as_py() == fine
