"""Outages are distinguished from refusals and errors of programs, whichever library raises them."""

from __future__ import annotations

import sqlite3
import ssl

import pytest
import requests
import sqlalchemy
from pyiceberg import exceptions

from rheos.connectors.iceberg.failures import may_pass


def of_sqlite(code: int) -> Exception:
    """Return the error of the SQL catalog for an error of SQLite."""
    orig = sqlite3.OperationalError("database is locked")
    orig.sqlite_errorcode = code
    return sqlalchemy.exc.OperationalError("SELECT 1", {}, orig)


def with_status(status: int) -> Exception:
    """Return the error of a REST catalog for a response."""
    response = requests.Response()
    response.status_code = status
    raised = exceptions.RESTError("unexpected answer")
    raised.__cause__ = requests.HTTPError("no", response=response)
    return raised


def caused_by(raised: Exception, cause: Exception) -> Exception:
    raised.__cause__ = cause
    return raised


OUTAGES = [
    OSError(28, "No space left"),
    OSError("When reading information for key 'a': AWS Error NETWORK_CONNECTION during HeadObject"),
    ConnectionResetError(),
    TimeoutError("timed out"),
    exceptions.ServerError("503"),
    exceptions.TooManyRequestsError("429"),
    exceptions.CommitFailedException("another was first"),
    requests.ConnectionError("refused"),
    requests.Timeout("timed out"),
    sqlalchemy.exc.OperationalError("SELECT 1", {}, Exception("server closed the connection")),
    requests.exceptions.SSLError("EOF occurred in violation of protocol"),
    of_sqlite(sqlite3.SQLITE_BUSY),
    of_sqlite(sqlite3.SQLITE_IOERR | 2 << 8),
    with_status(408),
    with_status(502),
    caused_by(exceptions.GenericDynamoDbError("failed"), ConnectionRefusedError()),
]
OTHERS = [
    PermissionError(13, "denied"),
    FileNotFoundError(2, "missing"),
    OSError("AWS Error ACCESS_DENIED during PutObject operation"),
    ValueError("no"),
    KeyError("schema"),
    AttributeError("'NoneType' object has no attribute 'io'"),
    NotImplementedError(),
    RuntimeError("cannot schedule new futures after shutdown"),
    ImportError("s3fs"),
    exceptions.NoSuchTableError("shop.none"),
    exceptions.UnauthorizedError("who?"),
    exceptions.ValidationException("conflicting files"),
    requests.exceptions.InvalidURL("http://"),
    sqlalchemy.exc.ProgrammingError("SELEC 1", {}, Exception("syntax error")),
    of_sqlite(sqlite3.SQLITE_ERROR),
    of_sqlite(sqlite3.SQLITE_READONLY),
    with_status(404),
    with_status(501),
    caused_by(KeyError("in the handler of an outage"), ConnectionRefusedError()),
    exceptions.GenericDynamoDbError("failed"),
    caused_by(requests.exceptions.SSLError("no"), ssl.SSLCertVerificationError("self-signed")),
]


@pytest.mark.parametrize("error", OUTAGES, ids=repr)
def test_an_outage_may_pass(error: Exception) -> None:
    assert may_pass(error)


@pytest.mark.parametrize("error", OTHERS, ids=repr)
def test_a_refusal_or_an_error_of_a_program_does_not_pass(error: Exception) -> None:
    assert not may_pass(error)
