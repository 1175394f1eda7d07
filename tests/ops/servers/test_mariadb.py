"""The real MariaDB: it requires its password, listens on loopback, and keeps its data."""

from __future__ import annotations

import pytest

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.mariadb import MariadbServer
from rheos.ops.servers.server import development_server
from tests.connectors.mysql.databases import Database


def test_mariadb_requires_its_password_and_keeps_its_data(mariadb_server: MariadbServer) -> None:
    import pymysql

    assert development_server("mariadb") is MariadbServer
    database = Database(mariadb_server, "rheos")
    database.run("CREATE TABLE kept (id int PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
    host, port = mariadb_server.address.split(":")
    for user in ("rheos", "root"):
        with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
            pymysql.connect(host=host, port=int(port), user=user, password="guessed")
    mariadb_server.kill()
    mariadb_server.start()
    assert database.rows("SELECT id, @@bind_address FROM kept") == [(1, "127.0.0.1")]
    database.run("DROP TABLE kept")


def test_a_machine_without_mariadb_gets_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(ConfigurationError, match="mariadbd is not installed"):
        MariadbServer().install()
