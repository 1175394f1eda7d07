"""A process that dies within a commit.

    python -m tests.connectors.sql_database.killed_commits URL FOLDER DEATH

It stages two epochs and commits them. It is killed after a statement of the second one, before the next
one. The committables are in FOLDER.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from rheos.connectors.sql_database import ledger
from rheos.connectors.sql_database.ledger_commit import CommitEpoch, PutRows, RaiseMark
from tests.connectors.sql_database.databases import Job, TestDatabase

SCHEMA = pa.schema({"n": pa.int64()})
DEATHS: dict[str, type] = {"raised": RaiseMark, "put": PutRows, "committed": CommitEpoch}
"""Statements after which a process dies, by the table that it writes."""


def main(url: str, folder: str, death: str) -> None:
    job = Job(TestDatabase(url, folder), SCHEMA, death)
    staged = [*job.stage((1,), (2,)), *job.stage((3,))]
    for number, each in enumerate(staged):
        Path(folder, f"{death}.{number}").write_bytes(each)
    right, seen = ledger.execute_statement, itertools.count(1)

    def execute(connection: Any, table: Any, statement: Any, put: Any) -> Any:
        answer = right(connection, table, statement, put)
        if isinstance(statement, DEATHS[death]) and next(seen) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    ledger.execute_statement = execute  # type: ignore[assignment]
    job.own.commit(staged)


if __name__ == "__main__":
    main(*sys.argv[1:])
