"""The sink operator and the life of its writer, and union."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.errors import CheckpointError
from rheos.core.operators.sink import SinkOperator, SinkSpec
from rheos.core.operators.union import UnionOperator
from rheos.core.protocol.elements import TS, Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from tests.core.operators.contexts import context

SCHEMA = pa.schema([("n", pa.int64()), (TS, pa.int64())])


@dataclass
class Journal(Sink, Committer):
    """Sink that records its calls."""

    two_phases: bool = True
    notes: list[object] = field(default_factory=list)

    def open(self, ctx: SinkContext) -> SinkWriter:
        self.notes.append(("open", ctx.operator, ctx.name, ctx.subtask, ctx.schema.names))
        return JournalWriter(self)

    def committer(self) -> Committer | None:
        return self if self.two_phases else None

    def commit(self, committables: Sequence[bytes]) -> None:
        self.notes.append(("commit", list(committables)))

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        raise AssertionError("operators abort nothing")


class JournalWriter(SinkWriter):
    def __init__(self, journal: Journal) -> None:
        self._notes = journal.notes

    def write(self, batch: Batch) -> None:
        self._notes.append(("write", batch.to_pydict()))

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        self._notes.append(("prepare", checkpoint))
        return [b"staged"]

    def close(self) -> None:
        self._notes.append("close")


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())] * 2, schema=SCHEMA)


def test_the_methods_of_a_writer_are_called_in_order() -> None:
    journal = Journal()
    op = SinkOperator(context(SCHEMA, {}, subtask=0), SinkSpec(journal))
    op.open({})
    assert list(op.on_batch(0, batch(1, 2))) == []
    assert list(op.on_batch(0, batch())) == []
    snapshot = op.snapshot(CheckpointId(3))
    assert (snapshot.parts, snapshot.committables) == ([], [b"staged"])
    op.commit(snapshot.committables)
    op.close()
    op.close()
    assert journal.notes == [
        ("open", "op", "the operator", 0, ["n"]),
        ("write", {"n": [1, 2]}),
        ("prepare", 3),
        ("commit", [b"staged"]),
        "close",
    ]


def test_a_sink_of_one_phase_commits_nothing() -> None:
    journal = Journal(two_phases=False)
    op = SinkOperator(context(SCHEMA, {}), SinkSpec(journal))
    op.commit([b"x"])
    op.close()
    assert journal.notes == []


class Unwilling(Journal):
    def commit(self, committables: Sequence[bytes]) -> None:
        raise OSError("the disk is full")


def test_an_error_of_a_committer_fails_the_attempt_but_not_the_job() -> None:
    op = SinkOperator(context(SCHEMA, {}), SinkSpec(Unwilling()))
    with pytest.raises(CheckpointError, match="the disk is full") as raised:
        op.commit([b"x"])
    assert (raised.value.operator, str(raised.value.site)) == ("the operator", "program.py:7")


def test_union_passes_batches_of_all_ports() -> None:
    op = UnionOperator(context(SCHEMA, SCHEMA))
    first, second = batch(1), batch(2)
    assert [out.batch for port, b in ((0, first), (1, second)) for out in op.on_batch(port, b)] == [
        first,
        second,
    ]
