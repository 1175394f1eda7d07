"""PostgreSQL over TLS: clients that trust the server's certificate read and write, and no other server
is accepted."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError
from tests.connectors.postgres.databases import Database, new_database, read
from tests.waiting import wait_for

PAGES = [{"page": "home", "n": 3}, {"page": "about", "n": 2}]


@pytest.fixture(scope="module")
def server(postgres_server: Any) -> Iterator[Any]:
    """Run the real server with a self-signed certificate for 127.0.0.1."""
    data = Path(postgres_server._folder) / "data"
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    make_certificate(data, "server", "IP:127.0.0.1")
    admin = Database(postgres_server, "postgres")
    try:
        admin.run("ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
    except psycopg.Error as error:
        pytest.skip(f"this PostgreSQL has no TLS: {error}")
    wait_for(lambda: admin.rows("SHOW ssl") == [("on",)])
    yield postgres_server
    admin.run("ALTER SYSTEM RESET ssl", "SELECT pg_reload_conf()")
    wait_for(lambda: admin.rows("SHOW ssl") == [("off",)])


@pytest.fixture(scope="module")
def database(server: Any) -> Database:
    return new_database(server)


def make_certificate(folder: Path, name: str, known_as: str) -> Path:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={known_as}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    owner = folder.stat()
    for each in (certificate, key):
        os.chown(each, owner.st_uid, owner.st_gid)
        each.chmod(0o600)
    return certificate


def trusting(certificate: Path) -> dict[str, str]:
    return {"sslmode": "verify-full", "sslrootcert": str(certificate)}


@pytest.fixture
def certificate(server: Any, tmp_path: Path) -> Path:
    """Return the certificate file as a user would have it."""
    return Path(shutil.copy(Path(server._folder) / "data" / "server.crt", tmp_path / "known.crt"))


def test_rows_are_written_looked_up_and_their_changes_read(
    database: Database, certificate: Path
) -> None:
    at: dict[str, Any] = {"url": database.url, "options": trusting(certificate)}
    env = rh.Environment(1, runtime="simulated")
    rows = env.from_source(rh.collection(PAGES))
    rows.sink_to(rh.postgres.sink("counts", mode="upsert", key="page", **at))
    env.execute("write")
    assert sorted(read(database, "counts"), key=str) == sorted(PAGES, key=str)

    env = rh.Environment(1, runtime="simulated")
    asked = env.from_source(rh.collection([{"page": "home"}]))
    asked.lookup(rh.postgres.lookup("counts", key="page", **at), on="page").collect("found")
    changes = env.from_source(rh.postgres.changes("counts", end="now", **at))
    changes.select("page", "n").collect("changes")
    done = env.execute("read").collected
    assert done["found"].to_pylist() == [PAGES[0]]
    assert sorted(done["changes"].to_pylist(), key=str) == sorted(PAGES, key=str)


@pytest.mark.parametrize(
    ("options", "host", "said"),
    [
        (lambda known, other: trusting(other), "127.0.0.1", "certificate verify failed"),
        (lambda known, other: trusting(known), "localhost", 'does not match host name "localhost"'),
        (lambda known, other: {"sslmode": "verify-full"}, "127.0.0.1", "root certificate"),
    ],
    ids=["signed by nobody known", "of another name", "with nobody to trust"],
)
def test_an_untrusted_server_is_refused_without_retries(
    database: Database,
    certificate: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: Any,
    host: str,
    said: str,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    other = make_certificate(tmp_path, "other", "IP:127.0.0.1")
    url = database.url.replace("127.0.0.1", host)
    env = rh.Environment(1, runtime="simulated")
    rows = env.from_source(rh.collection(PAGES))
    sink = rh.postgres.sink("refused", url=url, options=options(certificate, other), mode="append")
    rows.sink_to(sink)
    with pytest.raises(ConfigurationError) as refused:
        env.execute("write")
    assert said in str(refused.value)
    assert database.password not in str(refused.value)
    assert refused.value.site is not None
