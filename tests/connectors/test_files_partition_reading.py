"""Partition columns that a source reads from the names of folders."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheos as rh
from rheos import testing
from rheos.connectors import files
from rheos.connectors.files.partition_reading import folder_values, partition_values
from rheos.connectors.files.partitions import NULL_PARTITION, check_partitions, partition_folder
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.protocol.ids import CheckpointId
from rheos.testing.connector_kit.column_types import COLUMNS
from tests.connectors.ports import Probe, assert_resumes_everywhere, batch_of, read_all, sink_context

DAY = date(2026, 1, 1)
NOON = datetime(2026, 1, 1, 12, 0, 0, 250_000)
FORMATS: tuple[Any, ...] = ("parquet", "jsonl", "csv", rh.formats.csv(header=False), "text")
VALUES: tuple[tuple[pa.DataType, list[Any]], ...] = (
    (pa.string(), ["DE", "ü 日本", "100%", "%41", "a/b=c", "[x]*?", " ", "\0", "NULL", "2026", None]),
    (pa.large_string(), ["a", None]),
    (pa.int64(), [-(2**63), 0, 7, None]),
    (pa.uint8(), [255, None]),
    (pa.bool_(), [True, False, None]),
    (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("100.00"), None]),
    (pa.decimal128(38, 37), [Decimal("1E-37"), None]),
    (pa.date32(), [DAY, date(1500, 2, 1), None]),
    (pa.timestamp("us"), [NOON, None]),
    (pa.timestamp("ms", "UTC"), [NOON.replace(tzinfo=UTC), None]),
    (pa.timestamp("us", "Europe/Berlin"), [NOON.replace(tzinfo=UTC), None]),
    (pa.timestamp("s"), [NOON.replace(microsecond=0), None]),
)


def schema_of(kind: pa.DataType) -> pa.Schema:
    """The partition column is between others, where the format allows that."""
    return pa.schema([("part", kind), pa.field("value", pa.string(), nullable=False)])


def write(folder: Path, schema: pa.Schema, rows: list[dict[str, Any]], **how: Any) -> None:
    sink = files.sink(folder, **how)
    sink.validate(schema)
    writer = sink.open(sink_context(schema))
    writer.write(batch_of(schema, *rows))
    sink.committer().commit(writer.prepare(CheckpointId(1)))


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def put(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


# --- the way there and back -------------------------------------------------------------------------


@pytest.mark.thinned(3)
@pytest.mark.parametrize("format", FORMATS, ids=str)
@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_a_source_reads_what_a_sink_has_written(
    format: Any, kind: pa.DataType, values: list[Any], tmp_path: Path
) -> None:
    schema = schema_of(kind)
    rows = [{"part": value, "value": f"row {i}"} for i, value in enumerate(values * 2)]
    zipped = None if format == "parquet" else "gzip"
    write(tmp_path, schema, rows, format=format, partition_by=["part"], compression=zipped)
    source = files.source(tmp_path, schema=schema, format=format, partition_by=["part"])
    assert in_order(read_all(source, max_rows=1)) == in_order(batch_of(schema, *rows).to_pylist())


@pytest.mark.parametrize("written", [["day", "place"], ["place", "day"]])
def test_several_columns_are_read_in_the_order_of_the_schema(
    written: list[str], tmp_path: Path
) -> None:
    schema = pa.schema([("day", pa.date32()), ("n", pa.int64()), ("place", pa.string())])
    rows = [{"day": DAY, "n": n, "place": ["x", ""][n % 2]} for n in range(4)]
    write(tmp_path, schema, rows, partition_by=written)
    source = files.source(tmp_path, schema=schema, partition_by=["day", "place"])
    assert in_order(read_all(source)) == in_order(
        [{**row, "place": row["place"] or None} for row in rows]
    )
    assert_resumes_everywhere(source, source.splits()[0])


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_that_a_sink_accepts_returns(name: str, tmp_path: Path) -> None:
    values = COLUMNS[name]
    schema = schema_of(values.type)
    rows = [{"part": value, "value": "x"} for value in values.to_pylist()]
    try:
        check_partitions(["part"], schema)
    except SchemaError:
        with pytest.raises(SchemaError, match="cannot name a partition"):
            files.source(tmp_path, schema=schema, partition_by=["part"])
    else:
        write(tmp_path, schema, rows, partition_by=["part"])
        source = files.source(tmp_path, schema=schema, partition_by=["part"])
        assert in_order(read_all(source)) == in_order(batch_of(schema, *rows).to_pylist())


def test_a_value_that_is_too_long_for_a_folder_is_named(tmp_path: Path) -> None:
    schema = schema_of(pa.string())
    write(tmp_path, schema, [{"part": "é" * 125, "value": "x"}], partition_by=["part"])
    with pytest.raises(InputError, match="'part' would name a folder by 257 bytes, but 255 is"):
        write(tmp_path, schema, [{"part": "é" * 126, "value": "x"}], partition_by=["part"])


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_every_string_returns_from_the_name_of_its_folder(text: str) -> None:
    folder = partition_folder(["a=b%"], [text])
    assert folder.count("/") == 0
    schema = pa.schema([("a=b%", pa.string())])
    found = partition_values(folder, folder_values(folder, ["a=b%"]), schema)
    assert found["a=b%"].as_py() == (None if text == NULL_PARTITION else text)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("2026-01-01 12%3A00%3A00", pa.timestamp("us", "UTC"), datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("2026-01-01", pa.timestamp("ms", "UTC"), datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T12:00:00+02:00", pa.timestamp("us", "UTC"), datetime(2026, 1, 1, 10, tzinfo=UTC)),
        ("2026-01-01 12%3A00%3A00.250000", pa.timestamp("ms"), NOON),
        ("7", pa.decimal128(5, 2), Decimal("7.00")),
        ("%C3%BC", pa.string(), "ü"),
    ],
)
def test_spellings_of_other_writers_are_read(text: str, kind: pa.DataType, value: Any) -> None:
    schema = pa.schema([("a", kind)])
    assert partition_values("a=...", {"a": text}, schema)["a"].as_py() == value


@pytest.mark.spark
def test_a_folder_that_spark_has_written_is_read(spark: Any, tmp_path: Path) -> None:
    rows = [(n, [f"a/{n % 2}=%", None][n % 3 // 2], date(2026, 1, 1 + n % 2)) for n in range(12)]
    frame = spark.createDataFrame(rows, "n bigint, place string, day date")
    frame.write.partitionBy("day", "place").parquet(str(tmp_path / "out"))
    schema = pa.schema([("n", pa.int64()), ("place", pa.string()), ("day", pa.date32())])

    source = rh.files.source(tmp_path / "out", schema=schema, partition_by=["day", "place"])
    env = rh.Environment(2, runtime="batch", spark=spark)
    read = env.from_source(source)
    read.select("n", "place", "day").collect("all")
    read.filter(rh.col("day") == date(2026, 1, 2)).select("n").collect("second")
    found = env.execute("partitions").collected
    assert sorted(tuple(row.values()) for row in found["all"].to_pylist()) == rows
    assert sorted(found["second"]["n"].to_pylist()) == list(range(1, 12, 2))
    assert set(read_days(source, "batch")) == {date(2026, 1, 1), date(2026, 1, 2)}


# --- what does not fit ------------------------------------------------------------------------------


DAYS = pa.schema([("n", pa.int64()), pa.field("day", pa.date32(), nullable=False)])


@pytest.mark.parametrize(
    ("file", "columns", "what"),
    [
        ("in/a.jsonl", ["day"], "/in does not name the partition column day"),
        ("in/day=2026-01-01/a.jsonl", ["day", "n"], "in/day=2026-01-01 does not name .* n"),
        ("in/place=DE/a.jsonl", ["day"], "in/place=DE does not name the partition column day"),
        ("in/day=2026-01-01/more/a.jsonl", ["day"], "day=2026-01-01/more has more levels"),
        ("in/day=2026-01-01/n=1/a.jsonl", ["day"], "day=2026-01-01/n=1 has more levels"),
        ("in/n=1/day=2026-01-01/a.jsonl", ["day"], "n=1/day=2026-01-01 has more levels than day=..."),
        ("in/sub/day=2026-01-01/a.jsonl", ["day"], "sub/day=2026-01-01 has more levels"),
        ("in/day=2026-01-02/day=2026-01-01/a.jsonl", ["day"], "has more levels than day=..."),
    ],
)
@pytest.mark.parametrize("how", [{}, {"on_error": "skip"}, {"discover": "1s"}], ids=str)
def test_folders_of_another_layout_are_named(
    file: str, columns: list[str], what: str, how: Any, tmp_path: Path
) -> None:
    put(tmp_path / file, {"x": 1})
    schema = pa.schema([*DAYS, ("x", pa.int64())])
    source = files.source(tmp_path / "in", schema=schema, partition_by=columns, **how)
    with pytest.raises(InputError, match=what):
        source.splits()


@pytest.mark.parametrize("scheme", ["", "file://"])
@pytest.mark.parametrize(
    "path",
    [
        "run=5",
        "run=5/",
        "run=5/day=2026-01-01",
        "run=5/day=2026-01-01/a.jsonl",
        "run=5/day=*/*.jsonl",
        "*/day=*/a.jsonl",
        "**/*.jsonl",
    ],
)
def test_the_path_may_begin_anywhere_above_the_files(path: str, scheme: str, tmp_path: Path) -> None:
    put(tmp_path / "run=5/day=2026-01-01/a.jsonl", {"n": 1})
    source = files.source(f"{scheme}{tmp_path}/{path}", schema=DAYS, partition_by=["day"])
    if path.startswith("*/"):
        with pytest.raises(InputError, match="has more levels"):
            source.splits()
    else:
        assert read_all(source) == [{"n": 1, "day": DAY}]


def test_files_of_a_url_are_read(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    root = f"memory://partitions{tmp_path.name}"
    with memory.open(f"{root}/day=2026-01-01/a.jsonl", "w") as out:
        out.write('{"n": 1}\n')
    source = files.source(root, schema=DAYS, partition_by=["day"])
    assert read_all(source) == [{"n": 1, "day": DAY}]


@pytest.mark.parametrize(
    ("folder", "kind", "what"),
    [
        ("part=maybe", pa.bool_(), "part=maybe has 'maybe' for column 'part', which is bool"),
        ("part=1.5", pa.int64(), "has '1.5' for column 'part', which is int64"),
        ("part=256", pa.uint8(), "has '256' for column 'part', which is uint8"),
        ("part=", pa.int64(), "has '' for column 'part'"),
        ("part=2026-02-30", pa.date32(), "has '2026-02-30' for column 'part'"),
        ("part=1.005", pa.decimal128(5, 2), "has '1.005' for column 'part'"),
        ("part=2026-01-01 00%3A00%3A00.001", pa.timestamp("s"), "has '2026-01-01 00%3A00%3A00.001'"),
        ("part=2026-01-01 00%3A00%3A00Z", pa.timestamp("us"), "for column 'part'"),
        ("part=%FF", pa.string(), "has '%FF' for column 'part', which is string"),
        (f"part={NULL_PARTITION}", pa.string(), "has null for column 'part', which is not nullable"),
    ],
)
@pytest.mark.parametrize("discover", [None, "1s"])
def test_a_value_that_does_not_fit_fails_or_rejects_the_rows_of_its_folder(
    folder: str, kind: pa.DataType, what: str, discover: str | None, tmp_path: Path
) -> None:
    schema = pa.schema([("n", pa.int64()), pa.field("part", kind, nullable=False)])
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "a.jsonl").write_text('{"n": 1}\n{"n": "x"}\n\n{"n": 3}\n')
    how: dict[str, Any] = {"schema": schema, "partition_by": ["part"], "discover": discover}
    with pytest.raises(InputError, match=what):
        files.source(tmp_path, **how).splits()
    source = files.source(tmp_path, **how, on_error="skip")
    probe = Probe()
    assert read_all(source, probe) == []
    assert probe.counts == {"skipped": 3}
    assert [row["line"] for row in probe.rejected] == [1, 2, 4]
    assert [what.split(" for")[0].split("/")[-1] in row["error"] for row in probe.rejected] == [
        True,
        False,
        True,
    ]
    assert_resumes_everywhere(source, source.splits()[0])


@pytest.mark.parametrize(
    ("arguments", "error", "what"),
    [
        ({"partition_by": "day"}, ProgramError, "is not a list of columns"),
        ({"partition_by": ["dya"]}, ProgramError, "'dya', which the schema does not have"),
        ({"partition_by": ["n", "day"]}, ProgramError, "all columns are partition columns"),
        ({"partition_by": ["day"], "replay": rh.Replay("day", "60x")}, ProgramError, "is a partition"),
        ({"partition_by": ["x"], "schema": pa.schema([("x", pa.float64())])}, SchemaError, "is double"),
        ({"partition_by": ["day"], "schema": None, "format": "text"}, ProgramError, "it has value"),
    ],
)
def test_invalid_arguments_are_refused(arguments: Any, error: Any, what: str) -> None:
    with pytest.raises(error) as refused:
        files.source("in", **{"schema": DAYS, "format": "jsonl", **arguments})
    assert what in str(refused.value)


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("format", ["parquet", "jsonl", "csv"])
def test_a_column_that_only_a_folder_has_is_not_read_as_missing(
    format: Any, nullable: bool, tmp_path: Path
) -> None:
    schema = pa.schema(
        [("n", pa.int64()), pa.field("day", pa.date32(), nullable=nullable), ("x", pa.int64())]
    )
    write(tmp_path, schema, [{"n": 1, "day": DAY, "x": 2}], format=format, partition_by=["day"])
    source = files.source(tmp_path, schema=schema, format=format)
    with pytest.raises(InputError) as refused:
        read_all(source)
    assert 'pass partition_by=["day"]' in (refused.value.hint or "")


def test_a_column_that_begins_with_an_underscore_names_no_hidden_folder(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("_day", pa.date32())])
    write(tmp_path, schema, [{"n": 1, "_day": DAY}], partition_by=["_day"])
    put(tmp_path / "_half/_day=2026-01-01/a.jsonl", {"n": 2})
    put(tmp_path / "_day=2026-01-01/_b.jsonl", {"n": 3})
    source = files.source(tmp_path, schema=schema, partition_by=["_day"])
    assert read_all(source) == [{"n": 1, "_day": DAY}]


def test_files_may_have_the_column_too(tmp_path: Path) -> None:
    put(
        tmp_path / "day=2026-01-01/a.jsonl",
        {"n": 1, "day": "2026-01-01"},
        {"n": 2, "day": "2026-01-02"},
    )
    source = files.source(tmp_path, schema=DAYS)
    assert [row["day"].day for row in read_all(source)] == [1, 2]
    folders = files.source(tmp_path, schema=DAYS, partition_by=["day"])
    assert [row["day"].day for row in read_all(folders)] == [1, 1]


# --- columns that nothing needs ---------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS[:4], ids=str)
def test_the_contract_of_sources_holds(format: Any, tmp_path: Path) -> None:
    schema = pa.schema(
        [("at", pa.timestamp("us")), ("a", pa.int64()), ("day", pa.date32()), ("b", pa.string())]
    )
    rows = [{"at": NOON, "a": n, "day": [DAY, None][n % 2], "b": f"b{n}"} for n in range(6)]
    write(tmp_path, schema, rows, format=format, partition_by=["day", "at"])
    source = files.source(tmp_path, schema=schema, format=format, partition_by=["day", "at"])
    found = testing.check_source(source, max_rows=(1, 3))
    assert sum(map(len, found.values())) == 6


def test_only_the_partition_column_is_needed(tmp_path: Path) -> None:
    rows = [{"n": n, "day": DAY} for n in range(5)]
    write(tmp_path, DAYS, rows, partition_by=["day"])
    schema = DAYS.set(1, pa.field("day", pa.date32()))
    source = files.source(tmp_path, schema=schema, partition_by=["day"])
    assert source.reading(frozenset(["n"])).schema.names == ["n"]  # type: ignore[union-attr]
    assert source.reading(frozenset(["day"])) is None  # A column of the file counts the rows.
    assert read_days(source, "simulated") == [DAY] * 5


def read_days(source: files.FileSource, runtime: Any) -> list[date | None]:
    env = rh.Environment(2, runtime=runtime)
    env.from_source(source).select("day").collect("days")
    found: list[date | None] = env.execute("days").collected["days"]["day"].to_pylist()
    return found


# --- jobs -------------------------------------------------------------------------------------------


@dataclass
class Order:
    n: int
    day: date
    place: str | None


PLACES = ("DE", "a/b", None)


def orders(folder: Path, count: int) -> list[Order]:
    made = [Order(n, DAY + timedelta(days=n % 3), PLACES[n % 3]) for n in range(count)]
    schema = pa.schema([("n", pa.int64()), ("day", pa.date32()), ("place", pa.string())])
    rows = [vars(each) for each in made]
    write(folder, schema, rows, format="jsonl", partition_by=["day", "place"])
    return made


def test_rows_and_their_event_times_are_right_after_crashes(tmp_path: Path) -> None:
    made = orders(tmp_path, 300)

    def build(env: rh.Environment) -> rh.DataStream:
        source = rh.files.source(tmp_path, schema=Order, partition_by=["day", "place"])
        days = rh.Watermark.bounded_out_of_orderness("3d", on="day")
        rows = env.from_source(source, watermark=days)
        return rows.key_by("day").window(rh.Tumbling("1d")).aggregate(n=rh.agg.count())

    for seed in range(4):
        faults = testing.Faults(crash_slot=1.0, crash_driver=0.5)
        done = testing.simulate(build, seed=seed, faults=faults)
        found = {row["day"]: (row["window_start"].date(), row["n"]) for row in done.out.to_pylist()}
        assert found == {day: (day, 100) for day in {order.day for order in made}}


def test_new_folders_are_discovered(tmp_path: Path) -> None:
    source = files.source(tmp_path, schema=DAYS, partition_by=["day"], discover="1s")
    assert source.splits() == []
    put(tmp_path / "day=2026-01-02/a.jsonl", {"n": 1})
    assert list(source.discover()) == []
    (split,) = source.discover()
    reader = source.open(split, None, Probe().context())
    assert reader.poll(9).to_pylist() == [{"n": 1, "day": date(2026, 1, 2)}]
    put(tmp_path / "day=soon/a.jsonl", {"n": 1})
    source.discover()
    with pytest.raises(InputError, match="day=soon"):
        source.discover()


TABLE = """
CREATE TABLE orders (n BIGINT NOT NULL, day DATE, place STRING, m BIGINT) {by}
WITH ('connector' = 'files', 'path' = '{folder}', 'format' = '{format}'{option});
"""


@pytest.mark.parametrize("format", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize(
    ("by", "option"),
    [("PARTITIONED BY (day, place)", ""), ("", ", 'partition_by' = 'day, place'")],
    ids=["clause", "option"],
)
def test_sql_reads_the_partitions_that_it_writes(
    format: str, by: str, option: str, tmp_path: Path
) -> None:
    table = TABLE.format(by=by, option=option, folder=tmp_path / "out", format=format)
    writing = rh.Environment(2, runtime="simulated")
    writing.sql_script(
        f"""{table} INSERT INTO orders SELECT * FROM (VALUES
        (1, DATE '2026-01-01', 'a/b', 3), (2, DATE '2026-01-02', NULL, 4)) AS t (n, day, place, m)"""
    )
    writing.execute("write")
    assert (tmp_path / "out/day=2026-01-01/place=a%2Fb").is_dir()
    reading = rh.Environment(2, runtime="simulated")
    reading.sql_script(
        f"""{table} CREATE TABLE found (place STRING, day DATE) WITH ('connector' = 'collect');
        INSERT INTO found SELECT place, day FROM orders WHERE day >= DATE '2026-01-01'"""
    )
    found = reading.execute("read").collected["found"]
    assert in_order(found.to_pylist()) == in_order(
        [{"place": "a/b", "day": DAY}, {"place": None, "day": date(2026, 1, 2)}]
    )


@pytest.mark.parametrize(
    ("by", "option", "what"),
    [
        ("PARTITIONED BY (dya)", "", "unknown column 'dya'"),
        ("PARTITIONED BY (day DATE)", "", "lists names of columns"),
        ("PARTITIONED BY (year(day))", "", "lists names of columns"),
        ("PARTITIONED BY (day)", ", 'partition_by' = 'day'", "PARTITIONED BY sets this option"),
        ("PARTITIONED BY ()", "", "PARTITIONED BY"),
        ("PARTITIONED BY (n, day, place, m)", "", "all columns are partition columns"),
    ],
)
def test_wrong_partitions_of_a_table_are_refused(by: str, option: str, what: str) -> None:
    env = rh.Environment(1, runtime="simulated")
    table = TABLE.format(by=by, option=option, folder="in", format="jsonl")
    with pytest.raises(rh.ProgramError) as refused:
        env.sql_script(
            f"""{table} CREATE TABLE out (n BIGINT) WITH ('connector' = 'print');
            INSERT INTO out SELECT n FROM orders"""
        )
    assert what in str(refused.value)


# --- filters that skip files ------------------------------------------------------------------------

YEARS = pa.schema([("n", pa.int64()), ("year", pa.int64()), ("month", pa.string())])
IN_SQL = """CREATE TABLE sales (n BIGINT, year BIGINT, month STRING) PARTITIONED BY (year, month)
WITH ('connector' = 'files', 'path' = '{folder}', 'format' = '{format}');
CREATE VIEW found AS SELECT n FROM sales WHERE {where}"""
SKIPPING: dict[str, tuple[Any, str, set[int]]] = {
    "one folder": (
        (rh.col("year") == 2026, rh.col("month") == "05"),
        "year = 2026 AND month = '05'",
        {6},
    ),
    "a part of a condition": (
        ((rh.col("year") > 2025) & (rh.col("month") < "06") & (rh.col("n") > 0),),
        "year > 2025 AND month < '06' AND n > 0",
        {5, 6},
    ),
    "a function of a column": (
        (rh.col("year").is_in([2024, 2026]), rh.col("month").str.starts_with("04")),
        "year IN (2024, 2026) AND month LIKE '04%'",
        {5},
    ),
    "two columns": (
        ((rh.col("year") == 2025) | (rh.col("month") == "05"),),
        "year = 2025 OR month = '05'",
        {2, 3, 4, 6},
    ),
    "null": ((rh.col("month").is_null(),), "month IS NULL", {4, 7}),
    "a null is not true": ((rh.col("month") != "04",), "month <> '04'", {3, 6}),
}


def files_of_years(folder: Path, format: str, wanted: set[int]) -> None:
    """Write a file for each of three months of two years; files that are not wanted are damaged."""
    months = [(2025, "04"), (2025, "05"), (2025, None), (2026, "04"), (2026, "05"), (2026, None)]
    for n, (year, month) in enumerate(months, 2):
        write(
            folder,
            YEARS,
            [{"n": n, "year": year, "month": month}],
            format=format,
            partition_by=["year", "month"],
        )
        if n not in wanted:
            place = folder / f"year={year}" / f"month={month or NULL_PARTITION}"
            for file in place.iterdir():
                file.write_bytes(b"{ damaged")


def of_years(folder: Path, format: Any, **options: Any) -> Any:
    return rh.files.source(
        folder, schema=YEARS, format=format, partition_by=["year", "month"], **options
    )


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
@pytest.mark.parametrize("how", ["expressions", "sql"])
@pytest.mark.parametrize("case", SKIPPING)
def test_files_that_a_filter_excludes_are_not_opened(
    case: str, how: str, format: str, tmp_path: Path
) -> None:
    conditions, where, wanted = SKIPPING[case]
    files_of_years(tmp_path, format, wanted)
    env = rh.Environment(2, runtime="simulated")
    if how == "sql":
        env.sql_script(IN_SQL.format(folder=tmp_path, format=format, where=where))
        found = env.sql("SELECT n FROM found")
    else:
        found = env.from_source(of_years(tmp_path, format)).filter(*conditions)
    found.collect("found")
    assert "skips splits without" in env.explain()
    rows = env.execute("read").collected["found"]
    assert sorted(rows["n"].to_pylist()) == sorted(wanted)


def test_a_watched_folder_skips_files_of_the_same_splits(tmp_path: Path) -> None:
    files_of_years(tmp_path, "parquet", {5})
    source = of_years(tmp_path, "parquet", discover="10s")
    only = source.skipping((rh.col("year") == 2026) & (rh.col("month") == "04"))
    assert [split.id for split in only.splits()] == [split.id for split in source.splits()]
    assert read_all(only) == [{"n": 5, "year": 2026, "month": "04"}]
    for split in only.splits():
        assert_resumes_everywhere(only, split)


def test_all_readers_of_a_source_decide_which_files_are_skipped(tmp_path: Path) -> None:
    files_of_years(tmp_path, "parquet", {3, 6})
    env = rh.Environment(2, runtime="simulated")
    rows = env.from_source(of_years(tmp_path, "parquet"))
    rows.select("month", m="n", y="year").filter(rh.col("month") == "05").collect("named")
    rows.filter(rh.col("month") == "05").filter(rh.col("year") == 2026).collect("twice")
    collected = env.execute("read").collected
    assert sorted(collected["named"]["m"].to_pylist()) == [3, 6]
    assert collected["twice"]["n"].to_pylist() == [6]


@pytest.mark.parametrize(
    "program",
    [
        lambda rows: rows.filter(rh.col("n") > 5),
        lambda rows: rows.filter((rh.col("year") == 2026) | (rh.col("n") > 5)),
        lambda rows: rows.with_columns(year=rh.col("n")).filter(rh.col("year") > 5),
        lambda rows: rows.filter(lambda row: row.n > 5).filter(rh.col("year") == 2026),
    ],
    ids=["another column", "or", "computed", "a function before"],
)
def test_all_files_are_read_if_any_row_may_count(program: Any, tmp_path: Path) -> None:
    files_of_years(tmp_path, "parquet", set(range(2, 8)))
    env = rh.Environment(2, runtime="simulated")
    program(env.from_source(of_years(tmp_path, "parquet"))).collect("found")
    assert "skips splits without" not in env.explain()


def test_files_of_rejected_rows_are_read_if_somebody_reads_them(tmp_path: Path) -> None:
    files_of_years(tmp_path, "jsonl", {6})
    env = rh.Environment(2, runtime="simulated")
    rows = env.from_source(of_years(tmp_path, "jsonl", on_error="skip"))
    rows.filter(rh.col("year") == 2026, rh.col("month") == "05").collect("found")
    rows.side_output("rejected").collect("rejected")
    assert env.execute("read").collected["rejected"].num_rows == 5


def test_a_condition_that_fails_is_reported_by_the_filter(tmp_path: Path) -> None:
    files_of_years(tmp_path, "parquet", set(range(2, 8)))
    env = rh.Environment(2, runtime="simulated")
    rows = env.from_source(of_years(tmp_path, "parquet"))
    rows.filter(rh.col("month").cast(pl.Date) > date(2026, 1, 1)).collect("found")
    with pytest.raises(rh.RheosError, match="month"):
        env.execute("read")


def test_a_connector_without_partitions_says_so() -> None:
    env = rh.Environment(1, runtime="simulated")
    with pytest.raises(rh.ProgramError, match="a sink of this connector has no partition columns"):
        env.sql_script(
            """CREATE TABLE out (n BIGINT) PARTITIONED BY (n) WITH ('connector' = 'print');
            INSERT INTO out SELECT 1"""
        )
