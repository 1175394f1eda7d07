"""Servers that the clients of a process cannot reach, with a clock that the tests set."""

from __future__ import annotations

import logging

import pytest

from rheos.connectors import outage_patience, unreachable_servers
from rheos.connectors.outage_patience import Patience
from rheos.connectors.unreachable_servers import UnreachableServers
from rheos.core.errors import InputError, UnavailableError


class Client:
    pass


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(unreachable_servers, "monotonic", made)
    return made


def test_a_server_is_unreachable_from_the_first_failure_until_it_answers(clock: Clock) -> None:
    away, client = UnreachableServers(), Client()
    assert list(away.waits()) == []
    away.failed(client, "no broker answers")
    clock.now_s += 7
    away.failed(client, "connection refused")
    assert away.is_away(client)
    assert list(away.waits()) == [("no broker answers", 7.0)]
    away.answered(client)
    assert not away.is_away(client)
    assert list(away.waits()) == [("no broker answers", 0.0)]
    clock.now_s += 1
    away.failed(client, "connection refused")
    assert list(away.waits()) == [("connection refused", 0.0)]


def test_the_longest_outages_are_reported_and_deleted_clients_are_not(clock: Clock) -> None:
    away = UnreachableServers()
    clients = [Client() for _ in range(unreachable_servers.MOST_SERVERS + 5)]
    for number, client in enumerate(clients):
        clock.now_s += 1
        away.failed(client, f"server {number}")
    found = list(away.waits())
    assert len(found) == unreachable_servers.MOST_SERVERS
    assert found[0] == ("server 0", len(clients) - 1.0)
    del client
    clients.clear()
    assert list(away.waits()) == []


def test_a_client_that_retries_is_recorded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    away = UnreachableServers()
    monkeypatch.setattr(outage_patience, "SERVERS_AWAY", away)
    monkeypatch.setattr(outage_patience, "sleep", lambda _: None)
    tries = Patience(60_000, lambda: None, logging.getLogger("rheos.test"))
    with pytest.raises(InputError):
        tries.spend(InputError("no such table"))
    assert list(away.waits()) == []
    tries.spend(UnavailableError("the table cannot be written"))
    clock.now_s += 3
    assert list(away.waits()) == [("the table cannot be written", 3.0)]
    tries.restore()
    assert list(away.waits()) == [("the table cannot be written", 0.0)]


def test_a_client_that_gives_up_is_forgotten(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    away = UnreachableServers()
    monkeypatch.setattr(outage_patience, "SERVERS_AWAY", away)
    tries = Patience(0, lambda: None, logging.getLogger("rheos.test"))
    with pytest.raises(UnavailableError):
        tries.spend(UnavailableError("the table cannot be written"))
    assert list(away.waits()) == []
