"""Translation of errors of PostgreSQL and its client to errors of Rheos, with advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rheos.core.errors import ConfigurationError, InputError, RheosError, UnavailableError

if TYPE_CHECKING:
    from rheos.connectors.postgres.connection import ServerOptions


class _Kind(NamedTuple):
    error: type[RheosError]
    hint: str


_REFUSED = _Kind(ConfigurationError, "check the user, the password and sslmode in url= and options=")
_AWAY = _Kind(
    UnavailableError,
    "check that the server is up at that address, and accepts connections. A running job "
    "waits, or is restarted by its restart strategy",
)
_VALUE = _Kind(InputError, "filter out such rows upstream, or change the type of the column")
_RULE = _Kind(
    InputError,
    "filter out such rows upstream, or alter the table: the job then resumes from its checkpoint",
)
_STATEMENT = _Kind(ConfigurationError, "check whether the table was altered while the job ran")

_NO_ROOM = _Kind(
    UnavailableError, "the server has run out of disk, memory or connections (max_connections)"
)

_CLASSES: Mapping[str, _Kind] = {
    "08": _AWAY,
    "22": _VALUE,
    "23": _RULE,
    "25": _AWAY,  # the server has ended a transaction that took too long
    "28": _REFUSED,
    "3D": _Kind(
        ConfigurationError,
        "create the database, or correct its name in url=; if it existed before, restore it "
        "from a copy: it held rows that the job has published",
    ),
    "40": _AWAY,  # deadlocks and serialization failures
    "42": _STATEMENT,
    "53": _NO_ROOM,
    "55": _AWAY,
    "57": _AWAY,
    "58": _AWAY,
}
"""Kinds of errors by the first two characters of the SQLSTATE."""
_CODES: Mapping[str, _Kind] = {
    "22021": _Kind(
        InputError, "PostgreSQL strings cannot contain a zero byte: replace it, or write bytes"
    ),
    "42501": _Kind(ConfigurationError, "grant the missing permission to the user"),
    "42P01": _Kind(ConfigurationError, "create the table, or correct its name and schema"),
    "42P07": _AWAY,  # another session has just created it
    "42710": _AWAY,
    "23505": _Kind(InputError, 'use mode="upsert" with key=..., or filter out rows that exist already'),
    "25006": _Kind(
        UnavailableError,
        "check whether it is a standby, or has become one. List all servers in url=, with "
        "target_session_attrs=read-write",
    ),
    "57014": _Kind(ConfigurationError, "raise the server's statement_timeout for this user"),
}
_REFUSED_WORDS = (
    "authentication failed",
    "no pg_hba.conf entry",
    "no password supplied",
    "server does not support SSL",
    "certificate",
    'role "',
)
"""Parts of messages of a refused login. A lost connection has other messages."""


def postgres_error(
    error: Any,
    doing: str,
    options: ServerOptions,
    *,
    record: str | None = None,
    hint: str | None = None,
) -> RheosError:
    """Translate a psycopg.Error. `doing` begins the message, such as "the table counts cannot be
    written"."""
    lines = [error.diag.message_primary or str(error).strip() or type(error).__name__]
    if error.diag.column_name and error.diag.column_name not in lines[0]:
        lines.append(f"column {error.diag.column_name}")
    if error.diag.constraint_name and error.diag.constraint_name not in lines[0]:
        lines.append(f"constraint {error.diag.constraint_name}")
    kind = _kind(error)
    code = f" ({error.sqlstate})" if error.sqlstate else ""
    detail = error.diag.message_detail
    return kind.error(
        options.redact(f"{doing}, at {options}: {', '.join(lines)}{code}"),
        hint=hint or kind.hint,
        record=record,
        detail=None if detail is None else options.redact(detail),
    )


def _kind(error: Any) -> _Kind:
    code = error.sqlstate
    if code is None:
        # The connection was refused or lost, and only the error's message tells why.
        text = str(error)
        if "does not exist" in text and "database" in text:
            return _CLASSES["3D"]
        if "too many connections" in text:  # "... for role", which is a temporary refusal
            return _NO_ROOM
        return _REFUSED if any(word in text for word in _REFUSED_WORDS) else _AWAY
    if of_catalog(error):
        return _AWAY
    return _CODES.get(code) or _CLASSES.get(code[:2], _STATEMENT)


def of_catalog(error: Any) -> bool:
    """Return whether the error is about PostgreSQL's catalog, not a user's row: if two sessions create
    the same table at once, one of them fails like this."""
    return bool(error.diag.schema_name == "pg_catalog")


def may_pass(error: RheosError) -> bool:
    """Return whether a retry may succeed."""
    return isinstance(error, UnavailableError)
