"""The ledger in a database of DuckDB, and the transaction that commits the epochs of a checkpoint.

`sql_database/ledger_commit.py` decides the statements; this module executes them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, assert_never

from rheos.connectors.duckdb.database_file import quoted
from rheos.connectors.sql_database.ledger import KEPT_ATTEMPTS, LEDGER
from rheos.connectors.sql_database.ledger_commit import (
    AddMark,
    Answer,
    CommitEpoch,
    LedgerEpoch,
    PutRows,
    RaiseMark,
    ReadWriterMark,
    Statement,
    commit_statements,
)


def make_ledger(connection: Any, schema: str | None) -> None:
    """Create the ledger unless it exists."""
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {quoted(schema, LEDGER)} (writer VARCHAR PRIMARY KEY, "
        "job VARCHAR NOT NULL, operator VARCHAR NOT NULL, subtask INTEGER NOT NULL, "
        "attempt BIGINT NOT NULL, checkpoint BIGINT NOT NULL, row_count BIGINT NOT NULL)"
    )


def commit_epochs(
    connection: Any, epochs: Sequence[LedgerEpoch], put: Callable[[LedgerEpoch], None]
) -> None:
    """Commit the epochs of one checkpoint in one transaction, each once.

    Args:
        connection: A connection of DuckDB without a transaction.
        epochs: The epochs, of different writers of one sink.
        put: Function that writes the rows of an epoch in the connection's transaction.

    Raises:
        UnrestorableError: The ledger has lost a writer's mark.
        duckdb.Error: A statement has failed, or its outcome is unknown.
    """
    connection.execute("BEGIN")
    for epoch in epochs:
        statements, answer = commit_statements(epoch), None
        while True:
            try:
                statement = statements.send(answer)
            except StopIteration:
                break
            answer = execute_statement(connection, quoted(epoch.schema, LEDGER), statement, put)
    connection.execute("COMMIT")


def execute_statement(
    connection: Any, ledger: str, statement: Statement, put: Callable[[LedgerEpoch], None]
) -> Answer:
    """Execute one statement, and return its answer. Raises DuckDB's errors."""
    match statement:
        case RaiseMark(epoch):
            # If a transaction that has not ended has changed the row, this is a conflict (SL3).
            changed = connection.execute(
                f"UPDATE {ledger} SET checkpoint = $checkpoint, row_count = row_count + $rows "
                "WHERE writer = $writer AND checkpoint < $checkpoint AND checkpoint >= $published",
                {
                    "checkpoint": epoch.checkpoint,
                    "rows": epoch.file.rows,
                    "writer": epoch.writer,
                    "published": epoch.published,
                },
            ).fetchall()
            return bool(changed[0][0])
        case ReadWriterMark(writer):
            query = f"SELECT checkpoint FROM {ledger} WHERE writer = ?"
            found = connection.execute(query, [writer]).fetchone()
            return None if found is None else int(found[0])
        case AddMark(epoch):
            connection.execute(
                f"INSERT INTO {ledger} VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    epoch.writer,
                    epoch.job,
                    epoch.operator,
                    epoch.subtask,
                    epoch.attempt,
                    epoch.checkpoint,
                    epoch.file.rows,
                ],
            )
        case PutRows(epoch):
            put(epoch)
        case CommitEpoch():
            pass  # The transaction continues with the epochs of other writers.
        case _:
            assert_never(statement)
    return None


def forget_attempts(
    connection: Any, schema: str | None, job: str, before: int, keep: Collection[str]
) -> None:
    """Delete the rows of the job's attempts that ended long ago, except those of the writers `keep`."""
    connection.execute(
        f"DELETE FROM {quoted(schema, LEDGER)} WHERE job = ? AND attempt < ? "
        "AND NOT list_contains(CAST(? AS VARCHAR[]), writer)",
        [job, before - KEPT_ATTEMPTS, sorted(keep)],
    )
