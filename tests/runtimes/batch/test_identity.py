"""The identity of a batch job in tables: two runs must not share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from rheos.core.connectors.contract import Committer
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.runtimes.batch.runtime import BatchJob, _OperatorCounts


@dataclass
class RecordingCommitter(Committer):
    logs: list[str] = field(default_factory=list)

    def of_log(self, log: str) -> Committer:
        self.logs.append(log)
        return self

    def commit(self, committables: Sequence[bytes]) -> None:
        assert committables == [b"staged"]

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        raise AssertionError("nothing is stale")


def test_two_runs_within_a_second_have_different_identities() -> None:
    committer = RecordingCommitter()
    sink = SimpleNamespace(
        id=OperatorId("sink"),
        spec=SimpleNamespace(sink=SimpleNamespace(committer=lambda: committer)),
    )
    for _ in range(2):
        job: Any = object.__new__(BatchJob)
        job._writer, job._first_attempt = JobId("daily-batch"), 7_000_000
        job._metrics = {sink.id: _OperatorCounts(staged=[b"staged"])}
        job._sinks = lambda: [(sink, sink.spec)]
        job._plan = SimpleNamespace(operators=list)
        job._commit()
    assert len(set(committer.logs)) == 2
