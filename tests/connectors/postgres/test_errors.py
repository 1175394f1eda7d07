"""Which failures are temporary and which permanent, by the messages of the server and libpq."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from rheos.connectors.postgres.connection import ServerOptions
from rheos.connectors.postgres.errors import may_pass, postgres_error
from rheos.core.errors import ConfigurationError, InputError, RheosError, UnavailableError

OPTIONS = ServerOptions.of("postgresql://ada@localhost/shop")


def error_of(raised: Any) -> RheosError:
    return postgres_error(raised, "the table counts cannot be written", OPTIONS)


def unique_violation(schema: str, constraint: str) -> Any:
    diag = SimpleNamespace(
        message_primary="duplicate key value violates unique constraint",
        message_detail=None,
        column_name=None,
        schema_name=schema,
        constraint_name=constraint,
    )
    return SimpleNamespace(sqlstate="23505", diag=diag)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('FATAL:  too many connections for role "ada"', UnavailableError),
        ('FATAL:  too many connections for database "shop"', UnavailableError),
        ("server closed the connection unexpectedly", UnavailableError),
        ('FATAL:  role "ada" does not exist', ConfigurationError),
        ('FATAL:  database "shop" does not exist', ConfigurationError),
        ('FATAL:  password authentication failed for user "ada"', ConfigurationError),
    ],
)
def test_a_failed_connection_is_classified(said: str, kind: type[RheosError]) -> None:
    assert type(error_of(psycopg.OperationalError(said))) is kind


def test_a_server_that_became_a_standby_is_unavailable() -> None:
    error = error_of(psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT"))
    assert may_pass(error)
    assert "target_session_attrs=read-write" in str(error)
    assert may_pass(error_of(psycopg.errors.IdleInTransactionSessionTimeout("terminating connection")))


def test_concurrent_creation_of_a_table_is_retried() -> None:
    assert may_pass(error_of(unique_violation("pg_catalog", "pg_type_typname_nsp_index")))
    assert type(error_of(unique_violation("public", "counts_pkey"))) is InputError
