"""CP33: an impossible acknowledgement of a worker is refused. Otherwise the log would keep it, and
files that it names would be read, published or deleted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rheos.connectors import files
from rheos.connectors.files.publication.contract import FileCommittable
from rheos.connectors.files.publication.rename_publication import STAGING
from rheos.core.checkpoint.acknowledgements import problem
from rheos.core.checkpoint.events import StopAttempt, Tick
from rheos.core.checkpoint.lifecycle import LifecycleState
from rheos.core.checkpoint.log import JobLog
from rheos.core.errors import CheckpointError, UnrestorableError
from rheos.core.protocol import sealed_files
from rheos.core.protocol.control import Acknowledge, CommittableHandle
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.runtimes.simulated.store import MemoryStore
from tests.core.checkpoint.timelines import (
    SHAPE,
    SINK,
    Timeline,
    acknowledge,
    completed,
    file,
    handle,
    saved,
)


def changed(**fields: object) -> Acknowledge:
    return msgspec.structs.replace(acknowledge(0, 1), **fields)


def wrong(share: Acknowledge) -> str | None:
    return problem(share, SHAPE.operators.keys(), SHAPE.parallelism, "job/state")


def test_valid_acknowledgements_are_accepted() -> None:
    assert wrong(acknowledge(1, 1)) is None
    assert wrong(acknowledge(1, 1, savepoint=True)) is None


@pytest.mark.parametrize(
    ("share", "why"),
    [
        (acknowledge(0, 1, paths=("another/state/1/1/count/0-a",)), "which is not a state file below"),
        (
            acknowledge(0, 1, paths=("job/state/../log/0000000001.json",)),
            "which is not a state file below",
        ),
        (acknowledge(0, 1, paths=("/etc/passwd",)), "which is not a state file below"),
        (changed(handles=[handle(file(1, 1, 0), subtask=7)]), "belongs to subtask 7, but the"),
        (changed(handles=[handle(inline=b"x", size_bytes=-1)]), "rows in -1 bytes"),
        (changed(handles=[handle(file(1, 1, 0), operator="spy")]), "no operator 'spy'"),
        (changed(committables=[CommittableHandle(OperatorId("spy"), b"")]), "no operator 'spy'"),
        (changed(savepoint_handles=[handle(file(1, 1, 0))]), "not a state file below 'state'"),
        (
            changed(savepoint_handles=[msgspec.structs.replace(saved(0), path="state/../x")]),
            "not a state file below 'state'",
        ),
    ],
)
def test_impossible_acknowledgements_are_refused(share: Acknowledge, why: str) -> None:
    assert why in (wrong(share) or "")


def test_the_attempt_fails_and_nothing_is_logged_or_deleted() -> None:
    time = Timeline().runs()
    time.at(1000, Tick(), acknowledge(0, 1))
    refused = acknowledge(1, 1, paths=("another/state/1/1/count/0-counts.arrow",))
    assert time.at(1000, refused) == [StopAttempt(Attempt(1))]
    assert time.coordinator.state is LifecycleState.STOPPING
    error = time.coordinator.last_error
    assert isinstance(error, CheckpointError)
    assert "the acknowledgement of checkpoint 1 by subtask 1 is rejected" in error.what


def test_an_entry_that_could_not_be_read_back_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    log = JobLog(store, JobId("job"))
    [claim] = Timeline().runs().log
    assert log.append(1, claim)
    large = msgspec.structs.replace(completed(1), committables=[CommittableHandle(SINK, bytes(10_000))])
    monkeypatch.setattr(sealed_files, "MAX_BYTES", 10_000)
    with pytest.raises(CheckpointError, match=r"the log entry 2 would have \d+ bytes"):
        log.append(2, large)
    assert list(store.files) == [log.path(1)]


@pytest.mark.parametrize(
    ("staged", "target"),
    [
        ("kept.parquet", "part-0.parquet"),
        (f"{STAGING}/../kept.parquet", "part-0.parquet"),
        ("/etc/passwd", "part-0.parquet"),
        (f"{STAGING}/job/1/a.parquet", "../part-0.parquet"),
        (f"{STAGING}/job/1/a.parquet", "/part-0.parquet"),
        (f"{STAGING}/job/1/a.parquet", "kept.parquet/"),
    ],
)
def test_a_staged_link_is_not_published(tmp_path: Path, staged: str, target: str) -> None:
    (tmp_path / STAGING / "job" / "1").mkdir(parents=True)
    for name in ("kept.parquet", f"{STAGING}/job/1/a.parquet"):
        (tmp_path / name).write_bytes(b"rows")
    before = sorted(tmp_path.rglob("*"))
    committer = files.sink(tmp_path).committer()
    payload = msgspec.msgpack.encode(FileCommittable(staged, target, 1, 4))
    for refused in (payload, b"", b"\x93\x01\x02\x03"):
        with pytest.raises(UnrestorableError, match="the checkpoint's list of staged"):
            committer.commit([refused])
        with pytest.raises(UnrestorableError, match="the checkpoint's list of staged"):
            committer.abort_stale(JobId("job"), Attempt(2), [refused])
    assert sorted(tmp_path.rglob("*")) == before
