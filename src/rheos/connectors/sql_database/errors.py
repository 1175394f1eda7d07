"""Translation of errors of databases and their drivers to errors of Rheos, with advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from rheos.connectors.sql_database.address import DatabaseSystem, client
from rheos.core.errors import ConfigurationError, InputError, RheosError, UnavailableError

if TYPE_CHECKING:
    from rheos.connectors.sql_database.address import DatabaseAddress


class _Kind(NamedTuple):
    error: type[RheosError]
    hint: str


_AWAY = _Kind(
    UnavailableError,
    "check that the database is up at that address, and accepts connections. A running job retries",
)
_ROOM = _Kind(UnavailableError, "the server has run out of disk, memory or connections")
_REFUSED = _Kind(ConfigurationError, "check the user, the password and TLS in url= and options=")
_RIGHT = _Kind(ConfigurationError, "grant the missing permission to the user")
_STATEMENT = _Kind(ConfigurationError, "check whether the table was altered while the job ran")
_ROW = _Kind(
    InputError,
    "filter out such rows upstream, or alter the table: the job then resumes from its checkpoint",
)
_SQL_STATES: Mapping[str, _Kind] = {
    "08": _AWAY,
    "22": _ROW,
    "23": _ROW,
    "25": _AWAY,  # the server has ended a transaction that took too long, or is a standby
    "28": _REFUSED,
    "3D": _Kind(ConfigurationError, "create the database, or correct its name in url="),
    "40": _AWAY,  # deadlocks and serialization failures
    "42501": _RIGHT,
    "53": _ROOM,
    "55": _AWAY,
    "57": _AWAY,
    "58": _AWAY,
}
"""Kinds of PostgreSQL's errors by the SQLSTATE, or its first two characters."""
_REFUSED_WORDS = ("authentication failed", "pg_hba.conf", "no password", "certificate", 'role "')
_MYSQL_CODES: Mapping[int, _Kind] = {
    **dict.fromkeys((1044, 1045, 1130, 1251, 1524, 1698), _REFUSED),
    1049: _Kind(ConfigurationError, "create the database, or correct its name in url="),
    **dict.fromkeys((1142, 1143, 1227), _RIGHT),
    **dict.fromkeys((1040, 1021, 1041, 1114, 1203, 1226, 3675), _ROOM),
    # Shutdowns, lost clients, lock waits, deadlocks, a server that is read-only, a changed definition.
    **dict.fromkeys((1053, 1152, 1158, 1159, 1160, 1161, 1205, 1213, 1290, 1317), _AWAY),
    **dict.fromkeys((1412, 1836, 1927, 1969, 4031), _AWAY),
    **dict.fromkeys((1048, 1062, 1264, 1265, 1292, 1364, 1366, 1406, 1411, 1451, 1452), _ROW),
    **dict.fromkeys((1526, 1644, 3819, 4025), _ROW),
}
_FIRST_OF_CLIENT = 2000


def database_error(
    raised: Any, doing: str, address: DatabaseAddress, *, record: str | None = None
) -> RheosError:
    """Translate an error of SQLAlchemy or of a driver.

    Args:
        raised: The error.
        doing: Beginning of the message, such as "the table counts cannot be written".
        address: The database, whose secrets are redacted.
        record: The row that the database refuses, for people.

    Returns:
        The error: an UnavailableError if a later try may succeed, an InputError if the database refuses
        a row, and otherwise a ConfigurationError.
    """
    error = getattr(raised, "orig", None) or raised
    kind = _kind(error, raised, address.backend)
    words = str(error.args[1]) if _code(error) and len(error.args) > 1 else str(error)
    lines = words.strip().splitlines() or [type(error).__name__]
    code = getattr(error, "sqlstate", None) or _code(error)
    what = f"{doing}, at {address}: {lines[0]}" + (f" ({code})" if code else "")
    return kind.error(
        address.redact(what),
        hint=kind.hint,
        record=record,
        detail=address.redact("\n".join(lines[1:])) or None,
    )


def refuses_a_row(raised: Any, address: DatabaseAddress) -> bool:
    """Return whether the database refuses a row because of its values."""
    error = getattr(raised, "orig", None) or raised
    return _kind(error, raised, address.backend).error is InputError


def _kind(error: Any, raised: Any, backend: DatabaseSystem) -> _Kind:
    match backend:
        case DatabaseSystem.POSTGRES:
            state = getattr(error, "sqlstate", None)
            if state is None:
                text = str(error)
                if "does not exist" in text and "database" in text:
                    return _SQL_STATES["3D"]
                return _REFUSED if any(word in text for word in _REFUSED_WORDS) else _by_class(raised)
            return _SQL_STATES.get(state) or _SQL_STATES.get(state[:2], _STATEMENT)
        case DatabaseSystem.MYSQL:
            code = _code(error)
            if "certificate" in str(error).lower():
                return _REFUSED
            if code >= _FIRST_OF_CLIENT and code < 3000:
                return _AWAY
            return _MYSQL_CODES.get(code) or (_by_class(raised) if code == 0 else _STATEMENT)
        case DatabaseSystem.SQLITE:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith("SQLITE_READONLY"):
                return _RIGHT
            if name.startswith("SQLITE_CANTOPEN"):
                return _Kind(ConfigurationError, "check that the folder of the file exists")
            if name.startswith(("SQLITE_ERROR", "SQLITE_NOTADB", "SQLITE_CORRUPT")):
                return _STATEMENT
            if name.startswith("SQLITE_FULL"):
                return _ROOM
            return _by_class(raised)
        case _:
            assert_never(backend)


def _by_class(raised: Any) -> _Kind:
    """Return the kind of an error without a code, by its class of Python's database interface."""
    exceptions = client().exc
    if isinstance(raised, (exceptions.DataError, exceptions.IntegrityError)):
        return _ROW
    if isinstance(raised, (exceptions.OperationalError, exceptions.InterfaceError, OSError)):
        return _AWAY
    if isinstance(raised, exceptions.DBAPIError) and raised.connection_invalidated:
        return _AWAY
    return _STATEMENT


def _code(error: Any) -> int:
    """Return the number of MySQL's errors, which is their first argument; 0 without one."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0
