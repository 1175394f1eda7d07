"""A sink removes old versions of its table, and deletes no file that anybody still needs.

The invariants DL12 and IC12 are in docs/protocols.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

import rheos as rh
from rheos import testing
from rheos.connectors.iceberg import expired_snapshots
from rheos.connectors.table_log.expiry_policy import VersionExpiry
from rheos.connectors.table_log.maintenance_counts import EXPIRED_FILES
from rheos.connectors.table_log.maintenance_policy import policy_of
from tests.connectors.delta.test_sink import SCHEMA
from tests.connectors.iceberg import test_sink as iceberg
from tests.connectors.table_log.test_compaction import DeltaLake, IcebergLake, Lake, count_of

AT_ONCE = VersionExpiry(every=1, older_than_ms=0, keep=2)
COMPACTING = rh.compaction(files=2, every=1)


class DeltaVersions(DeltaLake):
    def begin(self, **settings: Any) -> Any:
        DeltaTable.create(
            self.folder / "t",
            SCHEMA,
            mode="ignore",
            partition_by=settings.get("partition_by"),
            configuration={"delta.deletedFileRetentionDuration": "interval 0 hours"},
        )
        return super().begin(**settings)

    def read_retained(self) -> None:
        newest = DeltaTable(self.folder / "t").version()
        for version in (newest, newest - 1):
            DeltaTable(self.folder / "t", version=version).to_pyarrow_table()


class IcebergVersions(IcebergLake):
    def read_retained(self) -> None:
        table = iceberg.table(self.folder)
        for snapshot in table.metadata.snapshots:
            table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


@pytest.fixture(params=[DeltaVersions, IcebergVersions], ids=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path)


def files_in(lake: Lake) -> set[str]:
    return {str(path) for path in lake.folder.rglob("*.parquet")}


def test_files_of_old_versions_are_deleted(lake: Any) -> None:
    job = lake.begin(compact=COMPACTING, expire=AT_ONCE, partition_by=["k"])
    before = count_of(job, EXPIRED_FILES)
    job.checkpoint = 50
    late = job.stage_rows([{"n": 100, "k": "a/b %20"}])
    job.checkpoint = 0
    for n in range(6):
        job.checkpoint += 1
        job.commit(job.stage_rows([{"n": n, "k": "a/b %20"}]))
        lake.read_retained()
    assert count_of(job, EXPIRED_FILES) - before > 4
    assert len(files_in(lake)) < 8, "12 files were written"
    assert lake.paths() <= files_in(lake)
    assert job.numbers() == list(range(6))
    job.commit(late)
    assert job.numbers() == [*range(6), 100]


def test_a_longer_retention_of_the_table_is_respected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = DeltaLake(tmp_path).begin(compact=COMPACTING, expire=AT_ONCE)
    for n in range(3):
        job.commit(job.stage(n))
    assert "were not removed" in caplog.text
    assert len(files_in(DeltaLake(tmp_path))) > 3


def test_a_table_may_forbid_expiry(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = IcebergVersions(tmp_path)
    job = lake.begin(compact=None)
    job.commit(job.stage(1))
    with iceberg.table(tmp_path).transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    job = lake.begin(compact=None, expire=VersionExpiry(every=1, older_than_ms=0, keep=1))
    job.checkpoint = 1
    job.commit(job.stage(2))
    assert "gc.enabled=false" in caplog.text
    assert len(iceberg.table(tmp_path).metadata.snapshots) == 2


def test_tags_and_marks_of_sinks_are_kept(tmp_path: Path) -> None:
    """IC6: the number of a sink whose property was removed is in its newest snapshot."""
    lake = IcebergVersions(tmp_path)
    other = lake.begin(compact=None)
    for n in range(3):
        other.commit(other.stage(n))
    table = iceberg.table(tmp_path)
    marked = table.current_snapshot().snapshot_id
    tagged = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_tag(tagged, "first").commit()
    with table.transaction() as change:
        change.remove_properties(*[name for name in table.properties if name.startswith("rheos.")])
    for n in range(10, 13):
        lake.append(n)
    metadata = iceberg.table(tmp_path).metadata
    policy = VersionExpiry(every=1, older_than_ms=0, keep=1)
    expired = {each.snapshot_id for each in expired_snapshots._expired(metadata, policy, 2**50)}
    assert len(expired) == 3
    assert not {marked, tagged, metadata.current_snapshot_id} & expired
    young = VersionExpiry(every=1, older_than_ms=2**50, keep=1)
    assert expired_snapshots._expired(metadata, young, 2**50) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_histories_lose_nothing(lake: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other writers append and delete between all steps of an expiry, and crashes end some."""
    random, expected = Random(seed), set()
    job = lake.begin(compact=COMPACTING, expire=VersionExpiry(every=1, older_than_ms=0, keep=3))
    listed: list[bytes] = []
    for n in range(14):
        listed += job.stage(n)
        expected.add(n)
        if random.random() < 0.3:
            continue  # The checkpoint is published with the next one.
        job.commit(listed)
        listed = []
        if random.random() < 0.4:
            lake.append(n + 100)
            expected.add(n + 100)
        if random.random() < 0.3:
            lake.delete(gone := random.choice(sorted(expected & set(job.numbers()))))
            expected.discard(gone)
        lake.read_retained()
    job.commit([*listed, *job.stage(99)])
    assert set(job.numbers()) == expected | {99}
    assert lake.paths() <= files_in(lake)


def test_a_wrong_policy_is_refused() -> None:
    for settings, what in (
        ({"older_than": "5m"}, "older_than='5m' is less than an hour"),
        ({"keep": 0}, "keep=0 is not an integer"),
        ({"every": 1.5}, "every=1.5 is not an integer"),
    ):
        with pytest.raises(rh.ProgramError, match=what):
            rh.expiry(**settings)
    assert policy_of(VersionExpiry, rh.expiry, "expire", {"keep": "3"}) == rh.expiry(keep=3)
    with pytest.raises(rh.ProgramError, match="expire has no setting 'keeps'"):
        rh.delta.sink("t", expire={"keeps": "3"})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_crashes_compacts_and_expires(lake: Any, seed: int) -> None:
    """Slots and drivers crash. Each row is in the table once, and each retained version can be read."""
    prepared = lake.begin(compact=COMPACTING, expire=AT_ONCE).sink

    def numbers(env: rh.Environment) -> rh.DataStream:
        source = rh.generator(lambda block: {"n": block.index()}, count=400, rate_per_s=200, splits=1)
        rows = env.from_source(source)
        rows.sink_to(replace(prepared, target=None))
        return rows

    testing.simulate(numbers, seed=seed, faults=testing.Faults(crash_slot=1.0, crash_driver=0.5))
    assert lake.begin().numbers() == list(range(400))
    assert True in lake.kinds()
    assert lake.paths() <= files_in(lake)
    lake.read_retained()
