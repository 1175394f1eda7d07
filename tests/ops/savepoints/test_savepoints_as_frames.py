"""Savepoints are read as DataFrames, changed, and used to start a job: on Spark, with the golden
savepoint."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.core.checkpoint.savepoint import read_savepoint, verify_savepoint
from rheos.core.errors import CheckpointError, ConfigurationError, InputError, SchemaError
from rheos.core.protocol.state_config import Backend
from rheos.ops.savepoints.reading import SavepointFrames
from rheos.runtimes.host.stores import open_store
from tests.compat.programs import released
from tests.compat.test_golden import PLACE, settled, snapshot, whole
from tests.compat.worlds import Kept, begin
from tests.ops.savepoints.goldens import rows_of, unpack

pytestmark = pytest.mark.spark

WRITABLE = [
    ("watch", "seen"),
    ("watch", "least"),
    ("watch", "anything"),
    ("watch", "smalls"),
    ("watch", "counts"),
    ("watch", "spans"),
    ("watch", "timers"),
    ("sums", "reduced"),
    ("row sums", "reduced"),
]


@pytest.fixture(scope="module")
def golden(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> SavepointFrames:
    return rh.savepoint(spark, unpack(tmp_path_factory.mktemp("golden")))


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def started(folder: str, **more: Any) -> Kept:
    """Start the released program from the savepoint in this folder."""
    store = open_store(folder, make=False)
    files = {f"{PLACE}/{path}": store.get(path) for path in store.list("")}
    kept = snapshot("0.1.0", "savepoint")
    return begin(released, files=files, from_savepoint=PLACE, published=kept.published, **more)


# --- reading ----------------------------------------------------------------------------------------


def test_states_are_listed(golden: SavepointFrames) -> None:
    shown = repr(golden)
    assert "watch     process(Watch)" in shown
    assert "dict[int, Span]" in shown
    [counts] = [info for info in golden.states() if info.state == "counts"]
    assert (counts.kind, dict(counts.key), counts.rows) == ("map", {"k": "string"}, 19)
    assert [info.operator for info in golden.operators()][:3] == ["rows", "watch", "numbered"]


def test_declared_state_is_read(golden: SavepointFrames) -> None:
    seen = {row.k: row.value for row in golden.state("watch", "seen").collect()}
    assert (seen["hot"].events, seen["hot"].total, seen["hot"].span.last) == (56, 1540.0, 220)
    assert seen["hot"].detail.size == "large"
    counts = golden.state("watch", "counts")
    assert rows(counts.where("k = 'hot'")) == [
        ("hot", "kind 0", 32),
        ("hot", "kind 1", 24),
        ("hot", "timers", 39),
    ]
    smalls = golden.state("watch", "smalls").where("k = 'key 1'").orderBy("position").collect()
    assert [row.position for row in smalls] == list(range(30))
    assert sorted(row.value for row in smalls) == sorted(n % 7 for n in range(40, 80) if n % 4)
    domains = golden.state("watch", "timers").groupBy("domain").count()
    assert {row.domain for row in domains.collect()} == {"event", "processing"}


def test_columnar_state_is_read(golden: SavepointFrames) -> None:
    running = {row.k: row for row in golden.state("running", "running").collect()}
    numbers = [n for n in range(40, 80) if n % 4]
    one = running["key 1"]
    assert (one.n, one.total, one.mean) == (30, sum(numbers), sum(numbers) / 30 / 4)
    assert (one.low, one.name) == (0, "key 1")

    totals = golden.state("windows", "totals").collect()
    values = {
        (row.k, row.pane_start): row["values"]
        for row in golden.state("windows", "values.price").collect()
    }
    assert len(totals) == 10
    for row in totals:
        prices = values[row.k, row.pane_start]
        assert (row.rows, row.sum_price) == (len(prices), sum(prices))
        assert (row.mean_price, row.mean_i) == (sum(prices) / len(prices), row.sum_i / row.rows)
        assert (row.pane_end - row.pane_start).total_seconds() == 0.1
    distinct = golden.state("windows", "distinct.small").collect()
    assert {max(row["values"]) for row in distinct} == {row.max_small for row in totals}
    assert golden.state("windows", "sums").count() == 10
    assert golden.state("contents", "rows").where("i = 200 and k = 'hot'").count() == 1
    assert golden.state("numbered", "held").columns == ["k", "i", "small", "price", "at"]
    positions = golden.state("rows", "splits").orderBy("split").collect()
    assert [(row.split, row.position, row.finished) for row in positions] == [
        ("00000", "112", False),
        ("00001", "111", False),
    ]
    assert golden.state("windows", "fired").count() == 2


def test_unknown_states_and_folders_are_refused(
    golden: SavepointFrames, spark: Any, tmp_path: Path
) -> None:
    with pytest.raises(
        ConfigurationError, match=r"no state of an operator 'wach'.*\n.*did you mean 'watch'"
    ):
        golden.state("wach", "seen")
    with pytest.raises(ConfigurationError, match="no state 'sen'") as caught:
        golden.state("watch", "sen")
    assert "did you mean 'seen'" in str(caught.value)
    assert golden.state("process(Watch)", "least").count() == 7
    with pytest.raises(CheckpointError, match="no such folder"):
        rh.savepoint(spark, str(tmp_path / "none"))
    with pytest.raises(CheckpointError, match=r"holds a savepoint\.json"):
        rh.savepoint(spark, str(tmp_path))


def test_a_damaged_file_is_named(spark: Any, tmp_path: Path) -> None:
    folder = unpack(tmp_path / "damaged")
    file = tmp_path / "damaged" / "state" / "watch" / "1-least-0.arrow"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    damaged = rh.savepoint(spark, folder)
    with pytest.raises(Exception, match=r"state/watch/1-least-0\.arrow is damaged"):
        damaged.state("watch", "least").collect()
    target = tmp_path / "new"
    with pytest.raises(CheckpointError, match=r"state/watch/1-least-0\.arrow is damaged"):
        damaged.edit().write(str(target))
    assert [path for path in target.rglob("*") if path.is_file()] == []
    with pytest.raises(CheckpointError, match=r"1 of \d+ parts"):
        damaged.verify()


# --- writing ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rewritten(golden: SavepointFrames, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Read all state that can be written as DataFrames, and replace each state by itself."""
    edit = golden.edit()
    for operator, state in WRITABLE:
        edit = edit.replace(operator, state, golden.state(operator, state))
    return edit.write(str(tmp_path_factory.mktemp("rewritten") / "new"))


def test_a_savepoint_is_rewritten_byte_for_byte(golden: SavepointFrames, rewritten: str) -> None:
    old = read_savepoint(open_store(golden.path), golden.path)
    new = read_savepoint(open_store(rewritten), rewritten)
    verify_savepoint(open_store(rewritten), new, rewritten)
    assert new.id != old.id
    assert new.entry.states == old.entry.states
    assert new.entry.reserved_to == old.entry.reserved_to
    for operator, states in old.entry.states.items():
        for state in states:
            where = (operator, state)
            assert rows_of(rewritten, new.entry.handles, where) == rows_of(
                golden.path, old.entry.handles, where
            ), where


@pytest.mark.parametrize(
    ("parallelism", "backend"),
    [
        (3, Backend.ROCKSDB),
        pytest.param(2, Backend.MEMORY, marks=pytest.mark.slow),
        pytest.param(1, Backend.MEMORY, marks=pytest.mark.slow),
    ],
)
def test_a_job_resumes_from_a_rewritten_savepoint(
    rewritten: str, parallelism: int, backend: Backend
) -> None:
    kept = started(rewritten, parallelism=parallelism, backend=backend)
    kept.world.run()
    assert settled(kept.rows()) == settled(whole(released))


def test_values_are_corrected_and_keys_deleted(
    golden: SavepointFrames, spark: Any, tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    least = golden.state("watch", "least")
    counts = spark.createDataFrame(
        [("hot", "kind 9", 4), ("new", "kind 1", 2)], "k string, map_key string, value int"
    )
    gone = spark.createDataFrame([("key 3",)], "k string")
    edit = (
        golden.edit()
        .update("watch", "least", least.where("k = 'hot'").withColumn("value", f.lit(-5)))
        .update("watch", "counts", counts)
        .update(
            "watch",
            "smalls",
            spark.createDataFrame([("hot", 7, 3)], "k string, position long, value long"),
        )
        .delete("numbered", gone)
        .delete_everywhere(k="key 1")
        .update("watch", "least", spark.createDataFrame([("key 1", 9)], "k string, value long"))
        .drop("contents")
    )
    folder = edit.write(str(tmp_path / "new"))
    new = rh.savepoint(spark, folder)
    new.verify()

    before = {row.k: row.value for row in least.collect()}
    after = {row.k: row.value for row in new.state("watch", "least").collect()}
    assert after == before | {"hot": -5, "key 1": 9}
    hot = {row.map_key: row.value for row in new.state("watch", "counts").where("k = 'hot'").collect()}
    assert hot == {"kind 0": 32, "kind 1": 24, "timers": 39, "kind 9": 4}
    assert rows(new.state("watch", "counts").where("k = 'new'")) == [("new", "kind 1", 2)]
    assert rows(new.state("watch", "smalls").where("k = 'hot'")) == [("hot", 0, 3)]
    assert new.state("watch", "smalls").where("k = 'key 2'").count() == 30

    handles = read_savepoint(open_store(folder), folder).entry.handles
    keyed = [info for info in new.states() if info.key and info.rows]
    assert len(keyed) == 16
    for info in keyed:
        if (info.operator, info.state) != ("watch", "least"):
            assert "key 1" not in repr(rows_of(folder, handles, (info.operator, info.state))), info
    assert new.state("numbered", "count").where("k = 'key 3'").count() == 0
    assert new.state("watch", "seen").where("k = 'key 3'").count() == 1
    assert "contents" not in [info.operator for info in new.operators()]
    assert golden.state("watch", "least").where("k = 'key 1'").count() == 1, "the old one stays"

    kept = started(folder)
    kept.world.run()
    told = {row["k"]: eval(row["told"]) for row in kept.rows()["watch"]}
    assert told["hot"][6] == -5
    assert dict(told["hot"][9])["kind 9"] == 4
    assert len(told["hot"][8]) == 1 + 90 - 56


def test_rows_that_do_not_fit_are_refused(golden: SavepointFrames, spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame
    edit = golden.edit()
    with pytest.raises(SchemaError, match="value is string, but must be int64"):
        edit.replace("watch", "least", frame([("a", "1")], "k string, value string"))
    with pytest.raises(SchemaError, match="k is missing, string; key is not one of its columns"):
        edit.update("watch", "least", frame([("a", 1)], "key string, value long"))
    with pytest.raises(SchemaError, match="contains content of windows, which cannot be written"):
        edit.replace("windows", "totals", golden.state("windows", "totals"))
    with pytest.raises(SchemaError, match="'user' is not a key column of operator 'watch'"):
        edit.delete("watch", frame([("a",)], "user string"))
    with pytest.raises(ConfigurationError, match=r"no operator .* is keyed by user"):
        edit.delete_everywhere(user=1)
    with pytest.raises(ConfigurationError, match="this edit already drops the operator"):
        edit.drop("watch").delete("watch", frame([("a",)], "k string"))

    target = tmp_path / "new"
    twice = frame([("a", 1), ("a", 2)], "k string, value long")
    with pytest.raises(InputError, match="the same row twice") as caught:
        edit.update("watch", "least", twice).write(str(target))
    assert caught.value.key == "'a'"
    null = frame([(None, 1)], "k string, value long")
    with pytest.raises(InputError, match="the key column 'k' is null"):
        edit.update("watch", "least", null).write(str(target))
    late = golden.state("watch", "seen").selectExpr(
        "k",
        "named_struct('events', 1L, 'total', 1D, 'detail', value.detail, 'span', value.span, "
        "'at', value.at, 'mode', 'sloow') value",
    )
    with pytest.raises(InputError, match="sloow"):
        edit.replace("watch", "seen", late).write(str(target))
    assert [path for path in target.rglob("*") if path.is_file()] == [], "nothing half-written stays"
    with pytest.raises(CheckpointError, match="is not empty"):
        edit.write(golden.path)
    shutil.rmtree(target)
