"""A process that dies within a commit.

    python -m tests.connectors.duckdb.killed_commits PATH DEATH

It stages two epochs and commits them. It is killed around a statement of the second one. The
committables are next to the file.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from rheos.connectors.duckdb import committer, ledger
from rheos.connectors.sql_database.ledger_commit import CommitEpoch, PutRows, RaiseMark
from tests.connectors.duckdb.tables import HandJob

SCHEMA = pa.schema({"n": pa.int64()})
DEATHS: dict[str, type | None] = {
    "raised": RaiseMark,
    "put": PutRows,
    "decided": CommitEpoch,
    "committed": None,
}
"""Statements of the second epoch after which the process dies; None: after its transaction."""


def main(path: str, death: str) -> None:
    job, wanted = HandJob(Path(path), SCHEMA), DEATHS[death]
    staged = [*job.stage((1,), (2,)), *job.stage((3,))]
    for number, each in enumerate(staged):
        Path(f"{path}.{number}.epoch").write_bytes(each)
    execute, commit, seen = ledger.execute_statement, ledger.commit_epochs, itertools.count(1)

    def execute_or_die(connection: Any, of: Any, statement: Any, put: Any) -> Any:
        answer = execute(connection, of, statement, put)
        if wanted is not None and isinstance(statement, wanted) and next(seen) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    def commit_or_die(connection: Any, epochs: Any, put: Any) -> None:
        commit(connection, epochs, put)
        if wanted is None and next(seen) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    ledger.execute_statement = execute_or_die  # type: ignore[assignment]
    committer.commit_epochs = commit_or_die  # type: ignore[attr-defined]
    job.driver().commit(staged)


if __name__ == "__main__":
    main(*sys.argv[1:])
