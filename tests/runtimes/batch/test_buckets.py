"""Keyed rows in the shuffle: packed by ranges of hashes, and sorted afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheos as rh
from rheos.core.errors import InputError, StateError
from rheos.core.plan.physical import Edge, Exchange
from rheos.core.protocol.elements import TS
from rheos.core.protocol.hashing import hash_keys
from rheos.core.protocol.ids import ChainId, JobId
from rheos.runtimes.batch.bounded_plans import bounded_plan
from rheos.runtimes.batch.buckets import BucketOutlet, SortedBuckets, bucket_bits
from rheos.runtimes.batch.keyed_ports import OnePort
from rheos.runtimes.batch.layout import HASH, KEYED, NOTE_BUCKET, payloads
from rheos.runtimes.batch.sorted_runs import Order, SortedRuns
from rheos.runtimes.batch.tasks import RowsOutput

EDGE = Edge(0, Exchange.HASH, ChainId(0), ChainId(1), 0, ("key",))
TIMED = pa.schema([("key", pa.int64()), ("n", pa.int64()), (TS, pa.int64())])
UNTIMED = pa.schema([("key", pa.int64()), ("n", pa.int64())])


def rows(keys: list[int], schema: pa.Schema, first: int = 0) -> pa.RecordBatch:
    """Return rows numbered in order of arrival; times are few, so that many are equal."""
    n = np.arange(first, first + len(keys))
    columns = {"key": np.array(keys, np.int64), "n": n, TS: n * 7 % 5}
    return pa.record_batch([pa.array(columns[name]) for name in schema.names], schema=schema)


def sent(batches: list[pa.RecordBatch], partition: int, at_once: int) -> list[pa.RecordBatch]:
    output = RowsOutput(EDGE, batches[0].schema, bucket_bits=3)
    outlet = BucketOutlet(output, partition, rows_at_once=at_once)
    found = [*outlet.note(b"before")]
    for batch in batches:
        found += outlet.rows(0, batch)
    return [*found, *outlet.finish()]


def received(
    keyed: list[pa.RecordBatch], schema: pa.Schema, folder: Path, budget_bytes: int
) -> list[pa.RecordBatch]:
    """Return the rows as Spark delivers them, in one partition: sorted by bucket and arrival."""
    table = pa.Table.from_batches(keyed, KEYED).sort_by(
        [("bucket", "ascending"), ("arrival", "ascending")]
    )
    keyed_rows = OnePort(0, schema)
    buckets = SortedBuckets(keyed_rows.order, str(folder / "shuffled"), budget_bytes)
    found: list[pa.RecordBatch] = []
    for batch in table.to_batches():
        for bucket, payload in payloads(batch, "bucket"):
            if bucket == NOTE_BUCKET:
                assert not found, "notes come first"
                assert payload.to_pybytes() == b"before"
            else:
                found += buckets.take(bucket, keyed_rows.read(0, payload), payload.size)
    return [*found, *buckets.end()]


@pytest.mark.parametrize("schema", [TIMED, UNTIMED], ids=["timed", "untimed"])
@pytest.mark.parametrize("budget_bytes", [1 << 30, 2_000], ids=["memory", "disk"])
@given(keys=st.lists(st.integers(0, 30), min_size=1, max_size=400), cut=st.integers(1, 400))
def test_rows_are_sorted_by_hash_then_time_then_arrival(
    tmp_path_factory: pytest.TempPathFactory,
    schema: pa.Schema,
    budget_bytes: int,
    keys: list[int],
    cut: int,
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    first = [rows(keys[begin : begin + 50], schema, begin) for begin in range(0, len(keys), 50)]
    second = rows(keys[:cut], schema, len(keys))
    keyed = sent(first, partition=0, at_once=120) + sent([second], partition=1, at_once=1)
    found = pa.Table.from_batches(received(keyed[::-1], schema, folder, budget_bytes)).to_pylist()
    given_rows = pa.Table.from_batches([*first, second])
    hashes = hash_keys([given_rows["key"].combine_chunks()]).view(np.int64)
    expected = [
        {HASH: int(hash), **row} for hash, row in zip(hashes, given_rows.to_pylist(), strict=True)
    ]
    expected.sort(key=lambda row: (row[HASH], row.get(TS, 0), row["n"]))
    assert found == expected
    assert not list(folder.rglob("*.arrow"))


def test_a_hot_key_is_sorted_on_disk_and_emitted_in_pieces(tmp_path: Path) -> None:
    keys = [1] * 100_000
    keyed = sent([rows(keys, TIMED)], partition=0, at_once=1 << 19)
    keyed += sent([rows(keys, TIMED, 100_000)], partition=1, at_once=1 << 19)
    found = received(keyed, TIMED, tmp_path, budget_bytes=1_000)
    assert max(batch.num_rows for batch in found) < 100_000
    numbers = pa.Table.from_batches(found)["n"].to_pylist()
    assert numbers == sorted(range(200_000), key=lambda n: (n * 7 % 5, n))


def test_many_runs_are_merged_in_stages_and_ties_stay_in_order(tmp_path: Path) -> None:
    runs = SortedRuns(Order(("n",)), str(tmp_path))
    schema = pa.schema([("n", pa.int64()), ("run", pa.int64())])
    for run in range(300):
        columns = [pa.array([run % 3, 5, 5, 9]), pa.array([run] * 4)]
        runs.add(pa.record_batch(columns, schema=schema))
        assert len(runs) <= 30
    assert len(list(tmp_path.iterdir())) == len(runs)
    found = pa.Table.from_batches(list(runs.merged())).to_pylist()
    rows = [{"n": n, "run": run} for run in range(300) for n in (run % 3, 5, 5, 9)]
    assert found == sorted(rows, key=lambda row: (row["n"], row["run"]))
    assert not list(tmp_path.iterdir())


def test_only_few_wide_rows_are_in_memory(tmp_path: Path) -> None:
    runs = SortedRuns(Order(("n",)), str(tmp_path))
    for first in (0, 1):
        columns = [pa.array(range(first, 64, 2)), pa.array(["x" * (1 << 20)] * 32)]
        runs.add(pa.record_batch(columns, names=["n", "text"]))
    found = list(runs.merged())
    assert max(batch.num_rows for batch in found) <= 8
    assert [n for batch in found for n in batch.column("n").to_pylist()] == list(range(64))


def test_an_unwritable_disk_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "shuffled").write_text("in the way")
    keyed = sent([rows([1, 2, 3], TIMED)], partition=0, at_once=10)
    with pytest.raises(StateError, match="could not be written") as refused:
        received(keyed, TIMED, tmp_path, budget_bytes=1)
    assert "spark.local.dir" in (refused.value.hint or "")


def test_a_bucket_contains_only_the_dictionary_values_it_uses() -> None:
    texts = [f"{n:01000}" for n in range(1_000)]
    column = pa.array(texts).dictionary_encode()
    schema = pa.schema([("key", pa.int64()), ("text", column.type)])
    batch = pa.record_batch([pa.array(range(1_000)), column], schema=schema)
    output = RowsOutput(EDGE, schema, bucket_bits=9)
    outlet = BucketOutlet(output, partition=0)
    left = [*outlet.rows(0, batch), *outlet.finish()]
    assert sum(keyed.nbytes for keyed in left) < 2_000_000


def test_a_null_key_is_an_error() -> None:
    batch = pa.record_batch([pa.array([1, None]), pa.array([0, 1])], schema=UNTIMED)
    with pytest.raises(InputError, match="the key column 'key' is null"):
        sent([batch], partition=0, at_once=1 << 19)


def test_the_number_of_buckets_follows_partitions_and_columns() -> None:
    partitions = (1, 8, 32, 33, 200, 10_000)
    assert [1 << bucket_bits(n, 5) for n in partitions] == [512, 512, 512, 1024, 4096, 8192]
    assert [1 << bucket_bits(200, columns) for columns in (0, 64, 65, 500)] == [4096, 4096, 2048, 512]


@pytest.mark.spark
@pytest.mark.parametrize(("first", "shuffle", "bits"), [(None, 200, 12), (100, 8, 11), (None, 8, 9)])
def test_sparks_partition_settings_are_used(
    spark: Any, first: int | None, shuffle: int, bits: int
) -> None:
    """Settings may change after the session was created; the current values are used."""
    from rheos.runtimes.batch.dataframes import Translation
    from rheos.runtimes.batch.execution import session_for
    from rheos.runtimes.batch.results import handed_over

    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", str(shuffle))
    if first is not None:
        session.conf.set("spark.sql.adaptive.coalescePartitions.initialPartitionNum", str(first))
    session.conf.set("fs.example.key", "secret")
    env = rh.Environment(1, runtime="batch", spark=session)
    env.from_source(rh.collection([{"n": 1}])).key_by("n").running(n=rh.agg.count()).collect("out")
    outputs = []

    class Spying(Translation):
        def _map(self, frame: Any, entry: str, task: Any) -> Any:
            outputs.append(task.output)
            return super()._map(frame, entry, task)

    ours = session_for(session)
    assert ours.conf.get("fs.example.key") == "secret"
    handed = handed_over(bounded_plan(env.plan()))
    Spying(ours, handed, JobId("job"), 1, 16, keep=lambda _, frame: frame).ends()
    assert [output.bucket_bits for output in outputs if isinstance(output, RowsOutput)] == [bits]
