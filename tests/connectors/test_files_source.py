from __future__ import annotations

import dataclasses
import gzip
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rheos.connectors import files
from rheos.connectors.files import lines as files_of_lines
from rheos.connectors.files import parquet
from rheos.connectors.replay import Replay
from rheos.core.connectors.contract import EndOfSplit, Pending
from rheos.core.errors import ConfigurationError, InputError, ProgramError, SchemaError
from tests.connectors.ports import HeldIo, Probe, assert_resumes_everywhere, pending_us, read, read_all

SCHEMA = pa.schema(
    [
        pa.field("user", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
T0 = datetime(2026, 1, 1, tzinfo=UTC)


def rows(n: int) -> list[dict[str, object]]:
    return [
        {"user": i, "name": f"n{i}" if i % 3 else None, "at": T0 + timedelta(seconds=i)}
        for i in range(n)
    ]


def line(row: dict[str, object]) -> str:
    return json.dumps({key: v.isoformat() if isinstance(v, datetime) else v for key, v in row.items()})


def write_jsonl(path: Path, text: str) -> str:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return str(path)


def write_parquet(
    path: Path, data: list[dict[str, object]], group: int = 7, schema: pa.Schema = SCHEMA
) -> str:
    pq.write_table(pa.Table.from_pylist(data, schema=schema), path, row_group_size=group)
    return str(path)


def lines(n: int) -> str:
    return "".join(line(row) + "\n" for row in rows(n))


# --- straight reads, and resuming ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json", "a.jsonl.gz"])
def test_json_lines_are_read_by_the_schema(tmp_path: Path, name: str) -> None:
    source = files.source(write_jsonl(tmp_path / name, lines(20)), schema=SCHEMA)
    assert source.bounded
    assert read_all(source, max_rows=6) == rows(20)


def test_parquet_is_read_by_the_schema(tmp_path: Path) -> None:
    source = files.source(write_parquet(tmp_path / "a.parquet", rows(20)), schema=SCHEMA)
    assert read_all(source, max_rows=6) == rows(20)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_reading_resumes_at_every_row(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_of_lines, "CHUNK_BYTES", 200)
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 4)
    path = tmp_path / name
    _ = write_parquet(path, rows(30)) if name.endswith("parquet") else write_jsonl(path, lines(30))
    source = files.source(path, schema=SCHEMA)
    assert_resumes_everywhere(source, source.splits()[0])


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_rejected_rows_come_once_wherever_reading_resumes(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    data = rows(12)
    for i in (0, 3, 4, 11):
        data[i]["user"] = None
    loose = pa.schema([field.with_nullable(True) for field in SCHEMA])
    if name.endswith("parquet"):
        write_parquet(path, data, group=5, schema=loose)
    else:
        write_jsonl(path, "".join(line(row) + "\n\n" for row in data))
    source = files.source(path, schema=SCHEMA, on_error="skip")
    probe = Probe()
    assert [row["user"] for row in read_all(source, probe)] == [1, 2, 5, 6, 7, 8, 9, 10]
    assert probe.counts == {"skipped": 4}
    numbers = [1, 4, 5, 12] if name.endswith("parquet") else [1, 7, 9, 23]
    assert [row["line"] for row in probe.rejected] == numbers
    assert {row["error"] for row in probe.rejected} == {"column 'user' is missing or null"}
    assert {row["file"] for row in probe.rejected} == {str(path)}
    assert_resumes_everywhere(source, source.splits()[0])


def test_nothing_is_read_on_the_mailbox(tmp_path: Path) -> None:
    source = files.source(write_parquet(tmp_path / "a.parquet", rows(3)), schema=SCHEMA)
    io = HeldIo()
    reader = source.open(source.splits()[0], None, Probe(io=io).context())
    assert pending_us(reader.poll(10)) is None
    assert pending_us(reader.poll(10)) is None
    assert len(io.held) == 1
    io.run()
    batch = reader.poll(10)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 3
    assert isinstance(reader.poll(10), Pending)
    io.run()
    assert isinstance(reader.poll(10), EndOfSplit)
    reader.close()


def test_closing_with_work_under_way_is_safe(tmp_path: Path) -> None:
    source = files.source(write_jsonl(tmp_path / "a.jsonl", lines(3)), schema=SCHEMA)
    io = HeldIo()
    reader = source.open(source.splits()[0], None, Probe(io=io).context())
    reader.poll(1)
    reader.close()
    io.run()


# --- which files -----------------------------------------------------------------------------------


def test_a_folder_is_read_in_the_order_of_names_without_hidden_ones(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / ".rheos-staging").mkdir()
    hidden = (".x.jsonl", "_y.jsonl", ".rheos-staging/z.jsonl")
    for name in ("b.jsonl", "a.jsonl", "deep/c.jsonl", *hidden):
        write_jsonl(tmp_path / name, lines(1))
    (tmp_path / "readme.txt").write_text("no rows")
    found = [split.id for split in files.source(tmp_path, schema=SCHEMA).splits()]
    assert found == [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl", "deep/c.jsonl")]
    globbed = files.source(f"{tmp_path}/*.jsonl", schema=SCHEMA).splits()
    assert [split.id for split in globbed] == found[:2]
    listed = files.source([f"{tmp_path}/b.jsonl", f"{tmp_path}/a*"], schema=SCHEMA).splits()
    assert [split.id for split in listed] == found[:2]


def test_relative_paths_are_those_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "a.jsonl", lines(1))
    monkeypatch.chdir(tmp_path)
    source = files.source("a.jsonl", schema=SCHEMA)
    monkeypatch.chdir("/")
    assert read_all(source) == rows(1)


def test_files_at_urls_are_read(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", lines(2))
    write_parquet(tmp_path / "b.parquet", rows(2))
    assert read_all(files.source(f"file://{tmp_path}", schema=SCHEMA)) == rows(2) * 2


def test_missing_input_is_an_error_before_the_job_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the file or folder .*nothing\.jsonl does not exist"):
        files.source(tmp_path / "nothing.jsonl", schema=SCHEMA).splits()
    with pytest.raises(InputError, match="contains no file to read"):
        files.source(tmp_path / "*.jsonl", schema=SCHEMA).splits()
    with pytest.raises(InputError, match="contains no file to read"):
        files.source(tmp_path, schema=SCHEMA).splits()
    (tmp_path / "data").write_text(lines(1))
    with pytest.raises(InputError, match=r"the format of .*data cannot be inferred from its name"):
        files.source(tmp_path / "data", schema=SCHEMA).splits()
    assert read_all(files.source(tmp_path / "data", schema=SCHEMA, format="jsonl")) == rows(1)
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        files.source("nosuch://bucket/x", schema=SCHEMA).splits()


def test_a_file_that_is_deleted_is_an_error(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.parquet"):
        path = tmp_path / name
        _ = write_parquet(path, rows(1)) if name == "a.parquet" else write_jsonl(path, lines(1))
        source = files.source(path, schema=SCHEMA)
        split = source.splits()[0]
        path.unlink()
        with pytest.raises(InputError, match="is missing"):
            source.open(split, None, Probe().context()).poll(1)


def test_wrong_settings_are_refused_at_once() -> None:
    with pytest.raises(ProgramError, match="on_error"):
        files.source("x", schema=SCHEMA, on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="format"):
        files.source("x", schema=SCHEMA, format="xml")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="does not declare the columns"):
        files.source("x", schema="user int")
    with pytest.raises(SchemaError, match="cannot be written as JSON"):
        files.source("x", schema=pa.schema([("a", pa.duration("us"))]), format="jsonl")
    with pytest.raises(SchemaError, match="the replay's column 'name' is string"):
        files.source("x", schema=SCHEMA, replay=Replay(on="name", speed=2))


# --- rows that do not fit --------------------------------------------------------------------------

NUMBER = pa.schema([pa.field("a", pa.int64(), nullable=False)])


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        ('{"a": "1"}', "column 'a' must be a number, but is a string"),
        ('{"a": 1.5}', "couldn't parse:1.5"),
        ('{"a": 1.0}', "couldn't parse:1.0"),
        ('{"a": null}', "column 'a' is missing or null"),
        ('{"b": 1}', "column 'a' is missing or null"),
        ('{"a": 99999999999999999999}', "couldn't parse"),
        ('{"a": 1', "not a single complete JSON object"),
        ('{"a": 1,}', "Missing a name"),
        ('{"a": 1}{"a": 2}', "more than one JSON object"),
        ("[1]", "not a single complete JSON object"),
        ("nonsense", "not a single complete JSON object"),
        ('{"a": 1, "a": 2}', "twice"),
    ],
)
def test_a_bad_line_fails_with_file_and_line(tmp_path: Path, bad: str, what: str) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", f'{{"a": 1}}\n\n{{"a": 2}}\n{bad}\n{{"a": 3}}\n')
    with pytest.raises(InputError) as caught:
        read_all(files.source(path, schema=NUMBER))
    assert caught.value.what.startswith(f"{path}:4: ")
    assert what in caught.value.what
    assert caught.value.record == bad
    assert caught.value.hint is not None
    assert 'on_error="skip"' in caught.value.hint
    probe = Probe()
    skipping = files.source(path, schema=NUMBER, on_error="skip")
    assert [row["a"] for row in read_all(skipping, probe)] == [1, 2, 3]
    assert [(row["line"], row["record"]) for row in probe.rejected] == [(4, bad)]


def test_an_object_over_several_lines_makes_each_line_bad(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", '{"a":1}{"a":2}\n{"a":\n3}\n  {"a": 4}  \r\n')
    probe = Probe()
    assert read_all(files.source(path, schema=NUMBER, on_error="skip"), probe) == [{"a": 4}]
    assert [row["line"] for row in probe.rejected] == [1, 2, 3]


def test_the_first_of_several_bad_lines_is_reported(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", '{"a":1}\n{"a":null}\n{"a":"x"}\n{"a":1.5}\n')
    with pytest.raises(InputError, match=r"a\.jsonl:2: column 'a' is missing or null"):
        read_all(files.source(path, schema=NUMBER))


def test_text_that_is_not_utf8_is_bad(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"s":"ok"}\n{"s":"\xff"}\n')
    probe = Probe()
    source = files.source(path, schema=pa.schema([("s", pa.string())]), on_error="skip")
    assert read_all(source, probe) == [{"s": "ok"}]
    assert [row["line"] for row in probe.rejected] == [2]


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a":1}\n{"a":2}')
    assert read_all(files.source(path, schema=NUMBER)) == [{"a": 1}, {"a": 2}]


def test_a_long_line_spans_chunks_and_a_too_long_one_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_of_lines, "MAX_LINE_BYTES", 1 << 21)
    schema = pa.schema([("s", pa.string())])
    path = write_jsonl(tmp_path / "a.jsonl", '{"s":"a"}\n{"s":"' + "x" * (1 << 21) + '"}\n{"s":"b"}\n')
    assert [len(row["s"]) for row in read_all(files.source(path, schema=schema))] == [1, 1 << 21, 1]
    path = write_jsonl(tmp_path / "a.jsonl", '{"s":"a"}\n{"s":"' + "x" * (1 << 22) + '"}\n')
    with pytest.raises(InputError, match=r"a\.jsonl:2: the line exceeds"):
        read_all(files.source(path, schema=schema))


def test_dates_times_and_nested_values_are_read_strictly(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("d", pa.date32()),
            ("t", pa.time64("us")),
            ("ds", pa.list_(pa.date32())),
            ("r", pa.struct([("x", pa.int64()), ("at", pa.timestamp("ms", "UTC"))])),
            ("c", pa.dictionary(pa.int32(), pa.string())),
        ]
    )
    good = {"d": "2026-01-02", "t": "10:11:12.5", "ds": ["2026-01-03"], "c": "x"}
    good_row = {**good, "r": {"x": 1, "at": "2026-01-01T01:00:00+01:00"}}
    bad = {**good, "d": "2026-13-01"}
    text = "".join(json.dumps(row) + "\n" for row in (good_row, bad))
    probe = Probe()
    source = files.source(write_jsonl(tmp_path / "a.jsonl", text), schema=schema, on_error="skip")
    [row] = read_all(source, probe)
    assert row["d"] == date(2026, 1, 2)
    assert row["ds"] == [date(2026, 1, 3)]
    assert row["r"] == {"x": 1, "at": T0}
    assert str(row["t"]) == "10:11:12.500000"
    assert [row["line"] for row in probe.rejected] == [2]


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(InputError, match=r"a\.parquet cannot be read as Parquet"):
        read_all(files.source(tmp_path / "a.parquet", schema=SCHEMA))
    whole = gzip.compress(lines(5000).encode())
    (tmp_path / "a.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"a\.jsonl\.gz: cannot be read after line"):
        read_all(files.source(tmp_path / "a.jsonl.gz", schema=SCHEMA))
    (tmp_path / "a.jsonl.gz").write_bytes(b"plain text")
    with pytest.raises(InputError, match=r"a\.jsonl\.gz: cannot be read after line 0"):
        read_all(files.source(tmp_path / "a.jsonl.gz", schema=SCHEMA))
    path = tmp_path / "b.parquet"
    write_parquet(path, rows(2000), group=1000)
    data = bytearray(path.read_bytes())
    data[200:5000] = b"\xff" * 4800
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"b\.parquet: row group 0 cannot be read"):
        read_all(files.source(path, schema=SCHEMA))


def test_a_file_that_shrank_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    write_jsonl(path, lines(20))
    source = files.source(path, schema=SCHEMA)
    split = source.splits()[0]
    reader = source.open(split, None, Probe().context())
    read(reader, limit=15)
    write_jsonl(path, lines(3))
    with pytest.raises(InputError, match="it is shorter than when it was first read"):
        source.open(split, reader.position(), Probe().context()).poll(1)


# --- Parquet against a schema ----------------------------------------------------------------------


def test_parquet_columns_are_chosen_and_checked(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", rows(3))
    assert read_all(files.source(path, schema=pa.schema([("user", pa.int32())]))) == [
        {"user": 0},
        {"user": 1},
        {"user": 2},
    ]
    with pytest.raises(InputError, match="has no column 'id'") as caught:
        read_all(files.source(path, schema=pa.schema([("id", pa.int64())])))
    assert caught.value.hint is not None
    assert "the file has user, name, at" in caught.value.hint
    with pytest.raises(InputError, match="column 'name' is string, but the schema declares int64"):
        read_all(files.source(path, schema=pa.schema([("name", pa.int64())])))


def test_a_parquet_value_that_does_not_fit_fails_with_its_row(tmp_path: Path) -> None:
    data = [{"a": i} for i in range(20)]
    data[13]["a"] = 1 << 40
    path = write_parquet(tmp_path / "a.parquet", data, schema=pa.schema([("a", pa.int64())]))
    schema = pa.schema([("a", pa.int32())])
    with pytest.raises(InputError, match=r"a\.parquet:14: .*\(row 6 of row group 1\)") as caught:
        read_all(files.source(path, schema=schema))
    assert caught.value.record == "{'a': 1099511627776}"
    probe = Probe()
    assert len(read_all(files.source(path, schema=schema, on_error="skip"), probe)) == 19
    assert [row["line"] for row in probe.rejected] == [14]


def test_large_row_groups_come_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "a.parquet", rows(50), group=30)
    monkeypatch.setattr(parquet, "CHUNK_ROWS", 8)
    decoder = parquet.ParquetDecoder(path, SCHEMA)
    sizes = []
    while (chunk := decoder.read()) is not None:
        sizes.append(chunk.batch.num_rows)
    decoder.close()
    assert sum(sizes) == 50
    assert max(sizes) == 8


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_nested_records_are_checked(tmp_path: Path, name: str) -> None:
    def schema(nullable: bool, day: pa.DataType) -> pa.Schema:
        pair = pa.struct([pa.field("x", pa.int64(), nullable), pa.field("d", day, nullable)])
        return pa.schema([pa.field("r", pair), pa.field("rs", pa.list_(pair))])

    pair, half = {"x": 1, "d": date(2026, 1, 1)}, {"x": None, "d": date(2026, 1, 1)}
    good = [{"r": pair, "rs": [pair]}, {"r": None, "rs": None}, {"r": pair, "rs": []}]
    bad = [{"r": half, "rs": []}, {"r": None, "rs": [pair, half]}]
    data = [good[0], bad[0], good[1], bad[1], good[2]]
    if name == "a.parquet":
        path = write_parquet(tmp_path / name, data, schema=schema(True, pa.date64()))
    else:
        path = write_jsonl(
            tmp_path / name, "".join(json.dumps(row, default=str) + "\n" for row in data)
        )
    probe = Probe()
    source = files.source(path, schema=schema(False, pa.date32()), on_error="skip")
    assert read_all(source, probe) == good
    assert [row["line"] for row in probe.rejected] == [2, 4]
    assert_resumes_everywhere(source, source.splits()[0])


# --- replay ----------------------------------------------------------------------------------------


def times(n: int, every_s: int = 10) -> list[dict[str, object]]:
    return [{**row, "at": T0 + timedelta(seconds=i * every_s)} for i, row in enumerate(rows(n))]


def test_rows_are_replayed_when_they_are_due(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", times(4))
    source = files.source(path, schema=SCHEMA, replay=Replay(on="at", speed="10x"))
    probe = Probe()
    reader = source.open(source.splits()[0], None, probe.context())
    assert len(read(reader, limit=1)) == 1
    assert pending_us(reader.poll(10)) == 1_000_000
    probe.clock.us += 999_999
    assert pending_us(reader.poll(10)) == 1
    probe.clock.us += 1_000_001
    batch = reader.poll(10)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 2
    position = reader.position()
    restored = source.open(source.splits()[0], position, probe.context())
    assert [row["user"] for row in read(restored)] == [3]


@pytest.mark.parametrize("paced", [{"speed": 1}, {"duration": "30s"}])
def test_the_times_of_a_replay_may_be_numbers_of_a_unit(
    tmp_path: Path, paced: dict[str, object]
) -> None:
    seconds = pa.schema([("at", pa.int32())])
    path = write_parquet(
        tmp_path / "a.parquet", [{"at": 1_782_000_000 + 10 * i} for i in range(4)], schema=seconds
    )
    replay = Replay(on="at", unit="s", **paced)  # type: ignore[arg-type]
    source = files.source(path, schema=seconds, replay=replay)
    reader = source.open(source.splits()[0], None, Probe().context())
    assert len(read(reader, limit=1)) == 1
    assert pending_us(reader.poll(10)) == 10_000_000


def test_the_times_of_a_replay_may_be_strings(tmp_path: Path) -> None:
    text = pa.schema([("at", pa.string())])
    path = write_parquet(
        tmp_path / "a.parquet", [{"at": f"12:0{i} 1 July 2026"} for i in range(3)], schema=text
    )
    source = files.source(path, schema=text, replay=Replay(on="at", format="%H:%M %d %B %Y", speed=60))
    reader = source.open(source.splits()[0], None, Probe().context())
    assert len(read(reader, limit=1)) == 1
    assert pending_us(reader.poll(10)) == 1_000_000


def test_a_duration_spreads_a_parquet_file_by_its_statistics(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", times(61), group=10)
    source = files.source(path, schema=SCHEMA, replay=Replay(on="at", duration="6s"))
    probe = Probe()
    reader = source.open(source.splits()[0], None, probe.context())
    seen = 0
    for tenth in range(61):
        batch = reader.poll(100)
        while isinstance(batch, pa.RecordBatch):
            seen += batch.num_rows
            batch = reader.poll(100)
        assert seen == tenth + 1
        probe.clock.us += 100_000


def test_earlier_and_null_times_are_due_with_the_row_before(tmp_path: Path) -> None:
    loose = pa.schema([("i", pa.int64()), ("at", pa.timestamp("ms"))])
    offsets = [0, 2, 1, None, 3]
    start = T0.replace(tzinfo=None)
    ats = [None if s is None else start + timedelta(seconds=s) for s in offsets]
    data = [{"i": i, "at": at} for i, at in enumerate(ats)]
    path = write_parquet(tmp_path / "a.parquet", data, group=2, schema=loose)
    source = files.source(path, schema=loose, replay=Replay(on="at", speed=1))
    probe = Probe()
    reader = source.open(source.splits()[0], None, probe.context())
    assert [row["i"] for row in read(reader, limit=1)] == [0]
    assert pending_us(reader.poll(9)) == 2_000_000
    probe.clock.us += 2_000_000
    assert [row["i"] for row in read(reader, limit=3)] == [1, 2, 3]
    assert pending_us(reader.poll(9)) == 1_000_000


def test_without_replay_or_at_max_speed_rows_are_not_paced(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", lines(5))
    source = files.source(path, schema=SCHEMA, replay=Replay(on="at", speed="max"))
    assert len(read_all(source)) == 5
    paced = files.source(path, schema=SCHEMA, replay=Replay(on="at", duration="1m", span="1h"))
    assert len(read_all(dataclasses.replace(paced, replay=None))) == 5


def test_a_replay_is_checked(tmp_path: Path) -> None:
    both = {"speed": 2, "duration": "1s"}
    for wrong in ({}, both, {"speed": "fast"}, {"speed": 0}, {"duration": "0s"}):
        with pytest.raises(ProgramError):
            Replay(on="at", **wrong)  # type: ignore[arg-type]
    with pytest.raises(
        ProgramError, match="the time span of a column of strings is unknown before it is read"
    ):
        Replay(on="at", duration="1m", format="%Y")
    with pytest.raises(SchemaError, match=r"'at' is .*, which does not fit unit='s'"):
        files.source("x", schema=SCHEMA, replay=Replay(on="at", speed=1, unit="s"))
    path = write_jsonl(tmp_path / "a.jsonl", lines(5))
    with pytest.raises(
        ProgramError, match="the time span of a file of lines is unknown before it is read"
    ):
        files.source(path, schema=SCHEMA, replay=Replay(on="at", duration="1m")).splits()


# --- both ways of decoding agree -------------------------------------------------------------------

values = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        [
            "null",
            "true",
            '"1"',
            '"x"',
            "[1]",
            "{}",
            '{"a":1}',
            "NaN",
            '"2026-01-01"',
            '"2026-01-01T00:00Z"',
        ]
    ),
)
documents = st.one_of(
    st.builds(lambda a, b: f'{{"a": {a}, "b": {b}}}', values, values),
    st.builds(lambda a: f' {{"a": {a}}} ', values),
    st.sampled_from(["", "  ", "{", "}", '{"a":1}{"a":2}', "[]", '{"a":{}', "1}", '{"b":"}\\n{"}']),
)
MIXED = pa.schema(
    [pa.field("a", pa.int64(), nullable=False), ("b", pa.timestamp("us", "UTC")), ("c", pa.string())]
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(documents, max_size=12))
def test_lines_give_the_same_together_and_alone(tmp_path: Path, texts: list[str]) -> None:
    def decoded(content: list[str]) -> list[object]:
        probe = Probe()
        path = write_jsonl(tmp_path / "a.jsonl", "".join(text + "\n" for text in content))
        found = read_all(files.source(path, schema=MIXED, on_error="skip"), probe)
        return [*found, *((row["record"], row["error"]) for row in probe.rejected)]

    together = decoded(texts)
    alone = [item for text in texts for item in decoded([text])]
    assert sorted(map(repr, together)) == sorted(map(repr, alone))
