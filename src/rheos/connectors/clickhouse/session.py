"""Queries to a ClickHouse over HTTP: address, login, and the meaning of its errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from rheos.connectors.calls.http_session import (
    LIMIT,
    LIMIT_S,
    MAY_PASS,
    HttpAnswer,
    HttpSession,
    address_of,
    basic_login,
)
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.clickhouse.registration import CONNECTOR
from rheos.connectors.urls import url_parts
from rheos.core.connectors.schemas import shorten
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError

T = TypeVar("T")
LOGGER = logging.getLogger("rheos.clickhouse")
"""Logger for the reasons of retries."""
REQUEST = OutsideCall(
    server="ClickHouse",
    call="a request of the sink or the lookup, or of the driver, which inspects the table",
    limit_s=LIMIT_S,
    limit=LIMIT,
    then="the connection is closed. The sink keeps rows next to the checkpoints, and tries to insert "
    "them until the server is back. The server drops a block that it has inserted before, by its "
    "token. A lookup retries",
)
_URL_HINT = 'write "http://host:8123", with user:password@ before the host if the server requires it'
_CODE = re.compile(r"Code: (\d+)\. DB::Exception: (?:Code: \d+\. DB::Exception: )?")
_REFUSED = {
    60: "create the table first, or correct its name",
    81: "create the database first, or correct its name",
    164: "the user needs permission to change settings and to write",
    192: "set user and password in the URL",
    193: "set user and password in the URL",
    194: "set user and password in the URL",
    497: "grant the user INSERT and SELECT on the table, and SELECT on system.tables, system.columns "
    "and system.parts",
    516: "set user and password in the URL",
}
"""Advice for errors of the configuration, by code."""
_PASSES = {159, 202, 203, 209, 210, 225, 236, 241, 242, 243, 252, 285, 286, 319, 394, 439, 999}
"""Codes of errors that may pass: time-outs, too many queries or parts, no memory, disk or Keeper."""


@dataclass(frozen=True, repr=False)
class ServerAddress:
    """Address and login. They are sent to the workers with the program, including secrets."""

    url: str
    ca_certs: str | None

    def __post_init__(self) -> None:
        parts = url_parts(self.url, ("http", "https"), "a ClickHouse", _URL_HINT)
        if not parts.hostname or parts.query or parts.fragment:
            raise ProgramError("url= is not the URL of a ClickHouse server", hint=_URL_HINT)

    @property
    def address(self) -> str:
        """Return the URL without user and password."""
        return address_of(self.url)

    def headers(self) -> dict[str, str]:
        return basic_login(urlsplit(self.url))

    def __repr__(self) -> str:
        return f"ServerAddress({self.address!r})"


class ClickhouseSession:
    """Session with a server. Not thread-safe.

    Args:
        server: Address and login.
        doing: Begins the messages of errors: "the table a cannot be written".
    """

    def __init__(self, server: ServerAddress, doing: str) -> None:
        self._server = server
        self._doing = doing
        self._http = HttpSession(client(), REQUEST, server.address, server.headers(), server.ca_certs)

    def ask(self, query: str, settings: Mapping[str, object], body: bytes | None = None) -> bytes:
        """Return the result of a query.

        Args:
            query: The query, with its format.
            settings: Settings of the query.
            body: Data of an INSERT.

        Returns:
            The content of the answer.

        Raises:
            UnavailableError: There is no answer, or the server cannot answer at the moment.
            ConfigurationError: The server refuses the user, or has no such table.
            InputError: The server refuses the query.
        """
        # The answer begins when the query has ended, so its status tells whether it has failed.
        asked: dict[str, object] = {"wait_end_of_query": 1, **settings}
        if body is None:
            sent = query.encode()
        else:
            asked["query"] = query
            sent = body
        answer = self._http.ask("POST", f"/?{urlencode(asked)}", sent)
        if answer.status != 200:
            raise self._error(answer)
        return answer.content

    def rows(self, query: str, kind: type[T]) -> list[T]:
        """Return rows of a query without a format."""
        settings = {"output_format_json_quote_64bit_integers": 0}
        content = self.ask(f"{query} FORMAT JSONEachRow", settings)
        try:
            return [msgspec.json.decode(line, type=kind) for line in content.splitlines()]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UnavailableError(
                f"{self._doing}: {self._server.address} is not a ClickHouse: {error}"
            ) from None

    def _error(self, answer: HttpAnswer) -> RheosError:
        text = answer.content[:8192].decode(errors="replace").strip()
        found = _CODE.search(text)
        reason = shorten(text if found is None else text[found.end() :], 500)
        what = f"{self._doing}: {self._server.address} answers with status {answer.status}: {reason}"
        code = 0 if found is None else int(found[1])
        if code in _PASSES or (found is None and answer.status in MAY_PASS):
            return UnavailableError(what, hint="see the log of the server")
        if code in _REFUSED:
            return ConfigurationError(what, hint=_REFUSED[code])
        if answer.status in (401, 403) or found is None:
            return ConfigurationError(what, hint="check url=, and its user and password")
        return InputError(what, hint="correct the rows, or alter the table")

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def literal(value: Any) -> str:
    """Return a value as SQL has it: a whole number, a string or a date."""
    if isinstance(value, int):
        return str(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def client() -> ModuleType:
    """Return the module of the HTTP client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()
