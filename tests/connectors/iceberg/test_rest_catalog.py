"""Tables of a REST catalog have each row once, whatever happens to the server and its answers.

The server is Iceberg's reference implementation. IC1 to IC7: docs/protocols/iceberg-sink.md.
"""

from __future__ import annotations

import http.server
import itertools
import logging
import random
import shutil
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import rheos as rh
from rheos.connectors.iceberg import rest_catalog
from rheos.connectors.iceberg.catalogs import catalog_of
from rheos.core.errors import ConfigurationError, UnavailableError
from rheos.testing import check_sink, check_source
from rheos.testing.servers import IcebergRestCatalog
from tests.connectors.faulting_proxy import FaultingProxy, HttpFault, Request, Storm
from tests.connectors.iceberg.test_sink import SCHEMA, Job
from tests.connectors.postgres.test_tls import make_certificate
from tests.frozen import frozen_server

SLOW = "the server is a JVM"
_numbers = itertools.count()


# --- without a server -------------------------------------------------------------------------------


def test_a_catalog_without_a_type_is_refused_without_showing_its_uri() -> None:
    with pytest.raises(ConfigurationError, match="has no type") as caught:
        catalog_of({"uri": "mysql://user:SECRET@host/db"}).load()
    assert "SECRET" not in str(caught.value)


def test_every_request_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the requests for a token, and those before the catalog's configuration is known."""
    monkeypatch.setattr(rest_catalog, "ANSWER_S", 0.05)
    with frozen_server() as port:
        uri = f"http://127.0.0.1:{port}"
        token = {"credential": "user:SECRET", "oauth2-server-uri": f"{uri}/token"}
        for properties in ({}, token):
            sink = rh.iceberg.sink("shop.t", catalog={"type": "rest", "uri": uri, **properties})
            with pytest.raises(UnavailableError, match="timed out") as caught:
                sink.prepared(SCHEMA, ("job", "table"))
            assert "SECRET" not in str(caught.value)


def test_a_named_catalog_keeps_its_secret_out_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    class Catalog(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"defaults": {}, "overrides": {}}')

        def log_message(self, *args: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Catalog) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", "SECRET")
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__OAUTH2_SERVER_URI", "https://unused")
        catalog = catalog_of("lake")
        assert catalog.load().properties["token"] == "SECRET"
        server.shutdown()
    assert catalog.key == ("lake",)
    assert seen == ["Bearer SECRET"]


# --- on the server ----------------------------------------------------------------------------------


@pytest.fixture
def server(iceberg_rest_catalog: IcebergRestCatalog) -> IcebergRestCatalog:
    iceberg_rest_catalog.start()  # A test may have killed it.
    return iceberg_rest_catalog


@pytest.fixture
def new_job(
    server: IcebergRestCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Job]:
    """Return a function that creates a job on a table of its own; it connects to `uri`, but its rows
    are read from the server itself."""

    def new(uri: str = server.url, **properties: Any) -> Job:
        name = f"shop{next(_numbers)}.t"
        monkeypatch.setattr("tests.connectors.iceberg.test_sink.NAME", name)
        made = Job(tmp_path, catalog={"type": "rest", "uri": uri, **properties})
        made.catalog = {"type": "rest", "uri": server.url}
        return made

    return new


@pytest.mark.slow
@pytest.mark.proves("Iceberg REST", slow_because=SLOW)
def test_tables_are_written_read_and_followed(server: IcebergRestCatalog) -> None:
    catalog = {"type": "rest", "uri": server.url}
    for begin in (0, 10):
        env = rh.Environment(2, runtime="simulated")
        rows = env.from_source(rh.collection([{"n": n, "k": n % 5} for n in range(begin, begin + 10)]))
        rows.sink_to(rh.iceberg.sink("whole.rows", catalog=catalog, partition_by=["bucket[2](k)"]))
        rows.sink_to(rh.iceberg.sink("whole.newest", catalog=catalog, key="k"))
        env.execute("rows into tables")
    found = check_source(rh.iceberg.source("whole.rows", catalog=catalog), positions=3)
    assert sorted(row["n"] for of_split in found.values() for row in of_split) == [*range(20)]
    newest = load_catalog("x", **catalog).load_table("whole.newest").scan().to_arrow().to_pylist()
    assert sorted(row["n"] for row in newest) == [*range(15, 20)]
    env = rh.Environment(runtime="simulated")
    changes = rh.iceberg.changes("whole.newest", catalog=catalog, since=0, end="now")
    env.from_source(changes).upserts(key="k").collect("rows")
    followed = env.execute("changes").collected["rows"].to_pylist()
    assert [change["op"] for change in followed].count("delete") <= 5
    assert {row["k"]: row["n"] for row in followed if row["op"] != "delete"} == {
        row["k"]: row["n"] for row in newest
    }


@pytest.mark.slow
@pytest.mark.proves("Iceberg REST", slow_because=SLOW)
def test_the_sink_keeps_the_contract(server: IcebergRestCatalog) -> None:
    catalog = {"type": "rest", "uri": server.url}

    def make(name: str, schema: pa.Schema) -> Any:
        named = f"kit.{name}".replace(" ", "_")
        sink = rh.iceberg.sink(named, catalog=catalog)
        return (
            sink,
            lambda: load_catalog("x", **catalog).load_table(named).scan().to_arrow().cast(schema),
        )

    assert len(check_sink(make)) == 16


@pytest.mark.slow
@pytest.mark.proves("Iceberg REST", faults=["another writer is first"], slow_because=SLOW)
def test_writers_that_are_first_are_kept(new_job: Callable[..., Job]) -> None:
    """IC3: the server refuses a commit on an older snapshot with 409."""
    job = new_job()
    ours, theirs = threading.Barrier(2), []

    def others() -> None:
        ours.wait()
        for n in range(100, 110):
            while True:
                try:
                    job.write_elsewhere(n)
                    break
                except Exception as error:
                    theirs.append(error)

    writer = threading.Thread(target=others)
    writer.start()
    ours.wait()
    for n in range(10):
        job.commit(job.stage(n))
    writer.join()
    assert job.numbers() == [*range(10), *range(100, 110)]
    assert len(job.table().metadata.snapshots) == 20


@pytest.mark.slow
@pytest.mark.proves("Iceberg REST", faults=["requests fail", "answers are lost"], slow_because=SLOW)
@pytest.mark.parametrize("seed", range(3))
def test_commits_through_a_storm_are_each_made_once(
    new_job: Callable[..., Job], server: IcebergRestCatalog, seed: int
) -> None:
    port = int(server.address.rpartition(":")[2])
    faults = set(HttpFault) - {HttpFault.SLOW, HttpFault.STALE, HttpFault.EXPIRED}
    with FaultingProxy(port, dialect="gcs") as proxy:
        job = new_job(f"http://127.0.0.1:{proxy.port}")
        proxy.strike = Storm(seed, faults)
        for n in range(12):
            until_done(job, job.stage(n))
    assert len(proxy.struck) >= 4, proxy.struck
    assert job.numbers() == [*range(12)]
    assert len(job.table().metadata.snapshots) == 12


@pytest.mark.slow
@pytest.mark.proves(
    "Iceberg REST", faults=["the server is killed", "the server freezes"], slow_because=SLOW
)
def test_commits_are_each_made_once_though_the_server_is_killed(
    new_job: Callable[..., Job], server: IcebergRestCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_catalog, "ANSWER_S", 2.0)
    job, rng = new_job(), random.Random(1)
    for n in range(5):
        staged = job.stage(n)
        if n == 2:
            server.freeze()
            with pytest.raises(UnavailableError, match="timed out"):
                job.commit(staged)
            server.thaw()
        else:
            # A commit takes some 50 ms, most of them in the server.
            killer = threading.Timer(rng.uniform(0.0, 0.06), server.kill)
            killer.start()
            with_outage = attempted(job, staged)
            killer.join()
            server.start()
            if not with_outage:
                assert n in job.numbers(), "the server had answered that the commit is made"
        until_done(job, staged)
    assert job.numbers() == [*range(5)]
    assert len(job.table().metadata.snapshots) == 5


@pytest.mark.slow
@pytest.mark.proves("Iceberg REST", slow_because=SLOW)
def test_a_catalog_is_reached_with_tls_and_a_token(
    new_job: Callable[..., Job],
    server: IcebergRestCatalog,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    certificate = make_certificate(tmp_path, "catalog", "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, tmp_path / "catalog.key")

    def unless_authorized(request: Request) -> HttpFault | None:
        asks_for_token = request.path == "/v1/oauth/tokens"
        # The server returns a token that consists of the user's name, and accepts any.
        known = str(request.headers["Authorization"]).startswith(
            "Bearer client-credentials-token:sub=u"
        )
        return None if asks_for_token or known else HttpFault.EXPIRED

    caplog.set_level(logging.DEBUG)
    with FaultingProxy(int(server.address.rpartition(":")[2]), dialect="gcs") as proxy:
        proxy.secure(context)
        proxy.strike = unless_authorized
        uri = f"https://127.0.0.1:{proxy.port}"
        login = {"credential": "u:SECRET", "oauth2-server-uri": f"{uri}/v1/oauth/tokens"}
        with pytest.raises(ConfigurationError, match="CERTIFICATE_VERIFY_FAILED"):
            new_job(uri, **login)
        with pytest.raises(ConfigurationError, match="Unauthorized"):
            new_job(uri, ssl={"cabundle": str(certificate)})
        job = new_job(uri, ssl={"cabundle": str(certificate)}, **login)
        job.commit(job.stage(1))
    assert job.numbers() == [1]
    assert "SECRET" not in caplog.text + repr(job.sink)


def attempted(job: Job, staged: list[bytes]) -> bool:
    """Try to commit. Return whether it has failed by an outage."""
    try:
        job.commit(staged)
    except UnavailableError:
        return True
    return False


def until_done(job: Job, staged: list[bytes]) -> None:
    """Commit as the driver does, which waits for outages to pass."""
    for _ in range(20):
        if not attempted(job, staged):
            return
    raise AssertionError("no commit has succeeded")
