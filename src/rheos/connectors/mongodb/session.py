"""Address of a MongoDB, and sessions whose calls end within Rheos's own limit."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.client_options import checked_options
from rheos.connectors.mongodb.registration import CONNECTOR
from rheos.connectors.urls import url_parts
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError
from rheos.core.redaction import without

T = TypeVar("T")
LOGGER = logging.getLogger("rheos.mongodb")
"""Logger for the reasons of retries."""
ANSWER_S = 20.0
"""Seconds that the client waits for an answer."""
_FIND_SERVER_S = 5.0
REQUEST = OutsideCall(
    server="MongoDB",
    call="source, lookup and sink: connect, and each request",
    limit_s=45.0,
    limit="5 s to find a server, 20 s for its answer; 45 s if the client does not respect these",
    then="the connection is closed. After 1 s the sink stages rows next to the checkpoints, and "
    "tries to deliver them every second; rows, checkpoints and other sinks continue. The source "
    "continues from its position on another connection, and a lookup retries",
)
_URL = (
    'write "mongodb://host:27017/database", with user:password@ before the host if the server '
    "requires it, and commas between the servers of a replica set"
)
_OPTIONS = ("tls_ca_file", "tls_certificate_key_file")
_CLIENT_OPTIONS = {"tls_ca_file": "tlsCAFile", "tls_certificate_key_file": "tlsCertificateKeyFile"}
_REFUSED = {13, 18, 8000, 11, 31}
"""Codes of a refused login, or of a missing permission."""
_NO_CHANGE_STREAMS = 40573


@dataclass(frozen=True, repr=False)
class MongodbAddress:
    """Address, login and database. They are sent to the workers with the program, including secrets."""

    url: str
    database: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, url: Any, options: Mapping[str, Any] | None = None) -> MongodbAddress:
        """Create it from a user's arguments. Raises ProgramError, which shows no value."""
        # Python's parser reads the port of a single server.
        single = re.sub(r",[^/@]*(?=/)", "", url, count=1) if isinstance(url, str) else url
        parts = url_parts(single, ("mongodb", "mongodb+srv"), "a MongoDB", _URL)
        database = unquote(parts.path.strip("/"))
        if not parts.hostname or not database or "/" in database:
            raise ProgramError("url= lacks the host or the database", hint=_URL)
        example = 'write options={"tls_ca_file": "/etc/ssl/ca.pem"}'
        checked = checked_options(options, _OPTIONS, "the path of a file", example, _URL)
        return cls(url, database, checked)

    @property
    def address(self) -> str:
        """Return hosts and database, without user and password."""
        return f"{urlsplit(self.url).netloc.rpartition('@')[2]}/{self.database}"

    def dataset(self, collection: str) -> Dataset:
        """Return the name of a collection for catalogs."""
        hosts, _, _ = self.address.partition("/")
        return server_datasets("mongodb", hosts, [f"{self.database}.{collection}"])[0]

    def connected(self) -> Any:
        """Return a client, which connects when it is used."""
        given = {_CLIENT_OPTIONS[name]: value for name, value in self.options}
        try:
            return client().MongoClient(
                self.url,
                **given,
                appname="rheos",
                tz_aware=True,
                maxPoolSize=1,
                retryWrites=False,
                retryReads=False,
                serverSelectionTimeoutMS=int(_FIND_SERVER_S * 1000),
                connectTimeoutMS=int(_FIND_SERVER_S * 1000),
                socketTimeoutMS=int(ANSWER_S * 1000),
            )
        except (client().errors.PyMongoError, ValueError, OSError) as error:
            raise ConfigurationError(
                f"{self.address} cannot be connected: {self.redact(str(error))}",
                hint="check url= and options=",
            ) from None

    def redact(self, text: str) -> str:
        """Return the string with `***` in place of the password."""
        login = urlsplit(self.url).netloc.rpartition("@")[0]
        password = login.partition(":")[2]
        return without(text, {each for each in (password, unquote(password)) if each})

    def __repr__(self) -> str:
        return f"MongodbAddress({self.address!r})"


class MongodbSession:
    """Client of one database. Not thread-safe.

    Args:
        server: Address and login.
        doing: Begins the messages of errors: "the collection a cannot be read".
    """

    def __init__(self, server: MongodbAddress, doing: str) -> None:
        self._server = server
        self._doing = doing
        self._client: Any = None
        self._calls = BoundedCalls()

    def do(self, work: Callable[[Any], T]) -> T:
        """Return the result of a call.

        Args:
            work: Makes the call. It is passed the database.

        Returns:
            Its result.

        Raises:
            RheosError: It failed. Another call opens another connection if the server was away.
        """
        client = self._client = self._client or self._server.connected()
        database = client[self._server.database]
        try:
            return self._calls.run(
                f"MongoDB at {self._server.address}",
                REQUEST.limit_s,
                lambda progressed: work(database),
                client.close,
            )
        except AbandonedCallError:
            self._client = None
            raise
        except Exception as error:
            failed = mongodb_error(error, self._doing, self._server)
            if isinstance(failed, UnavailableError):
                self._close_client()
            raise failed from None

    def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def close(self) -> None:
        """Close the connection. A later call opens another."""
        self._close_client()
        self._calls.close()


def mongodb_error(error: Exception, doing: str, server: MongodbAddress) -> RheosError:
    """Translate an error of the client.

    Args:
        error: The error.
        doing: Begins the message: "the collection a cannot be read".
        server: The server.

    Returns:
        The error of Rheos.
    """
    if isinstance(error, RheosError):
        return error
    errors = client().errors
    what = f"{doing}, at {server.address}: {server.redact(str(error))[:1000]}"
    code = getattr(error, "code", None)
    if code in _REFUSED:
        return ConfigurationError(what, hint="check user and password, and the user's permissions")
    if code == _NO_CHANGE_STREAMS:
        return ConfigurationError(what, hint="change streams need a replica set: mongod --replSet")
    if isinstance(error, errors.ConfigurationError):
        return ConfigurationError(what, hint="check url= and options=")
    is_away = isinstance(error, (errors.ConnectionFailure, errors.ExecutionTimeout, OSError))
    if is_away or (isinstance(error, errors.OperationFailure) and may_pass(code)):
        return UnavailableError(what, hint="check that the server is up at that address")
    if isinstance(error, errors.PyMongoError):
        return InputError(what, hint="check the collection and its documents")
    return InputError(what, hint="check the values of the documents")


_PASSES = {
    *(6, 7, 50, 89, 91, 112, 133, 134, 189, 202, 244, 246, 251, 262, 317, 358, 365),
    *(9001, 10058, 10107, 11600, 11601, 11602, 13388, 13435, 13436),
}
"""Codes of errors that may pass: a server that is down, starts, steps down or lacks resources."""


def may_pass(code: int | None) -> bool:
    """Return whether an error with this code may not occur in a later try."""
    return code in _PASSES


def client() -> ModuleType:
    """Return the module of the client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


def bson() -> ModuleType:
    """Return the module with the types of documents."""
    client()
    return importlib.import_module("bson")
