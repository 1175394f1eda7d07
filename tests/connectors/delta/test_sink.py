"""A Delta table has each row once, whatever fails, and is read by other libraries.

The invariants DL1 to DL7 are in docs/protocols/delta-sink.md.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import rheos as rh
from rheos import testing
from rheos.connectors.delta.delta_log import DeltaLog
from rheos.connectors.table_log.epoch_append import Append, StagedDataFile, UncertainAppendError
from rheos.core.connectors.contract import Committer
from rheos.core.errors import CheckpointError, UnavailableError, UnrestorableError
from rheos.core.protocol.ids import Attempt, CheckpointId
from rheos.testing import check_sink, check_source
from rheos.testing.servers import HadoopCluster
from tests.api.programs import refused
from tests.connectors.killed_jobs import run_with_kills
from tests.connectors.ports import sink_context
from tests.connectors.store_servers import new_bucket
from tests.waiting import wait_for

SCHEMA = pa.schema({"n": pa.int64(), "k": pa.string()})
RUNTIMES = [
    "simulated",
    pytest.param("batch", marks=pytest.mark.spark),
    pytest.param("continuous", marks=pytest.mark.spark),
]


def write(table: Path, rows: Any, runtime: str = "simulated", **settings: Any) -> None:
    env = rh.Environment(2, runtime=runtime)  # type: ignore[arg-type]
    env.from_source(rh.collection(rows)).sink_to(rh.delta.sink(table, **settings), name="table")
    env.execute("rows into a table")


def read(table: Path) -> list[dict[str, Any]]:
    return pl.read_delta(str(table)).sort("n").to_dicts()


# --- whole jobs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_table_is_created_and_appended_to(runtime: str, tmp_path: Path) -> None:
    rows = [{"n": n, "k": ["a/b %20", "é語", "", None][n % 4]} for n in range(8)]
    write(tmp_path / "t", rows[:5], runtime, partition_by=["k"])
    write(tmp_path / "t", rows[5:], runtime)
    # An empty string names no folder, so a partitioned table has null in its place, as from Spark.
    assert read(tmp_path / "t") == [{**row, "k": row["k"] or None} for row in rows]
    of_job = [entry for entry in DeltaTable(tmp_path / "t").history() if "rheos.job" in entry]
    assert len(of_job) == 2, "one transaction for each checkpoint with rows"


def test_each_row_is_in_the_table_once_after_crashes(tmp_path: Path) -> None:
    def numbers(env: rh.Environment) -> rh.DataStream:
        source = rh.generator(lambda block: {"n": block.index()}, count=400, rate_per_s=200, splits=1)
        rows = env.from_source(source)
        rows.sink_to(rh.delta.sink(tmp_path / str(seed)))
        return rows

    for seed in range(4):
        testing.simulate(numbers, seed=seed, faults=testing.Faults(crash_slot=1.0, crash_driver=0.5))
        assert [row["n"] for row in read(tmp_path / str(seed))] == list(range(400))


@pytest.mark.spark
@pytest.mark.slow
def test_tables_are_exact_though_workers_and_driver_are_killed(tmp_path: Path) -> None:
    rows, totals = tmp_path / "tables" / "rows", tmp_path / "tables" / "totals"
    numbers = run_with_kills(
        "delta", tmp_path, str(tmp_path / "tables"), lambda: pl.read_delta(str(rows)).height, die_at=4
    )
    assert [row["n"] for row in read(rows)] == numbers
    by_k = Counter(n % 3 for n in numbers)
    assert sorted(pl.read_delta(str(totals)).select("k", "n").rows()) == sorted(by_k.items())


def test_the_sink_keeps_the_contract(tmp_path: Path) -> None:
    def make(name: str, schema: pa.Schema) -> Any:
        table = tmp_path / name
        return rh.delta.sink(table), lambda: DeltaTable(table).to_pyarrow_table().cast(schema)

    refused_types = {"duration"}
    assert len(check_sink(make)) == 17 - len(refused_types)


def test_sql_writes_to_a_partitioned_table(tmp_path: Path) -> None:
    env = rh.Environment(2, runtime="simulated")
    numbers = env.from_source(rh.collection([{"n": n, "k": f"k{n % 2}"} for n in range(6)]))
    env.register("numbers", numbers)
    env.sql_script(
        f"""CREATE TABLE lake (n BIGINT, k STRING) PARTITIONED BY (k)
        WITH ('connector' = 'delta', 'path' = '{tmp_path}/t');
        INSERT INTO lake SELECT n * 10, k FROM numbers"""
    )
    env.execute("sql into a table")
    assert [row["n"] for row in read(tmp_path / "t")] == [0, 10, 20, 30, 40, 50]
    assert DeltaTable(tmp_path / "t").metadata().partition_columns == ["k"]


# --- commits, one by one ----------------------------------------------------------------------------


class Job:
    """A job that stages rows of a table and commits them, by hand."""

    def __init__(self, table: Path, schema: pa.Schema = SCHEMA, **settings: Any) -> None:
        self.table = table
        sink = rh.delta.sink(table, **settings)
        sink.validate(schema)
        self.sink = sink.prepared(schema, ("job", "table"))
        self.schema = schema
        self.checkpoint = 0
        self.open()

    def open(self) -> None:
        self.writer = self.sink.open(sink_context(self.schema))

    def stage(self, *numbers: int) -> list[bytes]:
        self.checkpoint += 1
        return self.stage_rows([{"n": n, "k": "k"} for n in numbers])

    def stage_rows(self, rows: list[dict[str, Any]]) -> list[bytes]:
        self.writer.write(pa.RecordBatch.from_pylist(rows, self.schema))
        return self.writer.prepare(CheckpointId(max(self.checkpoint, 1)))

    def committer(self) -> Committer:
        committer = self.sink.committer()
        assert committer is not None
        return committer.of_log("log")  # type: ignore[attr-defined, no-any-return]

    def commit(self, staged: list[bytes]) -> None:
        self.committer().commit(staged)

    def numbers(self) -> list[int]:
        return [row["n"] for row in read(self.table)]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "t")


def test_a_foreign_write_between_look_and_append_is_kept(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, foreign = DeltaLog.append, iter([100, 101])

    def late(log: DeltaLog, action: Any) -> None:
        for n in foreign:
            write_deltalake(job.table, pa.table({"n": [n], "k": ["x"]}), mode="append")
            break
        append(log, action)

    monkeypatch.setattr(DeltaLog, "append", late)
    job.commit(job.stage(1, 2))
    assert job.numbers() == [1, 2, 100, 101]


def test_a_commit_whose_answer_was_lost_is_not_repeated(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_version, lost = DeltaTable.create_write_transaction, []

    def loses_the_answer(table: DeltaTable, *args: Any, **settings: Any) -> None:
        write_version(table, *args, **settings)
        lost.append(True)
        raise OSError("Generic error: connection closed (os error 104)")

    staged = job.stage(1)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", loses_the_answer)
    job.commit(staged)
    assert lost == [True]
    assert job.numbers() == [1]


def test_a_checkpoint_is_found_after_compaction_vacuum_and_log_checkpoints(job: Job) -> None:
    first, second = job.stage(1, 2), job.stage(3)
    job.commit(first)
    job.commit([*first, *second])
    table = DeltaTable(job.table)
    table.optimize.compact()
    table.vacuum(0, enforce_retention_duration=False, dry_run=False, full=True)
    table.create_checkpoint()
    job.commit([*first, *second])
    assert job.numbers() == [1, 2, 3]


def test_a_replaced_driver_appends_nothing(job: Job) -> None:
    first, second = job.stage(1), job.stage(2)
    job.commit([*first, *second])
    job.commit(first)
    assert job.numbers() == [1, 2]


def test_a_job_with_another_log_has_numbers_of_its_own(job: Job) -> None:
    job.commit(job.stage(1))
    job.checkpoint = 0
    staged = job.stage(2)
    job.committer().of_log("another").commit(staged)  # type: ignore[attr-defined]
    assert job.numbers() == [1, 2]


def test_closing_removes_open_files_and_a_crash_leaves_them_for_vacuum(job: Job) -> None:
    job.commit(job.stage(1))
    job.stage(2)  # Prepared, but no checkpoint has it.
    job.committer().abort_stale(sink_context(SCHEMA).job, Attempt(2), [])
    assert len(list(job.table.glob("*.parquet"))) == 2
    job.writer.write(pa.RecordBatch.from_pylist([{"n": 3, "k": "k"}], SCHEMA))
    job.writer.close()
    table = DeltaTable(job.table)
    table.vacuum(0, enforce_retention_duration=False, dry_run=False, full=True)
    assert len(list(job.table.glob("*.parquet"))) == 1
    assert job.numbers() == [1]


# --- what must stop the job ---------------------------------------------------------------------------


def lose_a_file(job: Job) -> None:
    for file in job.table.glob("*.parquet"):
        file.unlink()


def replace_the_table(job: Job) -> None:
    (job.table / "_delta_log").rename(job.table / "old")
    DeltaTable.create(job.table, SCHEMA)


def drop_the_table(job: Job) -> None:
    (job.table / "_delta_log").rename(job.table / "old")


def change_a_type(job: Job) -> None:
    changed = pa.table({"n": ["one"], "k": ["k"]})
    write_deltalake(job.table, changed, mode="overwrite", schema_mode="overwrite")


def forget_transactions(job: Job) -> None:
    DeltaTable(job.table).alter.set_table_properties(
        {"delta.setTransactionRetentionDuration": "interval 1 days"}
    )


@pytest.mark.parametrize(
    ("change", "error", "what"),
    [
        (lose_a_file, UnrestorableError, r"\(1 rows\) is lost: the file does not exist"),
        (replace_the_table, UnrestorableError, "was replaced by another one while the job ran"),
        (drop_the_table, CheckpointError, "could not be read or written"),
        (change_a_type, rh.SchemaError, "column 'n' is int64 in the stream, but string in the table"),
        (forget_transactions, rh.SchemaError, "delta.setTransactionRetentionDuration"),
    ],
)
def test_changes_of_the_table_that_lose_or_repeat_rows_are_errors(
    job: Job, change: Callable[[Job], None], error: type[Exception], what: str
) -> None:
    staged = job.stage(1)
    change(job)
    with pytest.raises(error, match=what):
        job.commit(staged)


@pytest.mark.parametrize(
    "damage", [b"x", lambda file: {**file, "path": "../a"}, lambda file: {**file, "partition": ["x"]}]
)
def test_a_damaged_committable_is_an_error(job: Job, damage: Any) -> None:
    [staged] = job.stage(1)
    if callable(damage):
        damage = msgspec.msgpack.encode(damage(msgspec.msgpack.decode(staged)))
    with pytest.raises(UnrestorableError, match="damaged"):
        job.commit([damage])


def test_an_outage_can_be_retried_and_a_refusal_cannot(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = job.stage(1)
    for text, error in (("No space left (os error 28)", UnavailableError), ("no", CheckpointError)):

        def fails(table: Any, *args: Any, text: str = text, **settings: Any) -> None:
            raise OSError(text)

        with monkeypatch.context() as patch:
            patch.setattr("rheos.connectors.table_log.epoch_append.PAUSES_MS", (0,))
            patch.setattr(DeltaTable, "create_write_transaction", fails)
            with pytest.raises(error, match="could not be read or written"):
                job.commit(staged)
    job.commit(staged)
    assert job.numbers() == [1]


# --- columns ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"n": pa.int64()}, "has no column 'k' (string); it has n"),
        ({"n": pa.string(), "k": pa.string()}, "column 'n' is int64 in the stream, but string in the"),
        ({"N": pa.int64(), "k": pa.string()}, "column 'n' of the stream is called 'N' in the table"),
        (
            pa.schema([*SCHEMA, pa.field("m", pa.int64(), nullable=False)]),
            "has the column 'm', but the stream does not, and it is NOT NULL there",
        ),
        (
            pa.schema([pa.field("n", pa.int64(), nullable=False), SCHEMA.field("k")]),
            "column 'n' is nullable in the stream, but not in the table",
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused_at_the_users_line(
    tmp_path: Path, columns: Any, what: str
) -> None:
    schema = columns if isinstance(columns, pa.Schema) else pa.schema(columns)
    DeltaTable.create(tmp_path / "t", schema)
    refused(
        lambda: write(tmp_path / "t", pa.table({"n": [1], "k": ["a"]}, SCHEMA)),
        rh.SchemaError,
        what,
        "",
        at="sink_to(rh.delta.sink",
    )


@pytest.mark.parametrize(
    ("settings", "error", "what"),
    [
        ({"partition_by": ["day"]}, rh.ProgramError, "names the column 'day'"),
        ({"partition_by": ["x"]}, rh.SchemaError, "cannot name a partition"),
        ({"partition_by": ["at"]}, rh.SchemaError, "by which the sink cannot partition"),
        ({"partition_by": "k"}, rh.ProgramError, "is not a list of columns"),
        ({"evolve": "yes"}, rh.ProgramError, "evolve='yes' is neither True nor False"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, settings: Any, error: type[rh.RheosError], what: str
) -> None:
    schema = pa.schema({"k": pa.string(), "x": pa.float64(), "at": pa.timestamp("us")})
    with pytest.raises(error, match=what):
        Job(tmp_path / "t", schema, **settings)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("kind", [pa.uint64(), pa.time64("us"), pa.duration("s"), pa.decimal256(40)])
def test_types_that_a_table_cannot_store_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    for column in (kind, pa.list_(kind), pa.struct({"x": kind})):
        with pytest.raises(rh.SchemaError, match="which Delta tables cannot store"):
            Job(tmp_path / "t", pa.schema({"n": pa.int64(), "x": column}))


def test_a_partitioned_table_decides_and_narrower_columns_fit(tmp_path: Path) -> None:
    wide = pa.schema(
        {"n": pa.int64(), "x": pa.float64(), "d": pa.decimal128(20, 4), "more": pa.string()}
    )
    DeltaTable.create(tmp_path / "t", wide, partition_by=["n"])
    narrow = pa.schema({"n": pa.uint8(), "x": pa.float32(), "d": pa.decimal128(10, 2)})
    with pytest.raises(rh.SchemaError, match=r"partition_by=\['more'\], but .* is partitioned by n"):
        Job(tmp_path / "t", wide, partition_by=["more"])
    job = Job(tmp_path / "t", narrow)
    job.commit(job.stage_rows([{"n": 200, "x": 0.5, "d": Decimal("1.25")}]))
    assert read(tmp_path / "t") == [{"n": 200, "x": 0.5, "d": Decimal("1.2500"), "more": None}]


def test_values_are_converted_exactly_or_refused(tmp_path: Path) -> None:
    schema = pa.schema(
        {
            "n": pa.uint32(),
            "k": pa.dictionary(pa.int8(), pa.large_string()),
            "at": pa.timestamp("ns", "Europe/Oslo"),
            "local": pa.timestamp("s"),
        }
    )
    at = datetime(2026, 3, 1, 12, 0, 0, 7, tzinfo=UTC)
    job = Job(tmp_path / "t", schema)
    job.commit(job.stage_rows([{"n": 2**32 - 1, "k": "a", "at": at, "local": datetime(2026, 3, 1)}]))
    assert read(tmp_path / "t") == [{"n": 2**32 - 1, "k": "a", "at": at, "local": datetime(2026, 3, 1)}]
    finer = pa.array([1], pa.timestamp("ns", "Europe/Oslo"))
    row = pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in schema], schema=schema)
    with pytest.raises(rh.InputError, match="a value of column 'at' does not fit"):
        job.writer.write(row.set_column(2, schema.field("at"), finer))


def test_evolve_adds_columns_and_keeps_rows(tmp_path: Path) -> None:
    write(tmp_path / "t", [{"n": 1}])
    more = [{"n": 2, "at": datetime(2026, 3, 1), "tags": ["a"]}]
    refused(lambda: write(tmp_path / "t", more), rh.SchemaError, "has no column 'at'", "evolve=True")
    write(tmp_path / "t", more, evolve=True)
    write(tmp_path / "t", [{"n": 3}], evolve=True)
    assert read(tmp_path / "t") == [
        {"n": 1, "at": None, "tags": None},
        {"n": 2, "at": datetime(2026, 3, 1), "tags": ["a"]},
        {"n": 3, "at": None, "tags": None},
    ]


def test_a_column_that_another_program_adds_while_the_job_runs_is_null(job: Job) -> None:
    staged = job.stage(1)
    more = pa.table({"n": [2], "k": ["k"], "x": [0.5]})
    write_deltalake(job.table, more, mode="append", schema_mode="merge")
    job.commit(staged)
    assert read(job.table) == [{"n": 1, "k": "k", "x": None}, {"n": 2, "k": "k", "x": 0.5}]


# --- tables that need more than appended files ------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"delta.enableRowTracking": "true"}, "the feature rowTracking"),
        ({"delta.columnMapping.mode": "name"}, "column mapping"),
    ],
)
def test_a_table_whose_rules_the_sink_would_break_is_refused(
    tmp_path: Path, settings: dict[str, str], what: str
) -> None:
    DeltaTable.create(tmp_path / "t", SCHEMA)
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    for entry in entries:
        if "metaData" in entry:
            entry["metaData"]["configuration"] |= settings
        if "protocol" in entry and "feature" in what:
            features = {"minWriterVersion": 7, "writerFeatures": ["rowTracking", "domainMetadata"]}
            entry["protocol"] |= features
    log.write_text("\n".join(map(json.dumps, entries)))
    with pytest.raises(rh.ConfigurationError, match=f"{what}.*which the sink does not support"):
        Job(tmp_path / "t")


def test_a_table_with_constraints_is_refused(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", SCHEMA)
    table.alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(rh.ConfigurationError, match=r"the setting delta\.constraints\.positive"):
        Job(tmp_path / "t")


# --- statistics -------------------------------------------------------------------------------------


def test_bounds_let_readers_skip_files_and_no_rows(tmp_path: Path) -> None:
    schema = pa.schema(
        {
            "n": pa.int64(),
            "x": pa.float64(),
            "text": pa.string(),
            "day": pa.date32(),
            "at": pa.timestamp("us", "UTC"),
            "ok": pa.bool_(),
            "none": pa.string(),
            "inner": pa.struct({"n": pa.int64()}),
        }
    )
    at = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
    rows = [
        {"n": n, "x": float("nan"), "text": "y" * n, "day": date(2026, 3, 1), "at": at, "ok": True}
        for n in (1, 70)
    ]
    job = Job(tmp_path / "t", schema)
    job.commit(job.stage_rows([*rows, {"n": None, "inner": {"n": 1}}]))

    statistics = json.loads(staged_statistics(job))
    assert statistics == {
        "numRecords": 3,
        "minValues": {"n": 1, "day": "2026-03-01", "at": "2026-03-01T12:00:00.123Z"},
        "maxValues": {"n": 70, "day": "2026-03-01", "at": "2026-03-01T12:00:00.124Z"},
        "nullCount": {"n": 1, "x": 1, "text": 1, "day": 1, "at": 1, "ok": 1, "none": 3},
    }

    table = pl.scan_delta(str(job.table))
    for found, count in (
        (pl.col("n") == 70, 1),
        (pl.col("n") > 70, 0),
        (pl.col("at") == at, 2),
        (pl.col("x").is_nan(), 2),
        (pl.col("text") == "y" * 70, 1),
        (pl.col("day") == date(2026, 3, 1), 2),
        (pl.col("none").is_null(), 3),
    ):
        assert table.filter(found).collect().height == count


def staged_statistics(job: Job) -> str:
    log = (job.table / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    [stats] = [json.loads(line)["add"]["stats"] for line in log if "add" in json.loads(line)]
    return str(stats)


# --- object stores ------------------------------------------------------------------------------------


def test_a_table_on_s3_has_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with new_bucket("moto", tmp_path, monkeypatch) as bucket:
        job = Job(f"{bucket}/t", partition_by=["k"])  # type: ignore[arg-type]
        first, second = job.stage(1), job.stage(2, 3)
        assert job.sink.target is not None
        log = DeltaLog(job.sink.target, "sink", "job")
        staged = [msgspec.msgpack.decode(each, type=StagedDataFile) for each in first]
        action = Append(log.look(), tuple(staged), 1)
        log.append(action)
        with pytest.raises(UncertainAppendError):  # DL2: the store refuses a version that exists.
            log.append(action)
        job.commit(second)
        job.commit(second)
        assert job.numbers() == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.proves(
    "HDFS",
    faults=["the NameNode is killed"],
    slow_because="every run has the same jobs on local disk, and files on HDFS",
)
def test_a_table_on_hdfs_has_each_row_once(hdfs: HadoopCluster, tmp_path: Path) -> None:
    url = f"{hdfs.url}/lake/{tmp_path.name}"
    for rows in ([1, 2], [2, 3]):
        env = rh.Environment(2, runtime="simulated")
        stream = env.from_source(rh.collection([{"n": n, "k": "k"} for n in rows]))
        stream.sink_to(rh.delta.sink(f"{url}/newest", key="n"))
        env.execute("rows into a table")
    job = Job(f"{url}/t", partition_by=["k"])  # type: ignore[arg-type]
    staged = job.stage(1)
    hdfs.name_node.kill()
    with pytest.raises(UnavailableError):
        job.commit(staged)
    hdfs.name_node.start()

    def committed() -> bool:
        try:
            job.commit(staged)
        except UnavailableError:  # It is in safe mode at first.
            return False
        return True

    wait_for(committed, 120)
    job.commit(staged)
    for name, expected in (("t", [1]), ("newest", [1, 2, 3])):
        found = check_source(rh.delta.source(f"{url}/{name}"), positions=1)
        assert sorted(row["n"] for of_split in found.values() for row in of_split) == expected
