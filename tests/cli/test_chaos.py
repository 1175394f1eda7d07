"""How `rheos chaos` recognises the end of a job."""

from __future__ import annotations

from pathlib import Path

from rheos.cli.chaos import finished
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import AttemptStarted, CheckpointCompleted, JobFinished
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.runtimes.host.stores import LocalStore

ENTRY = {"attempt": Attempt(1), "owner": "me", "reserved_to": CheckpointId(1)}
STARTED = AttemptStarted(**ENTRY, from_checkpoint=None, parallelism=1, completed=[])
FINAL = CheckpointCompleted(
    **ENTRY,
    checkpoint=CheckpointId(1),
    final=True,
    parallelism=1,
    max_parallelism=1,
    operators={},
    handles=[],
    committables=[],
)
FINISHED = JobFinished(**ENTRY, checkpoint=CheckpointId(1))


def test_a_directory_is_finished_when_all_its_jobs_are(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    assert not finished(str(tmp_path)), "no job has begun"
    first, second = JobLog(store, JobId("flüsse")), JobLog(store, JobId("rivers"))
    first.append(1, STARTED)
    assert not finished(str(tmp_path))
    first.append(2, FINAL)
    assert not finished(str(tmp_path)), "its output is not all committed"
    first.append(3, FINISHED)
    assert finished(str(tmp_path))
    second.append(1, STARTED)
    assert not finished(str(tmp_path)), "one of two still runs"
