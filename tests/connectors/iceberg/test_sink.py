"""An Iceberg table has each row once, whatever fails, and is read by other libraries.

The invariants IC1 to IC7 are in docs/protocols/iceberg-sink.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServerError

import rheos as rh
from rheos import testing
from rheos.connectors.iceberg.iceberg_log import IcebergLog
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.core.connectors.contract import Committer
from rheos.core.errors import CheckpointError, UnavailableError, UnrestorableError
from rheos.core.protocol.ids import Attempt, CheckpointId
from rheos.testing import check_sink
from tests.api.programs import refused
from tests.connectors.killed_jobs import run_with_kills
from tests.connectors.ports import sink_context

SCHEMA = pa.schema({"n": pa.int64(), "k": pa.string()})
RUNTIMES = [
    "simulated",
    pytest.param("batch", marks=pytest.mark.spark),
    pytest.param("continuous", marks=pytest.mark.spark),
]
NAME = "shop.t"


def lake(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder)}


def write(folder: Path, rows: Any, runtime: str = "simulated", **settings: Any) -> None:
    env = rh.Environment(2, runtime=runtime)  # type: ignore[arg-type]
    sink = rh.iceberg.sink(NAME, catalog=lake(folder), **settings)
    env.from_source(rh.collection(rows)).sink_to(sink, name="table")
    env.execute("rows into a table")


def table(folder: Path, name: str = NAME) -> Any:
    return load_catalog("default", **lake(folder)).load_table(name)


def read(folder: Path, name: str = NAME) -> list[dict[str, Any]]:
    return table(folder, name).scan().to_arrow().sort_by("n").to_pylist()  # type: ignore[no-any-return]


# --- whole jobs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_table_is_created_and_appended_to(runtime: str, tmp_path: Path) -> None:
    rows = [
        {"n": n, "k": ["a/b %20", "é語", "", None][n % 4], "at": datetime(2026, 3, 1 + n, 5)}
        for n in range(8)
    ]
    write(tmp_path, rows[:5], runtime, partition_by=["k", "day(at)", "bucket[4](n)", "truncate[1](k)"])
    write(tmp_path, rows[5:], runtime)
    assert read(tmp_path) == rows
    found = table(tmp_path)
    of_job = [s for s in found.metadata.snapshots if "rheos.job" in s.summary.additional_properties]
    assert len(of_job) == len(found.metadata.snapshots) == 2, "one for each checkpoint with rows"
    for condition, count in (("k = ''", 2), ("k is null", 2), ("at >= '2026-03-07T00:00:00'", 2)):
        scan = found.scan(row_filter=condition)
        assert (len(list(scan.plan_files())), scan.to_arrow().num_rows) == (count, count), condition


def test_each_row_is_in_the_table_once_after_crashes(tmp_path: Path) -> None:
    def numbers(env: rh.Environment) -> rh.DataStream:
        source = rh.generator(lambda block: {"n": block.index()}, count=100, rate_per_s=50, splits=1)
        rows = env.from_source(source)
        rows.sink_to(rh.iceberg.sink(f"shop.t{seed}", catalog=lake(tmp_path)))
        return rows

    for seed in range(2):
        testing.simulate(numbers, seed=seed, faults=testing.Faults(crash_slot=1.0, crash_driver=0.5))
        assert [row["n"] for row in read(tmp_path, f"shop.t{seed}")] == list(range(100))


@pytest.mark.spark
@pytest.mark.slow
def test_tables_are_exact_though_workers_and_driver_are_killed(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()

    def numbers() -> list[int]:
        found = table(tmp_path / "lake", "shop.rows").scan(selected_fields=("n",)).to_arrow()
        return sorted(found["n"].to_pylist())

    job = ("iceberg", tmp_path, str(tmp_path / "lake"))
    expected = run_with_kills(*job, lambda: len(numbers()), die_at=3)
    assert numbers() == expected
    totals = table(tmp_path / "lake", "shop.totals").scan().to_arrow().to_pylist()
    assert {row["k"]: row["n"] for row in totals} == Counter(n % 3 for n in expected)


def test_the_sink_keeps_the_contract(tmp_path: Path) -> None:
    def make(name: str, schema: pa.Schema) -> Any:
        named = f"kit.{name}".replace(" ", "_")
        sink = rh.iceberg.sink(named, catalog=lake(tmp_path))
        return sink, lambda: table(tmp_path, named).scan().to_arrow().cast(schema)

    refused_types = {"duration"}
    assert len(check_sink(make)) == 17 - len(refused_types)


def test_sql_writes_to_a_partitioned_table(tmp_path: Path) -> None:
    env = rh.Environment(2, runtime="simulated")
    numbers = env.from_source(rh.collection([{"n": n, "k": f"k{n % 2}"} for n in range(6)]))
    env.register("numbers", numbers)
    env.sql_script(
        f"""CREATE TABLE lake (n BIGINT, k STRING) WITH ('connector' = 'iceberg', 'table' = '{NAME}',
            'catalog.type' = 'sql', 'catalog.uri' = 'sqlite:///{tmp_path}/catalog.db',
            'catalog.warehouse' = '{tmp_path}', 'partition_by' = 'k, bucket[2](n)');
        INSERT INTO lake SELECT n * 10, k FROM numbers"""
    )
    env.execute("sql into a table")
    assert [row["n"] for row in read(tmp_path)] == [0, 10, 20, 30, 40, 50]
    assert [field.name for field in table(tmp_path).spec().fields] == ["k", "n_bucket_2"]


def test_no_password_of_a_catalog_is_shown() -> None:
    catalog = {"type": "sql", "uri": "postgresql://u:SECRET@h/d", "token": "SECRET"}
    sink = rh.iceberg.sink(NAME, catalog=catalog)
    assert "SECRET" not in repr(sink) + sink.describe()


# --- commits, one by one ----------------------------------------------------------------------------


class Job:
    """A job that stages rows of a table and commits them, by hand."""

    def __init__(self, folder: Path, schema: pa.Schema = SCHEMA, **settings: Any) -> None:
        self.folder = folder
        self.catalog = settings.setdefault("catalog", lake(folder))
        sink = rh.iceberg.sink(NAME, **settings)
        sink.validate(schema)
        self.sink = sink.prepared(schema, ("job", "table"))
        self.schema = schema
        self.writer = self.sink.open(sink_context(schema))
        self.checkpoint = 0

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

    def table(self) -> Any:
        return load_catalog("default", **self.catalog).load_table(NAME)

    def numbers(self) -> list[int]:
        return self.table().scan().to_arrow().sort_by("n")["n"].to_pylist()  # type: ignore[no-any-return]

    def write_elsewhere(self, *numbers: int) -> None:
        rows = pa.table({"n": list(numbers), "k": ["x"] * len(numbers)}, SCHEMA)
        self.table().append(rows)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def expire_all_but_the_newest(job: Job) -> None:
    found = job.table()
    newest = found.current_snapshot().snapshot_id
    old = [each.snapshot_id for each in found.metadata.snapshots if each.snapshot_id != newest]
    found.maintenance.expire_snapshots().by_ids(old).commit()


def test_a_foreign_write_between_look_and_append_is_kept(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, foreign = IcebergLog.append, iter([100])

    def late(log: IcebergLog, action: Any) -> None:
        for n in foreign:
            job.write_elsewhere(n)
        append(log, action)

    monkeypatch.setattr(IcebergLog, "append", late)
    job.commit(job.stage(1, 2))
    assert job.numbers() == [1, 2, 100]


def test_another_driver_between_look_and_append_leaves_nothing_to_append(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IC3: the library's own retry would append the same files to the newer snapshot."""
    append, commits = IcebergLog.append, iter([True])
    staged = job.stage(1)

    def late(log: IcebergLog, action: Any) -> None:
        for _ in commits:
            append(log, action)
        append(log, action)

    monkeypatch.setattr(IcebergLog, "append", late)
    job.commit(staged)
    assert job.numbers() == [1]
    assert len(job.table().metadata.snapshots) == 1


@pytest.mark.parametrize("error", [OSError("connection closed"), TimeoutError("no answer"), None])
def test_a_commit_whose_answer_was_lost_is_not_repeated(
    job: Job, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    from pyiceberg.exceptions import CommitFailedException

    commit_table, lost = SqlCatalog.commit_table, []

    def loses_the_answer(catalog: Any, *args: Any, **settings: Any) -> Any:
        commit_table(catalog, *args, **settings)
        lost.append(True)
        # A proxy that sends a request twice receives a conflict as the second answer.
        raise error or CommitFailedException("main has changed")

    staged = job.stage(1)
    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "commit_table", loses_the_answer)
        job.commit(staged)
    assert lost == [True]
    assert job.numbers() == [1]
    job.commit(job.stage(2))  # The files of the first snapshot still exist.
    assert job.numbers() == [1, 2]


def test_a_checkpoint_is_found_after_its_snapshot_has_expired(job: Job) -> None:
    """IC6."""
    staged = job.stage(1)
    job.commit(staged)
    job.write_elsewhere(100)
    expire_all_but_the_newest(job)
    job.commit(staged)
    assert job.numbers() == [1, 100]


def test_a_checkpoint_is_found_without_its_property(job: Job) -> None:
    """IC6."""
    staged = job.stage(1)
    job.commit(staged)
    job.write_elsewhere(100)
    written = [key for key in job.table().properties if key.startswith("rheos.")]
    assert len(written) == 1
    with job.table().transaction() as transaction:
        transaction.remove_properties(*written)
    job.commit(staged)
    assert job.numbers() == [1, 100]


def test_deleted_and_rewritten_rows_are_not_appended_again(job: Job) -> None:
    staged = job.stage(1, 2)
    job.commit(staged)
    job.table().delete("n = 1")
    job.commit(staged)
    assert job.numbers() == [2]


def test_a_changed_property_is_no_conflict(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    append, changes = IcebergLog.append, iter([True])

    def late(log: IcebergLog, action: Any) -> None:
        for _ in changes:
            with job.table().transaction() as transaction:
                transaction.set_properties({"owner": "someone"})
        append(log, action)

    monkeypatch.setattr(IcebergLog, "append", late)
    job.commit(job.stage(1))
    assert job.numbers() == [1]
    assert job.table().properties["owner"] == "someone"


def test_several_checkpoints_are_one_snapshot_and_a_replaced_driver_appends_nothing(job: Job) -> None:
    first, second = job.stage(1), job.stage(2)
    job.commit([*first, *second])
    job.commit(first)
    assert job.numbers() == [1, 2]
    assert len(job.table().metadata.snapshots) == 1


def test_a_job_with_another_log_has_numbers_of_its_own(job: Job) -> None:
    job.commit(job.stage(1))
    job.checkpoint = 0
    staged = job.stage(2)
    job.committer().of_log("another").commit(staged)  # type: ignore[attr-defined]
    assert job.numbers() == [1, 2]


def test_manifests_are_merged(job: Job) -> None:
    with job.table().transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "3"})
    for n in range(6):
        job.commit(job.stage(n))
    assert job.numbers() == list(range(6))
    assert len(job.table().current_snapshot().manifests(job.table().io)) < 4


def test_closing_removes_open_files_and_a_crash_leaves_others(job: Job) -> None:
    job.commit(job.stage(1))
    job.stage(2)  # Prepared, but no checkpoint has it.
    job.committer().abort_stale(sink_context(SCHEMA).job, Attempt(2), [])
    job.writer.write(pa.RecordBatch.from_pylist([{"n": 3, "k": "k"}], SCHEMA))
    job.writer.close()
    assert len(list(job.folder.rglob("*.parquet"))) == 2
    assert job.numbers() == [1]


# --- what must stop the job ---------------------------------------------------------------------------


def lose_a_file(job: Job) -> None:
    for file in job.folder.rglob("*.parquet"):
        file.unlink()


def drop_the_table(job: Job) -> None:
    load_catalog("default", **lake(job.folder)).drop_table(NAME)


def replace_the_table(job: Job) -> None:
    drop_the_table(job)
    load_catalog("default", **lake(job.folder)).create_table(NAME, SCHEMA)


def drop_a_column(job: Job) -> None:
    with job.table().update_schema() as update:
        update.delete_column("k")


def partition_anew(job: Job) -> None:
    with job.table().update_spec() as update:
        update.add_identity("k")


@pytest.mark.parametrize(
    ("change", "error", "what"),
    [
        (lose_a_file, UnrestorableError, r"\(1 rows\) is lost: the file does not exist"),
        (replace_the_table, UnrestorableError, "was replaced by another one while the job ran"),
        (drop_the_table, CheckpointError, "could not be read or written"),
        (drop_a_column, rh.SchemaError, "the column 'k' was dropped"),
        (partition_anew, rh.SchemaError, "it is partitioned in another way"),
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


def test_files_of_another_table_are_refused(job: Job, tmp_path: Path) -> None:
    [staged] = job.stage(1)
    file = msgspec.structs.replace(msgspec.msgpack.decode(staged, type=StagedDataFile), table="other")
    with pytest.raises(UnrestorableError, match="staged for another"):
        job.commit([msgspec.msgpack.encode(file)])


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (OSError(28, "No space left"), UnavailableError),
        (ServerError("the service is away"), UnavailableError),
        (RuntimeError("no event loop"), CheckpointError),
        (OSError(13, "denied"), CheckpointError),
        (ValueError("no"), CheckpointError),
    ],
)
def test_an_outage_can_be_retried_and_a_refusal_cannot(
    job: Job, monkeypatch: pytest.MonkeyPatch, failure: Exception, error: type[Exception]
) -> None:
    def fails(catalog: Any, *args: Any, **settings: Any) -> None:
        raise failure

    staged = job.stage(1)
    with monkeypatch.context() as patch:
        patch.setattr("rheos.connectors.table_log.epoch_append.PAUSES_MS", (0,))
        patch.setattr(SqlCatalog, "commit_table", fails)
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
    catalog = load_catalog("default", **lake(tmp_path))
    catalog.create_namespace("shop")
    catalog.create_table(NAME, schema)
    refused(
        lambda: write(tmp_path, pa.table({"n": [1], "k": ["a"]}, SCHEMA)),
        rh.SchemaError,
        what,
        "",
        at="sink_to(sink",
    )


@pytest.mark.parametrize(
    ("settings", "error", "what"),
    [
        ({"partition_by": ["day"]}, rh.ProgramError, "names the column 'day'"),
        ({"partition_by": ["week(at)"]}, rh.ProgramError, r"names the column 'week\(at\)'"),
        ({"partition_by": ["k", "k"]}, rh.ProgramError, "names k twice"),
        ({"partition_by": ["day(k)"]}, rh.ConfigurationError, "cannot transform string"),
        ({"partition_by": ["x"]}, rh.SchemaError, "partitioned by x, which the sink does not support"),
        ({"partition_by": "k"}, rh.ProgramError, "is not a list of columns"),
        ({"evolve": "yes"}, rh.ProgramError, "evolve='yes' is neither True nor False"),
        ({"catalog": {"type": "no"}}, rh.ConfigurationError, "could not be inspected or created"),
        ({"catalog": 3}, rh.ProgramError, "neither the name of a catalog nor"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, settings: Any, error: type[rh.RheosError], what: str
) -> None:
    schema = pa.schema({"k": pa.string(), "x": pa.float64(), "at": pa.timestamp("us")})
    with pytest.raises(error, match=what):
        Job(tmp_path, schema, **settings)


@pytest.mark.parametrize("kind", [pa.uint64(), pa.duration("s"), pa.decimal256(40), pa.null()])
def test_types_that_a_table_cannot_store_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    for column in (kind, pa.list_(kind), pa.struct({"x": kind})):
        with pytest.raises(rh.SchemaError, match="which Iceberg tables cannot store"):
            Job(tmp_path, pa.schema({"n": pa.int64(), "x": column}))


def test_values_are_converted_exactly_or_refused(tmp_path: Path) -> None:
    schema = pa.schema(
        {
            "n": pa.uint32(),
            "k": pa.dictionary(pa.int8(), pa.large_string()),
            "at": pa.timestamp("ns", "Europe/Oslo"),
            "price": pa.decimal128(10, 2),
            "day": pa.date32(),
            "tags": pa.list_(pa.struct({"a": pa.int16(), "b": pa.map_(pa.string(), pa.float32())})),
        }
    )
    at = datetime(2026, 3, 1, 12, 0, 0, 7, tzinfo=UTC)
    row = {
        "n": 2**32 - 1,
        "k": "a",
        "at": at,
        "price": Decimal("1.25"),
        "day": date(2026, 3, 1),
        "tags": [{"a": 1, "b": [("x", 0.5)]}],
    }
    job = Job(tmp_path, schema, partition_by=["price", "month(day)", "hour(at)"])
    job.commit(job.stage_rows([row]))
    assert read(tmp_path) == [row]
    [snapshot] = table(tmp_path).metadata.snapshots
    by_duckdb = table(tmp_path).scan().to_duckdb("t")
    assert by_duckdb.sql("SELECT n, price, tags[1].a FROM t").fetchall() == [
        (2**32 - 1, Decimal("1.25"), 1)
    ]
    assert snapshot.summary.additional_properties["rheos.checkpoint"] == "1"
    finer = pa.array([1], pa.timestamp("ns", "Europe/Oslo"))
    nulls = pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in schema], schema=schema)
    with pytest.raises(rh.InputError, match="a value of column 'at' does not fit"):
        job.writer.write(nulls.set_column(2, schema.field("at"), finer))


def test_evolve_adds_columns_and_keeps_rows(tmp_path: Path) -> None:
    write(tmp_path, [{"n": 1}])
    more = [{"n": 2, "at": datetime(2026, 3, 1), "tags": ["a"]}]
    refused(lambda: write(tmp_path, more), rh.SchemaError, "has no column 'at'", "evolve=True")
    write(tmp_path, more, evolve=True)
    write(tmp_path, [{"n": 3}], evolve=True)
    assert read(tmp_path) == [
        {"n": 1, "at": None, "tags": None},
        {"n": 2, "at": datetime(2026, 3, 1), "tags": ["a"]},
        {"n": 3, "at": None, "tags": None},
    ]


def test_evolve_widens_types_and_keeps_rows(tmp_path: Path) -> None:
    """Files from before are read with the new type, also when an upsert rewrites them."""

    def typed(whole: pa.DataType, real: pa.DataType, digits: int, *rows: tuple[Any, ...]) -> pa.Table:
        schema = pa.schema({"n": whole, "x": real, "d": pa.decimal128(digits, 2), "s": pa.string()})
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)

    narrow = typed(pa.int32(), pa.float32(), 5, (1, 0.5, Decimal("1.25"), "a"), (2, 1.5, None, "b"))
    write(tmp_path, narrow)
    big = (1 << 40, 0.1, Decimal("12345678.25"), "c")
    wide = typed(pa.int64(), pa.float64(), 12, big, (2, 2.5, None, "B"))
    refused(lambda: write(tmp_path, wide), rh.SchemaError, "'n'", "cast it")
    for _ in range(2):
        write(tmp_path, wide, evolve=True, key="n")
    write(tmp_path, narrow.slice(0, 0), evolve=True)
    assert [tuple(row.values()) for row in read(tmp_path)] == [
        (1, 0.5, Decimal("1.25"), "a"),
        (2, 2.5, None, "B"),
        big,
    ]
    other_scale = wide.set_column(2, "d", wide["d"].cast(pa.decimal128(15, 3)))
    refused(lambda: write(tmp_path, other_scale, evolve=True), rh.SchemaError, "'d'", "cast it")
    as_text = wide.set_column(3, "s", pa.array([1, 2]))
    refused(lambda: write(tmp_path, as_text, evolve=True), rh.SchemaError, "'s'", "cast it")


def test_columns_are_added_and_renamed_while_the_job_runs(job: Job) -> None:
    staged = job.stage(1)
    with job.table().update_schema() as update:
        update.rename_column("k", "key")
        update.union_by_name(pa.schema({"x": pa.float64()}))
    job.commit(staged)
    assert read(job.folder) == [{"n": 1, "key": "k", "x": None}]


def test_a_table_of_a_later_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = load_catalog("default", **lake(tmp_path))
    catalog.create_namespace("shop")
    catalog.create_table(NAME, SCHEMA)
    monkeypatch.setattr("pyiceberg.table.Table.format_version", 3)
    with pytest.raises(rh.ConfigurationError, match="has format version 3"):
        Job(tmp_path)
