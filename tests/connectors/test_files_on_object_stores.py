"""The files sink, and checkpoints, on servers of object stores.

moto answers as S3 does, and is a Python package. The slow variants run where their programs are
installed: versitygw (S3), fake-gcs-server (Google Cloud Storage), and Azurite.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from rheos.connectors import files
from rheos.connectors.calls.file_systems import url_to_fs
from rheos.core.errors import UnrestorableError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.host.stores import check_writable, open_store
from tests.connectors.ports import batch_of, read_all, sink_context
from tests.connectors.store_servers import each_server, new_bucket

SCHEMA = pa.schema([pa.field("k", pa.string()), pa.field("n", pa.int64(), nullable=False)])
JOB = JobId("job")


@pytest.fixture(
    params=[
        *each_server(),
        pytest.param("hdfs", marks=pytest.mark.proves("HDFS")),
        pytest.param("webhdfs", marks=pytest.mark.proves("HDFS")),
    ]
)
def bucket(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Start a server, and yield the URL of an empty bucket on it."""
    kind = request.param
    if kind in ("hdfs", "webhdfs"):
        cluster = request.getfixturevalue("hdfs")
        folder = f"bucket-{uuid4().hex[:8]}"
        yield f"{cluster.url if kind == 'hdfs' else cluster.web_url}/{folder}"
        return
    with new_bucket(kind, tmp_path, monkeypatch) as url:
        yield url


def rows(*numbers: int) -> pa.RecordBatch:
    return batch_of(SCHEMA, *({"k": "ab"[n % 2], "n": n} for n in numbers))


def visible(url: str) -> list[int]:
    """Return the rows that a reader of the folder sees."""
    system, path = url_to_fs(url)
    system.invalidate_cache()
    shown = [file for file in system.find(path) if "/." not in file]
    lines = [line for file in shown for line in system.cat_file(file).splitlines()]
    return sorted(json.loads(line)["n"] for line in lines)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("columns", [(), ("k",)], ids=["whole", "partitions"])
def test_files_appear_with_their_checkpoint(bucket: str, columns: tuple[str, ...]) -> None:
    url = f"{bucket}/out"
    sink = files.sink(url, format="jsonl", partition_by=columns).prepared(SCHEMA, (JOB, "out"))
    sink.validate(SCHEMA)
    committer = sink.committer()
    committer.check()  # type: ignore[attr-defined]
    committer.begin()  # type: ignore[attr-defined]
    writer = sink.open(sink_context(SCHEMA))
    writer.write(rows(1, 2))
    first = writer.prepare(CheckpointId(1))
    assert visible(url) == []
    committer.commit(first)
    committer.commit(first)
    assert visible(url) == [1, 2]
    writer.write(rows(3))
    second = writer.prepare(CheckpointId(2))
    writer.write(rows(4))
    forgotten = writer.prepare(CheckpointId(3))
    committer.abort_stale(JOB, Attempt(9), second)
    committer.commit(second)
    assert visible(url) == [1, 2, 3]
    if bucket.startswith("gs"):
        with pytest.raises(UnrestorableError):
            committer.commit(forgotten)
    writer.write(rows(5))
    writer.close()
    assert visible(url) == [1, 2, 3]
    found = read_all(files.source(url, schema=SCHEMA, format="jsonl", partition_by=columns))
    assert sorted(found, key=str) == sorted(rows(1, 2, 3).to_pylist(), key=str)


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # By gcsfs.
def test_a_large_parquet_file_arrives_whole(bucket: str) -> None:
    sink = files.sink(f"{bucket}/out", compression="none").prepared(SCHEMA, (JOB, "out"))
    writer = sink.open(sink_context(SCHEMA))
    wide = pa.record_batch(
        [pa.array([f"{n:0400d}" for n in range(50_000)]), pa.array(range(50_000), pa.int64())],
        schema=SCHEMA,
    )
    writer.write(wide)
    sink.committer().commit(writer.prepare(CheckpointId(1)))
    source = files.source(f"{bucket}/out", schema=SCHEMA)
    assert [row["n"] for row in read_all(source)] == list(range(50_000))


def test_checkpoints_can_be_stored(bucket: str) -> None:
    store = open_store(f"{bucket}/checkpoints")
    check_writable(store, bucket)
    assert store.put_if_absent("log/1", b"first")
    assert not store.put_if_absent("log/1", b"second")
    store.put("log/2", b"other")
    assert store.list("log") == ["log/1", "log/2"]
    assert store.get("log/1") == b"first"
    store.delete("log/1")
    assert store.list("log") == ["log/2"]
