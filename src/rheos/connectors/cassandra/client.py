"""Client of Cassandra: options of a connection, meanings of errors, and descriptions of tables."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls, Progressed
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.cassandra.columns import CqlColumn
from rheos.connectors.cassandra.registration import CONNECTOR
from rheos.core.errors import ConfigurationError, InputError, ProgramError, RheosError, UnavailableError

T = TypeVar("T")

LOGGER = logging.getLogger("rheos.cassandra")
"""Logger for the reasons of retries."""

_PORT = 9042
_CONNECT_WITHIN_S = 10.0
_ANSWER_WITHIN_S = 20.0
_RECONNECT_S = 1.0
_PROTOCOL = 4
"""Protocol version that all releases since Cassandra 3 support, so that none is negotiated. The user's
options may name another."""
SESSION = OutsideCall(
    server="Cassandra",
    call="the sink: connect, inspect the table, prepare a statement, write a batch",
    limit_s=30.0,
    limit="20 s for each statement, 10 s to connect; 30 s if the client does not respect these",
    then="the session is abandoned. After 1 s the sink stages rows next to the checkpoints, and "
    "tries to deliver them every second; rows, checkpoints and other sinks continue. "
    "Statements carry the client's timestamps, so a late one cannot overwrite newer values",
)
_HOSTS = 'write hosts="host:9042", or a list of such strings'


@dataclass(frozen=True, repr=False)
class ClusterOptions:
    """Options to connect to a cluster. They are sent to the workers with the program, including
    secrets."""

    hosts: tuple[tuple[str, int], ...]
    user: str | None
    password: str | None
    datacenter: str | None
    options: tuple[tuple[str, Any], ...]

    @classmethod
    def of(
        cls,
        hosts: str | Sequence[str],
        user: str | None,
        password: str | None,
        datacenter: str | None,
        options: Mapping[str, Any] | None,
    ) -> ClusterOptions:
        """Create the options from a user's arguments. Raises ProgramError, which shows no value."""
        listed: list[Any] = (
            [hosts] if isinstance(hosts, str) or not isinstance(hosts, Iterable) else [*hosts]
        )
        if not listed:
            raise ProgramError("hosts= is empty", hint=_HOSTS)
        if (user is None) != (password is None):
            raise ProgramError(
                "user= and password= must be used together", hint="pass both, or neither"
            )
        if options is not None and not isinstance(options, Mapping):
            raise ProgramError("options= must be a dict", hint='write options={"ssl_context": ...}')
        found = tuple(_host_and_port(host) for host in listed)
        return cls(found, user, password, datacenter, tuple(sorted((options or {}).items())))

    @property
    def address(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self.hosts)

    def __repr__(self) -> str:
        names = "".join(f", {name}=***" for name, _ in self.options)
        return f"Contact({self.address!r}{names})"


def _host_and_port(given: Any) -> tuple[str, int]:
    if not isinstance(given, str) or not given.strip():
        raise ProgramError(f"hosts={given!r} has an entry without a host", hint=_HOSTS)
    host, colon, port = given.strip().rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        return given.strip().strip("[]"), _PORT
    if not (port.isascii() and port.isdigit()):
        raise ProgramError(f"hosts={given!r} has no port after the colon", hint=_HOSTS)
    return host.strip("[]"), int(port)


class CassandraSession:
    """A connection to a cluster. All calls raise RheosError. If the client does not return from a call
    within our limit, the call is abandoned together with its connection."""

    def __init__(self, contact: ClusterOptions, consistency: str) -> None:
        self._contact = contact
        self._consistency = consistency
        self._calls = BoundedCalls()
        self._link = _ConnectionState(contact, consistency)

    def describe(self, keyspace: str, table: str) -> tuple[list[CqlColumn], list[str]]:
        """Return the columns of a table, and the names of its primary key's columns."""
        return self._called(lambda link, progressed: link.describe(keyspace, table))

    def write(
        self, statements: Sequence[tuple[str, Sequence[Any]]], at_once: int
    ) -> list[tuple[int, RheosError]]:
        """Execute prepared statements with their values, up to `at_once` at a time. Return the index
        and the error of each statement that failed."""
        return self._called(lambda link, progressed: link.write(statements, at_once, progressed))

    def close(self) -> None:
        """Close the connection. Must be called once only."""
        with contextlib.suppress(UnavailableError):
            self._called(lambda link, progressed: link.close())
        self._calls.close()

    def _called(self, work: Callable[[_ConnectionState, Progressed], T]) -> T:
        link = self._link
        try:
            return self._calls.run(
                f"Cassandra at {self._contact.address}",
                SESSION.limit_s,
                lambda progressed: work(link, progressed),
                link.close,
            )
        except AbandonedCallError:
            # The abandoned call still uses the old link.
            self._link = _ConnectionState(self._contact, self._consistency)
            raise


class _ConnectionState:
    """State of one connection. Its calls may block for longer than the client's own limits."""

    def __init__(self, contact: ClusterOptions, consistency: str) -> None:
        self._contact = contact
        cluster, policies, auth = client(), _policies(), _auth()
        local = policies.DCAwareRoundRobinPolicy(local_dc=contact.datacenter or "")
        profile = cluster.ExecutionProfile(
            load_balancing_policy=policies.TokenAwarePolicy(local),
            consistency_level=_levels()[consistency],
            request_timeout=_ANSWER_WITHIN_S,
        )
        own: dict[str, Any] = {
            "contact_points": list(contact.hosts),
            "port": contact.hosts[0][1],
            "execution_profiles": {cluster.EXEC_PROFILE_DEFAULT: profile},
            "connect_timeout": _CONNECT_WITHIN_S,
            "reconnection_policy": policies.ConstantReconnectionPolicy(_RECONNECT_S, None),
        }
        if contact.user is not None:
            own["auth_provider"] = auth.PlainTextAuthProvider(contact.user, contact.password)
        try:
            given = {"protocol_version": _PROTOCOL, **dict(contact.options), **own}
            self._cluster = cluster.Cluster(**given)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the Cassandra client rejects its options: {error}",
                hint="options={...} accepts the options of cassandra.cluster.Cluster",
            ) from None
        self._session: Any = None
        self._prepared: dict[str, Any] = {}

    def describe(self, keyspace: str, table: str) -> tuple[list[CqlColumn], list[str]]:
        self._connect()
        metadata = self._cluster.metadata
        if keyspace not in metadata.keyspaces:
            known = ", ".join(sorted(metadata.keyspaces))
            raise ConfigurationError(
                f"the keyspace {keyspace!r} does not exist at {self._contact.address}",
                hint=f"create it first; the keyspaces are {known}",
            )
        tables = metadata.keyspaces[keyspace].tables
        if table not in tables:
            raise ConfigurationError(
                f"the table {keyspace}.{table} does not exist at {self._contact.address}",
                hint="create it first; Rheos does not, because only you can choose its primary key",
            )
        found = tables[table]
        columns = [CqlColumn(column.name, column.cql_type) for column in found.columns.values()]
        return columns, [column.name for column in found.primary_key]

    def write(
        self, statements: Sequence[tuple[str, Sequence[Any]]], at_once: int, progressed: Progressed
    ) -> list[tuple[int, RheosError]]:
        self._connect()
        bound = [(self._statement(cql), values) for cql, values in statements]
        results = _concurrent().execute_concurrent(
            self._session,
            bound,
            concurrency=at_once,
            raise_on_first_error=False,
            results_generator=True,
        )
        failed = []
        for place, result in enumerate(results):
            progressed()
            if not result.success:
                failed.append((place, self._error(result.result_or_exc)))
        return failed

    def close(self) -> None:
        self._cluster.shutdown()

    def _connect(self) -> None:
        if self._session is None:
            try:
                self._session = self._cluster.connect()
            except Exception as error:
                raise self._error(error) from None

    def _statement(self, cql: str) -> Any:
        if cql not in self._prepared:
            try:
                self._prepared[cql] = self._session.prepare(cql)
            except Exception as error:
                raise self._error(error) from None
        return self._prepared[cql]

    def _error(self, error: Exception) -> RheosError:
        errors = _errors()
        causes = (
            [error, *getattr(error, "errors", {}).values()] if hasattr(error, "errors") else [error]
        )
        problem = f"Cassandra at {self._contact.address}: {error}"
        for cause in causes:
            if isinstance(cause, errors.AuthenticationFailed | errors.Unauthorized):
                return ConfigurationError(
                    problem, hint="check user= and password=, and the permissions of that user"
                )
            if isinstance(cause, errors.InvalidRequest | TypeError | ValueError):
                return InputError(problem, hint="check the table's columns, and the row")
        return UnavailableError(
            problem,
            hint="check that enough nodes are up. A running job is restarted by its restart strategy",
        )


def check_consistency(name: str) -> None:
    if name not in _levels():
        raise ProgramError(
            f"consistency={name!r} is not known", hint=f"write one of {', '.join(sorted(_levels()))}"
        )


def _levels() -> Mapping[str, int]:
    import cassandra

    return {
        name: level
        for name, level in vars(cassandra.ConsistencyLevel).items()
        if name.isupper() and isinstance(level, int) and "SERIAL" not in name
    }


def client() -> ModuleType:
    """Return the module of Cassandra's client. Raises ConfigurationError if it is not installed."""
    return CONNECTOR.client()


def _policies() -> ModuleType:
    import cassandra.policies

    return cassandra.policies  # type: ignore[no-any-return]


def _auth() -> ModuleType:
    import cassandra.auth

    return cassandra.auth  # type: ignore[no-any-return]


def _concurrent() -> ModuleType:
    import cassandra.concurrent

    return cassandra.concurrent  # type: ignore[no-any-return]


def _errors() -> ModuleType:
    import cassandra

    return cassandra  # type: ignore[no-any-return]
