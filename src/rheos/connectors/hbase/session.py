"""Address of HBase's Thrift gateway, and sessions whose calls end within Rheos's own limit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.client_options import checked_options
from rheos.connectors.hbase.registration import CONNECTOR
from rheos.core.connectors.datasets import Dataset, server_datasets
from rheos.core.connectors.schemas import shorten
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError

T = TypeVar("T")
LOGGER = logging.getLogger("rheos.hbase")
"""Logger for the reasons of retries."""
_PORT = 9090
_ANSWER_MS = 20_000
REQUEST = OutsideCall(
    server="HBase",
    call="source, lookup and sink: connect, and each request to the Thrift gateway",
    limit_s=45.0,
    limit="20 s to connect, and for each part of an answer; 45 s if the client does not respect these",
    then="the connection is closed. After 1 s the sink stages rows next to the checkpoints, and "
    "tries to deliver them every second; rows, checkpoints and other sinks continue. Cells carry the "
    "client's timestamps, so a late request cannot overwrite newer values. The source continues "
    "after its last row key on another connection, and a lookup retries",
)
_GATEWAY = 'write gateway="host:9090", the address of HBase\'s Thrift gateway'
_OPTIONS: Mapping[str, Sequence[str]] = {
    "transport": ("buffered", "framed"),
    "protocol": ("binary", "compact"),
}
_MISSING = ("TableNotFoundException", "NoSuchColumnFamilyException")
_REFUSED = ("AccessDeniedException", "TableNotEnabledException", "TableNotDisabledException")
_INVALID = ("IllegalArgumentException", "DoNotRetryIOException", "InvalidFamilyOperationException")


@dataclass(frozen=True)
class HbaseGateway:
    """Address of a Thrift gateway, and how it frames and encodes messages."""

    host: str
    port: int
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, gateway: Any, options: Mapping[str, Any] | None) -> HbaseGateway:
        """Create it from a user's arguments. Raises ProgramError."""
        host, colon, port = gateway.strip().rpartition(":") if isinstance(gateway, str) else ("",) * 3
        if isinstance(gateway, str) and (not colon or (":" in host and not host.endswith("]"))):
            host, port = gateway.strip(), str(_PORT)
        if not host.strip("[]") or "/" in host or not (port.isascii() and port.isdigit()):
            raise ProgramError(f"gateway={gateway!r} is not a host and a port", hint=_GATEWAY)
        example = 'write options={"transport": "framed"}'
        checked = checked_options(options, [*_OPTIONS], "a name", example, example)
        for name, value in checked:
            if value not in _OPTIONS[name]:
                known = " or ".join(f'"{each}"' for each in _OPTIONS[name])
                raise ProgramError(f"the option {name!r} is {value!r}", hint=f"it must be {known}")
        return cls(host.strip("[]"), int(port), checked)

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def dataset(self, table: str) -> Dataset:
        """Return the name of a table for catalogs."""
        return server_datasets("hbase", self.address, [table])[0]

    def connected(self) -> Any:
        """Return an open connection."""
        connection = client().Connection(
            self.host, self.port, timeout=_ANSWER_MS, autoconnect=False, **dict(self.options)
        )
        connection.open()
        return connection


class HbaseSession:
    """Connection to a gateway. Not thread-safe.

    Args:
        gateway: Address of the gateway.
        doing: Begins the messages of errors: "the table orders cannot be read".
    """

    def __init__(self, gateway: HbaseGateway, doing: str) -> None:
        self._gateway = gateway
        self._doing = doing
        self._link = _Link(gateway)
        self._calls = BoundedCalls()

    def do(self, work: Callable[[Any], T]) -> T:
        """Return the result of a call.

        Args:
            work: Makes the call. It is passed the connection of the client.

        Returns:
            Its result.

        Raises:
            RheosError: It failed. The next call opens another connection if the gateway was away.
        """
        link = self._link
        try:
            return self._calls.run(
                f"{self._doing}, at {self._gateway.address}",
                REQUEST.limit_s,
                lambda progressed: work(link.opened()),
                link.close,
            )
        except AbandonedCallError:
            # The abandoned call still uses the old connection.
            self._link = _Link(self._gateway)
            raise
        except Exception as error:
            # After an error the rest of an answer may be on the connection.
            self._link.close()
            raise hbase_error(error, self._doing, self._gateway) from None

    def close(self) -> None:
        """Close the connection. A later call opens another."""
        self._link.close()
        self._calls.close()


class _Link:
    """A connection that is opened when it is first used."""

    def __init__(self, gateway: HbaseGateway) -> None:
        self._gateway = gateway
        self._connection: Any = None

    def opened(self) -> Any:
        if self._connection is None:
            self._connection = self._gateway.connected()
        return self._connection

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def hbase_error(error: Exception, doing: str, gateway: HbaseGateway) -> RheosError:
    """Translate an error of the client or the gateway.

    Args:
        error: The error.
        doing: Begins the message: "the table orders cannot be read".
        gateway: The gateway.

    Returns:
        The error of Rheos.
    """
    if isinstance(error, RheosError):
        return error
    thrift = _thrift()
    # An exception of the gateway has the stack trace of the server.
    message = getattr(error, "message", None) or error
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    [line, *_] = text.strip().splitlines() or [type(error).__name__]
    what = f"{doing}, at {gateway.address}: {shorten(line, 500)}"
    if any(name in text for name in _MISSING):
        return ConfigurationError(what, hint="create the table with its families, or correct the name")
    if any(name in text for name in _REFUSED):
        return ConfigurationError(what, hint="check the permissions, and that the table is enabled")
    if isinstance(error, thrift.TApplicationException):
        return ConfigurationError(
            what, hint="start the gateway with `hbase thrift start`, which serves Thrift 1"
        )
    if type(error).__name__ == "IllegalArgument" or any(name in text for name in _INVALID):
        return InputError(what, hint="check the table, its families and the row")
    if isinstance(error, thrift.TException | OSError | EOFError):
        return UnavailableError(what, hint="check that HBase and its Thrift gateway are up")
    return InputError(
        what, hint="check that gateway= is a Thrift gateway, and options={transport, protocol}"
    )


def client() -> ModuleType:
    """Return the module of the client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


def _thrift() -> ModuleType:
    import thriftpy2.thrift

    return thriftpy2.thrift  # type: ignore[no-any-return]
