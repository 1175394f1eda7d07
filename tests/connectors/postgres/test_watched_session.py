"""Calls to a server that is connected but does not answer end within our limit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rheos.connectors.postgres import watched_session
from rheos.connectors.postgres.connection import ServerOptions, ServerSession
from rheos.connectors.postgres.watched_session import WatchedSession
from rheos.core.errors import UnavailableError
from rheos.ops.chaos.faulty_proxy import FaultyProxy
from tests.connectors.postgres.databases import Database


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(watched_session.STATEMENT), "limit_s", 0.1)
    monkeypatch.setattr(watched_session, "_ALIVE_S", 2.0)  # libpq knows none that is shorter.


@pytest.fixture
def proxy(database: Database) -> Iterator[FaultyProxy]:
    parameters = dict(ServerOptions.of(database.url).parameters)
    with FaultyProxy(int(parameters["port"]), parameters["host"]) as proxy:
        yield proxy


def through(proxy: FaultyProxy, database: Database) -> ServerOptions:
    options = {"host": "127.0.0.1", "port": proxy.port, "sslmode": "disable"}
    return ServerOptions.of(database.url, options)


def one(session: ServerSession) -> int:
    [(found,)] = session.rows("SELECT 1")
    return int(found)


@pytest.mark.usefixtures("short_limits")
def test_a_frozen_server_is_unavailable_until_it_answers_again(
    proxy: FaultyProxy, database: Database
) -> None:
    session = WatchedSession(through(proxy, database), "the table t cannot be written")
    assert session.do(one) == 1
    proxy.freeze()
    with pytest.raises(UnavailableError, match=r"the table t cannot be written, at .*: no answer"):
        session.do(one)
    proxy.thaw()
    assert session.do(one) == 1
    session.close()


@pytest.mark.usefixtures("short_limits")
def test_a_long_statement_on_a_healthy_server_is_not_abandoned(
    database: Database,
) -> None:
    session = WatchedSession(ServerOptions.of(database.url), "the table t cannot be written")
    slept = session.do(lambda s: s.rows("SELECT 1 FROM pg_sleep(0.5)"))
    assert slept == [(1,)]
    session.close()
