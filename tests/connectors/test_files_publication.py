"""A sink's files become visible once, whole, and only with their checkpoint, in each kind of store.

docs/protocols/files-sink.md has the invariants FS1 to FS7.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from rheos.connectors import files
from rheos.connectors.files.committer import FileCommitter
from rheos.connectors.files.publication import s3
from rheos.connectors.files.publication.contract import FileCommittable
from rheos.connectors.files.publication.schemes import PUBLICATIONS, open_publication
from rheos.core.connectors.contract import Committer, SinkWriter
from rheos.core.errors import CheckpointError, UnavailableError, UnrestorableError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from tests.connectors.object_stores import (
    S3,
    Azure,
    Faults,
    Gcs,
    KilledError,
    ObjectStore,
    Renaming,
    Stored,
)
from tests.connectors.ports import batch_of, sink_context

SCHEMA = pa.schema([pa.field("k", pa.string()), pa.field("n", pa.int64(), nullable=False)])
JOB = JobId("job")
EPOCHS = 3
STORES: dict[str, Any] = {"s3": S3, "gs": Gcs, "abfs": Azure, "hdfs": Renaming}


@dataclass
class World:
    """A sink's folder in a store, and the log of the job that writes to it."""

    scheme: str
    store: Any
    partition_by: tuple[str, ...] = ()
    completed: int = 0
    """Number of epochs in the log."""
    newest: tuple[bytes, ...] = ()
    """Committables of the newest epoch in the log, which are committed again after a restart."""
    attempt: int = 0

    @property
    def sink(self) -> files.FileSink:
        url = f"{self.scheme}://bucket/out"
        sink = files.sink(url, format="jsonl", partition_by=self.partition_by)
        return sink.prepared(SCHEMA, (JOB, "out"))

    def writer(self) -> SinkWriter:
        return self.sink.open(sink_context(SCHEMA, attempt=Attempt(self.attempt)))

    def stage_epoch(self) -> list[bytes]:
        """Write the rows of an epoch, and return what commits them."""
        self.attempt = 1
        writer = self.writer()
        writer.write(rows_of(0))
        return writer.prepare(CheckpointId(1))

    def run_attempt(self) -> None:
        """Run until the end, or until a fault kills the process."""
        self.attempt += 1
        committer = self.sink.committer()
        if not self.completed:
            again(lambda: committer.begin())
        self.commit(committer)
        again(lambda: committer.abort_stale(JOB, Attempt(self.attempt), self.newest))
        writer = self.writer()
        for epoch in range(self.completed, EPOCHS):
            writer.write(rows_of(epoch))
            staged = tuple(writer.prepare(CheckpointId(epoch + 1)))
            self.completed, self.newest = epoch + 1, staged
            self.commit(committer)
        writer.write(rows_of(EPOCHS))  # No checkpoint contains these.
        writer.prepare(CheckpointId(EPOCHS + 1))
        writer.close()

    def commit(self, committer: Committer) -> None:
        again(lambda: committer.commit(self.newest))

    def run(self) -> None:
        """Run attempts until one ends, then one more that only cleans up."""
        while True:
            try:
                self.run_attempt()
                break
            except (KilledError, UnavailableError, ConnectionError):
                assert self.attempt < 5
        self.attempt += 1
        self.store.faults.at = None
        self.sink.committer().abort_stale(JOB, Attempt(self.attempt), ())

    def visible(self) -> list[int]:
        """Return the rows that a reader of the folder sees."""
        return sorted(
            json.loads(line)["n"]
            for key, stored in self.store.objects.items()
            if "/." not in key
            for line in stored.data.splitlines()
        )


def again(work: Any) -> None:
    """Do as the driver does: repeat a commit that failed because the store did not answer."""
    for _ in range(3):
        try:
            return work()
        except (UnavailableError, ConnectionError):
            continue
    raise AssertionError("the store answers again")


def rows_of(epoch: int) -> pa.RecordBatch:
    rows = [{"k": "ab"[n % 2], "n": n} for n in range(epoch * 4, epoch * 4 + 4)]
    return batch_of(SCHEMA, *rows)


COMMITTED = list(range(EPOCHS * 4))


@pytest.fixture
def url_to_fs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stores by scheme, as the sink opens them."""
    stores: dict[str, Any] = {}

    def opened(url: str, **options: Any) -> tuple[Any, str]:
        scheme, _, path = url.partition("://")
        return stores[scheme], path

    monkeypatch.setattr("rheos.connectors.files.folder.url_to_fs", opened)
    return stores


def world(scheme: str, stores: dict[str, Any], faults: Faults | None = None, *columns: str) -> World:
    stores[scheme] = STORES[scheme](faults or Faults())
    return World(scheme, stores[scheme], columns)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("columns", [(), ("k",)], ids=["whole", "partitions"])
@pytest.mark.parametrize("scheme", STORES)
@pytest.mark.parametrize("error", [KilledError, ConnectionError], ids=["killed", "no answer"])
def test_rows_are_visible_once_after_any_failed_request(
    url_to_fs: dict[str, Any], scheme: str, error: Any, columns: tuple[str, ...]
) -> None:
    quiet = world(scheme, url_to_fs, None, *columns)
    quiet.run()
    assert quiet.visible() == COMMITTED
    assert quiet.store.leftovers() == []
    for number in range(1, quiet.store.faults.requests + 1):
        for moment in ("before", "after"):
            faults = Faults(number, moment, error)
            struck = world(scheme, url_to_fs, faults, *columns)
            struck.run()
            assert struck.visible() == COMMITTED, (number, moment)
            assert struck.store.leftovers() == [], (number, moment)


@pytest.mark.parametrize("scheme", STORES)
def test_nothing_is_visible_before_the_commit(url_to_fs: dict[str, Any], scheme: str) -> None:
    one = world(scheme, url_to_fs)
    staged = one.stage_epoch()
    assert one.visible() == []
    one.sink.committer().commit(staged)
    assert one.visible() == list(range(4))


@pytest.mark.parametrize("scheme", STORES)
def test_an_object_of_somebody_else_is_never_overwritten(
    url_to_fs: dict[str, Any], scheme: str
) -> None:
    one = world(scheme, url_to_fs)
    staged = one.stage_epoch()
    target = msgspec.msgpack.decode(staged[0], type=FileCommittable).target
    if isinstance(one.store, ObjectStore):
        one.store.objects[f"bucket/out/{target}"] = Stored(b'{"n": 99}\n')
    else:
        one.store.pipe_file(f"bucket/out/{target}", b'{"n": 99}\n')
    with pytest.raises(CheckpointError, match="exists already, but this run did not write it"):
        one.sink.committer().commit(staged)
    assert one.visible() == [99]


@pytest.mark.parametrize("scheme", [scheme for scheme in STORES if scheme != "abfs"])
def test_a_file_that_somebody_removed_is_reported_as_lost(
    url_to_fs: dict[str, Any], scheme: str
) -> None:
    one = world(scheme, url_to_fs)
    staged = one.stage_epoch()
    one.sink.committer().abort_stale(JOB, Attempt(2), ())
    with pytest.raises(UnrestorableError, match=r"4 rows. is lost"):
        one.sink.committer().commit(staged)


def test_blocks_that_azure_removed_are_reported_as_lost(url_to_fs: dict[str, Any]) -> None:
    one = world("abfs", url_to_fs)
    staged = one.stage_epoch()
    one.store.blocks.clear()
    with pytest.raises(UnrestorableError, match="is lost"):
        one.sink.committer().commit(staged)


@pytest.mark.parametrize("scheme", ["s3", "gs", "abfs"])
@pytest.mark.parametrize("upload", [b"", b"\xc1", b"\x93", msgspec.msgpack.encode([1, 2, 3])])
def test_a_damaged_upload_is_refused(url_to_fs: dict[str, Any], scheme: str, upload: bytes) -> None:
    one = world(scheme, url_to_fs)
    file = FileCommittable(".rheos-staging/job/1/a", "a", 1, 1, upload)
    with pytest.raises(UnrestorableError, match="damaged"):
        one.sink.committer().commit([msgspec.msgpack.encode(file)])


def test_other_sinks_uploads_are_not_aborted(url_to_fs: dict[str, Any]) -> None:
    one = world("s3", url_to_fs)
    one.attempt = 1
    one.writer().write(rows_of(0))
    foreign = one.store.call_s3(
        "create_multipart_upload", Bucket="bucket", Key="out/somebody.parquet", Metadata={}
    )["UploadId"]
    one.sink.committer().abort_stale(JOB, Attempt(9), ())
    assert list(one.store.uploads) == [foreign]


def test_a_large_file_has_many_parts(
    url_to_fs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "PART_BYTES", 10)
    one = world("s3", url_to_fs)
    publication = open_publication("s3://bucket/out")
    file = publication.create(".rheos-staging/job/1/a", "a")
    for n in range(30):
        file.write(b"%07d" % n)
    file.close()
    assert len(msgspec.msgpack.decode(file.upload, type=s3.S3Upload).etags) == 21
    publication.publish(FileCommittable(".rheos-staging/job/1/a", "a", 1, file.tell(), file.upload))
    assert one.store.objects["bucket/out/a"].data == b"".join(b"%07d" % n for n in range(30))


def test_each_scheme_has_a_publication(url_to_fs: dict[str, Any]) -> None:
    for scheme in PUBLICATIONS:
        if scheme not in ("file", "local", "memory"):
            url_to_fs[scheme] = S3(Faults())
            assert open_publication(f"{scheme}://bucket/out").folder.root == "bucket/out"


def test_files_of_a_table_are_whole_files_in_every_store(url_to_fs: dict[str, Any]) -> None:
    one = world("s3", url_to_fs)
    staged = ".rheos-staging/job/{}/a.parquet"
    for attempt in (1, 2):
        one.store.pipe_file("bucket/out/" + staged.format(attempt), b"rows")
    kept = msgspec.msgpack.encode(FileCommittable(staged.format(2), "a.parquet", 1, 4))
    committer = FileCommitter("s3://bucket/out", by_rename=True)
    committer.abort_stale(JOB, Attempt(3), [kept])
    assert list(one.store.objects) == ["bucket/out/" + staged.format(2)]
