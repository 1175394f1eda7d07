"""The ledger in the database, and the execution of the statements that commit an epoch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, assert_never

from rheos.connectors.sql_database.address import client
from rheos.connectors.sql_database.ledger_commit import (
    AddMark,
    Answer,
    CommitEpoch,
    LedgerEpoch,
    PutRows,
    RaiseMark,
    ReadWriterMark,
    commit_statements,
)
from rheos.connectors.sql_database.target_table import table_options

LEDGER = "rheos_ledger"
KEPT_ATTEMPTS = 100
"""Number of former attempts whose rows stay. A process that was considered dead may still commit, and
must find the mark of its writer."""


def ledger_table(schema: str | None, options: Mapping[str, str] | None = None) -> Any:
    """Return the definition of the ledger. A new one needs `options`."""
    sa = client()
    return sa.Table(
        LEDGER,
        sa.MetaData(),
        sa.Column("writer", sa.String(32), primary_key=True),
        sa.Column("job", sa.String(255), nullable=False),
        sa.Column("operator", sa.String(255), nullable=False),
        sa.Column("subtask", sa.Integer, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("checkpoint", sa.BigInteger, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        schema=schema,
        **(options or {}),
    )


def make_ledger(connection: Any, schema: str | None) -> None:
    """Create the ledger unless it exists."""
    ledger_table(schema, table_options(connection)).create(connection, checkfirst=True)
    connection.commit()


def commit_epoch(connection: Any, epoch: LedgerEpoch, put: Callable[[LedgerEpoch], None]) -> None:
    """Commit an epoch, once.

    Args:
        connection: A connection of SQLAlchemy without a transaction.
        epoch: The epoch.
        put: Function that writes the rows of the epoch in the connection's transaction.

    Raises:
        UnrestorableError: The ledger has lost the writer's mark.
        SQLAlchemyError: A statement has failed, or its outcome is unknown.
    """
    ledger = ledger_table(epoch.schema)
    statements, answer = commit_statements(epoch), None
    while True:
        try:
            statement = statements.send(answer)
        except StopIteration:
            return
        answer = execute_statement(connection, ledger, statement, put)


def execute_statement(
    connection: Any,
    ledger: Any,
    statement: RaiseMark | ReadWriterMark | AddMark | PutRows | CommitEpoch,
    put: Callable[[LedgerEpoch], None],
) -> Answer:
    """Execute one statement of the transaction, and return its answer. Raises SQLAlchemy's errors."""
    sa, mark = client(), ledger.c.checkpoint
    match statement:
        case RaiseMark(epoch):
            # The first statement of the transaction: it locks the row, in SQLite the whole database.
            changed = connection.execute(
                sa.update(ledger)
                .where(ledger.c.writer == epoch.writer)
                .where(mark < epoch.checkpoint, mark >= epoch.published)
                .values(checkpoint=epoch.checkpoint, row_count=ledger.c.row_count + epoch.file.rows)
            )
            return bool(changed.rowcount)
        case ReadWriterMark(writer):
            # Read with a lock: MariaDB would otherwise read from a snapshot.
            query = sa.select(mark).where(ledger.c.writer == writer).with_for_update()
            found: int | None = connection.execute(query).scalar()
            return found
        case AddMark(epoch):
            connection.execute(
                sa.insert(ledger).values(
                    writer=epoch.writer,
                    job=epoch.job[:255],
                    operator=epoch.operator[:255],
                    subtask=epoch.subtask,
                    attempt=epoch.attempt,
                    checkpoint=epoch.checkpoint,
                    row_count=epoch.file.rows,
                )
            )
        case PutRows(epoch):
            put(epoch)
        case CommitEpoch():
            connection.commit()
        case _:
            assert_never(statement)
    return None


def forget_attempts(
    connection: Any, schema: str | None, job: str, before: int, keep: Collection[str]
) -> None:
    """Delete the rows of the job's attempts that ended long ago, except those of the writers `keep`."""
    sa, ledger = client(), ledger_table(schema)
    connection.execute(
        sa.delete(ledger)
        .where(ledger.c.job == job[:255], ledger.c.attempt < before - KEPT_ATTEMPTS)
        .where(ledger.c.writer.not_in(sorted(keep)))
    )
    connection.commit()
