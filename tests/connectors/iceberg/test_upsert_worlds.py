"""One job that upserts into a simulated Iceberg table. Other writers write rows with the job's keys,
compact files, expire snapshots and remove properties, between any two steps.

docs/protocols/iceberg-sink.md has the invariants, IC8 and IC9 among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from rheos.connectors.table_log.copy_on_write import CopyOnWrite
from rheos.connectors.table_log.epoch_append import StagedDataFile, UncertainAppendError
from rheos.connectors.table_log.table_files import LiveFile
from rheos.core.errors import UnavailableError
from tests.connectors.delta import test_upsert_worlds as worlds
from tests.connectors.delta.test_append_worlds import SINK, run_all
from tests.connectors.iceberg.simulated_snapshots import SimulatedSnapshots

WORLDS = 100


@dataclass
class KeyedSnapshots(worlds.KeyedRows, SimulatedSnapshots):
    def write_version(
        self, base: int, number: int, removed: Sequence[LiveFile], added: Sequence[StagedDataFile]
    ) -> None:
        if base != self.main:
            raise UncertainAppendError(UnavailableError("main has changed"))
        paths = {file.path for file in removed}
        assert paths <= set(self.snapshots[base].files), "a file is removed that is not there"
        self.commit(SINK, number, {file.path: self.store[file.path] for file in added}, paths)

    def live(self, version: int) -> list[LiveFile]:
        return [LiveFile(path, 1) for path in self.versions[version].files]


class KeptFiles(worlds.Changes):
    """IC7: what was written for an older snapshot is not removed."""

    def drop(self, files: Sequence[StagedDataFile]) -> None:
        pass


class IcebergDriver(worlds.UpsertDriver):
    changes = KeptFiles


class IcebergWorld(worlds.UpsertWorld):
    drivers = IcebergDriver
    tables = KeyedSnapshots


def test_the_table_has_the_newest_row_of_each_key() -> None:
    assert run_all(WORLDS, IcebergWorld) > 9 * WORLDS


@pytest.mark.parametrize(
    "rule", [worlds.KeepsOldWork, worlds.ExaminesNoNewFiles, worlds.WritesChangesAgain]
)
def test_the_worlds_detect_broken_rewriting(
    rule: type[CopyOnWrite], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds, "DeltaFiles", rule)
    with pytest.raises(AssertionError, match="seed"):
        run_all(WORLDS, IcebergWorld)


@pytest.mark.parametrize("rule", [{"with_property": False}, {"in_one_commit": False}])
def test_the_worlds_detect_lost_numbers(rule: dict[str, Any]) -> None:
    class BrokenWorld(IcebergWorld):
        tables = partial(KeyedSnapshots, **rule)

    with pytest.raises(AssertionError, match="seed"):
        run_all(WORLDS, BrokenWorld)
