"""The kit notices each rule that a small faulty sink breaks, and names it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors import Attempt, CheckpointId, Committer, JobId, Sink, SinkContext, SinkWriter
from rheos.testing import BrokenRuleError, MemorySink, check_sink
from rheos.testing.connector_kit import sink_rules
from rheos.testing.connector_kit.sink_capability_rules import DECLARES

_names = itertools.count()


@dataclass
class MemoryTarget:
    """Target in memory: pieces by name, first staged and then visible."""

    staged: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    seen: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


class Writing(SinkWriter):
    def __init__(self, shelf: MemoryTarget, ctx: SinkContext) -> None:
        self.shelf = shelf
        self.ctx = ctx
        self.rows: list[dict[str, Any]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.to_pylist()

    def name(self, checkpoint: CheckpointId) -> str:
        return f"{self.ctx.job}/{self.ctx.attempt}/{self.ctx.subtask}-{checkpoint}"

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        rows, self.rows = self.rows, []
        if not rows:
            return []
        self.shelf.staged[self.name(checkpoint)] = rows
        return [self.name(checkpoint).encode()]


@dataclass
class Committing(Committer):
    shelf: MemoryTarget

    def commit(self, committables: Sequence[bytes]) -> None:
        for name in map(bytes.decode, committables):
            if name in self.shelf.staged:
                self.shelf.seen[name] = self.shelf.staged.pop(name)

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        for name in list(self.shelf.staged):
            of_job, attempt, _ = name.split("/")
            if of_job == job and int(attempt) < before and name.encode() not in keep:
                del self.shelf.staged[name]


@dataclass(frozen=True)
class KeepingRules(Sink):
    """Sink that keeps all rules with these parts; each defect below replaces one part."""

    shelf: MemoryTarget
    writing: Callable[[MemoryTarget, SinkContext], SinkWriter] = Writing
    committing: Callable[[MemoryTarget], Committer] = Committing
    in_process = True

    def open(self, ctx: SinkContext) -> SinkWriter:
        return self.writing(self.shelf, ctx)

    def committer(self) -> Committer:
        return self.committing(self.shelf)


def made(sink: Callable[[MemoryTarget], Sink]) -> Any:
    def make(name: str, schema: pa.Schema) -> Any:
        shelf = MemoryTarget()
        return sink(shelf), lambda: itertools.chain(*shelf.seen.values())

    return make


def test_a_correct_sink_supports_all_types() -> None:
    assert len(check_sink(made(KeepingRules))) == 17


# --- writers with a defect --------------------------------------------------------------------------


class ShowsAtOnce(Writing):
    def write(self, batch: pa.RecordBatch) -> None:
        self.shelf.seen[f"{next(_names)}"] = batch.to_pylist()


class LosesTheSecondBatch(Writing):
    def write(self, batch: pa.RecordBatch) -> None:
        self.rows = self.rows or batch.to_pylist()


class NamesByCheckpointAlone(Writing):
    """Writer whose subtasks overwrite each other's files."""

    def name(self, checkpoint: CheckpointId) -> str:
        return f"{self.ctx.job}/{self.ctx.attempt}/{checkpoint}"


class StagesForTheNewest(Writing):
    """Writer with which a zombie overwrites what a newer attempt has staged."""

    def name(self, checkpoint: CheckpointId) -> str:
        others = [name.split("/") for name in self.shelf.staged]
        newest = max([int(of[1]) for of in others if of[0] == self.ctx.job], default=0)
        return f"{self.ctx.job}/{max(newest, self.ctx.attempt)}/{self.ctx.subtask}-{checkpoint}"


class CommitsAtClose(Writing):
    def close(self) -> None:
        if self.rows:
            self.shelf.seen[f"{next(_names)}"] = self.rows


class DeletesPreparedAtClose(Writing):
    def close(self) -> None:
        self.shelf.staged.clear()


class StagesEmptyRows(Writing):
    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self.rows = self.rows or [{}]
        return super().prepare(checkpoint)


class RoundsNumbers(Writing):
    def write(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            rounded = {
                name: int(value) if type(value) is float else value for name, value in row.items()
            }
            self.rows.append(rounded)


# --- committers with a defect -----------------------------------------------------------------------


class CommitsTwice(Committing):
    def commit(self, committables: Sequence[bytes]) -> None:
        for name in map(bytes.decode, committables):
            self.shelf.seen[f"{next(_names)}"] = self.shelf.staged[name]


class AbortsNothingAndCommitsAll(Committing):
    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        self.commit([name.encode() for name in self.shelf.staged])


class AbortsKeptCommittables(Committing):
    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        super().abort_stale(job, before, [])


class AbortsOfAllJobs(Committing):
    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        for other in {name.split("/")[0] for name in self.shelf.staged}:
            super().abort_stale(JobId(other), before, keep)


class AbortsTheNewAttempt(Committing):
    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        super().abort_stale(job, Attempt(before + 1), keep)


class WritesARowAtTheStart(Committing):
    def begin(self) -> None:
        self.shelf.seen[f"{next(_names)}"] = [{"n": 0, "text": "header"}]


class HasInvalidRoom(Writing):
    def has_room(self) -> Any:
        return None


class ForgetsToReturnItself(Committing):
    def of_log(self, log: str) -> Any:
        return log


@dataclass(frozen=True)
class HasNoWriters(KeepingRules):
    max_parallelism = 0


@dataclass(frozen=True)
class ChangesItsTarget(KeepingRules):
    def of_changes(self, key: Sequence[str], delete: str) -> Any:
        return "a sink"


@pytest.mark.parametrize("sink", [HasNoWriters, ChangesItsTarget])
def test_a_faulty_capability_of_a_sink_is_noticed(sink: Any) -> None:
    with pytest.raises(BrokenRuleError, match=DECLARES):
        check_sink(made(sink))


@pytest.mark.parametrize(
    ("defect", "rule"),
    [
        (HasInvalidRoom, DECLARES),
        (ForgetsToReturnItself, DECLARES),
        (ShowsAtOnce, sink_rules.HIDDEN),
        (LosesTheSecondBatch, sink_rules.ARRIVES),
        (NamesByCheckpointAlone, sink_rules.SIDE_BY_SIDE),
        (StagesForTheNewest, sink_rules.FENCED),
        (CommitsAtClose, sink_rules.DROPPED),
        (DeletesPreparedAtClose, sink_rules.OUTLIVES),
        (StagesEmptyRows, sink_rules.EMPTY),
        (RoundsNumbers, sink_rules.TYPES),
        (CommitsTwice, sink_rules.AGAIN),
        (AbortsNothingAndCommitsAll, sink_rules.KEPT),
        (AbortsKeptCommittables, sink_rules.KEPT),
        (AbortsOfAllJobs, sink_rules.OTHERS),
        (AbortsTheNewAttempt, sink_rules.OTHERS),
        (WritesARowAtTheStart, sink_rules.BEGUN),
    ],
)
def test_a_defect_is_noticed(defect: Any, rule: str) -> None:
    part = "writing" if issubclass(defect, Writing) else "committing"
    with pytest.raises(BrokenRuleError) as failure:
        check_sink(made(lambda shelf: KeepingRules(shelf, **{part: defect})))
    assert str(failure.value).startswith(f"{rule}: ")


def test_a_failure_states_what_the_target_lacks() -> None:
    with pytest.raises(BrokenRuleError) as failure:
        check_sink(made(lambda shelf: KeepingRules(shelf, writing=LosesTheSecondBatch)))
    assert str(failure.value) == (
        "rows become visible when their checkpoint is committed, each once: "
        "after the first checkpoint the target lacks {'n': 2, 'text': ''}, {'n': "
        "3, 'text': 'a \"quoted\" one'}"
    )


def test_an_unpicklable_sink_is_noticed() -> None:
    class Connected(MemorySink):
        in_process = False

    with pytest.raises(BrokenRuleError, match=f"^{sink_rules.SENT}: "):
        check_sink(lambda name, schema: (Connected(), lambda: []))


# --- existing sinks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("end", "types"), [("parquet", 17), ("jsonl", 15), ("csv", 12)])
def test_file_sinks_keep_the_rules(tmp_path: Path, end: Any, types: int) -> None:
    def make(name: str, schema: pa.Schema) -> Any:
        return rh.files.sink(tmp_path / name, format=end), lambda: rows_in(tmp_path / name, end, schema)

    taken = check_sink(make)
    assert len(taken) == types


def rows_in(folder: Path, end: str, schema: pa.Schema) -> list[dict[str, Any]]:
    if end == "parquet":
        return pl.read_parquet(folder / "*.parquet").to_arrow().to_pylist()
    from tests.connectors.ports import read_all

    return read_all(rh.files.source(str(folder / f"*.{end}"), schema=schema))


def test_the_memory_sink_keeps_the_rules() -> None:
    def make(name: str, schema: pa.Schema) -> Any:
        sink = MemorySink()
        return sink, lambda: sink.target.table(schema)

    assert len(check_sink(make)) == 17
