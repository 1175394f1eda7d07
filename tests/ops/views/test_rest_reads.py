"""Reads over REST return what reads on the machine of the job return, and trust no answer."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

pytest.importorskip("starlette", reason="the extra rheos[dashboard] is not installed")

import rheos as rh
from rheos.core.errors import ConfigurationError, RheosError, TransportError
from rheos.core.formats.arrow_bytes import table_bytes
from rheos.ops.dashboard.serving import DashboardConfig, DashboardServer
from rheos.ops.views import rest_reads
from rheos.ops.views.job_views import JobViews
from rheos.runtimes.host.stores import open_store
from rheos.runtimes.views.answers import ViewPage
from tests.ops.views.test_feature_reads import START, purchases
from tests.runtimes.views.jobs import Started, reached

READER, WATCHER = "a token that may read", "a token that may look"
BILLING = "a token that may read sums"
VIEWS = (
    "CREATE MATERIALIZED VIEW sums AS SELECT user, COUNT(*) AS n, SUM(v) AS v FROM rows GROUP BY user"
)


def certificate_in(folder: Path) -> tuple[Path, Path]:
    """Make a certificate of this machine, and return it with its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    making = ["openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]
    curve = ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=127.0.0.1"]
    name = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run([*making, *curve, *name], check=True, capture_output=True)
    return certificate, key


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardServer]:
    """Serve a stored job with a view, features and state. `cert.pem` certifies the server."""
    folder = tmp_path_factory.mktemp("served")
    env = rh.Environment(2, max_parallelism=16, runtime=Started())
    watermark = rh.Watermark.bounded_out_of_orderness("10ms", on="at")
    rows = env.from_source(rh.generator(purchases, count=200, rate_per_s=1000, splits=1), watermark)
    rh.ml.features("last", rows, "user", max_age="20ms", defaults={"v": -1}).publish()
    env.register("rows", rows)
    env.sql_script(VIEWS)
    rows.key_by("user").running(n=rh.agg.count()).uid("totals").sink_to(rh.print_sink())
    job: Any = env.execute_async("shop")
    reached(job, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RHEOS_HOME", str(folder / "home"))
        store = open_store("kept")
        for path, data in job.world.store.files.items():
            store.put(path, data)
        tokens = folder / "tokens.toml"
        tokens.write_text(
            f'[reader]\nrole = "read"\ntoken = "{READER}"\n'
            f'[watcher]\nrole = "look"\ntoken = "{WATCHER}"\n'
            f'[billing]\nrole = "read"\ntoken = "{BILLING}"\nview = ["sum*"]\nstate = ["totals"]\n'
        )
        tokens.chmod(0o600)
        certificate, key = certificate_in(folder)
        config = DashboardConfig(
            port=0, directories=["kept"], tokens=tokens, certificate=certificate, key=key
        )
        server = DashboardServer(config)
        try:
            yield server
        finally:
            server.close()


def far(server: DashboardServer, token: str = READER) -> JobViews:
    return rh.query(server.url, "job", token=token, ca_certs="cert.pem")


READS: list[Callable[[JobViews], Any]] = [
    lambda job: job.views(),
    lambda job: job.states(),
    lambda job: job.view("SUMS").get("u1", columns=["v", "n"]),
    lambda job: job.view("sums").scan("n >= 2 AND user <> 'u2'"),
    lambda job: list(job.view("sums").pages(rows=2)),
    lambda job: job.scans("sums", "totals"),
    lambda job: job.state("totals").get(user="u3"),
    lambda job: job.features("last").get_many(["u1", "nobody"], at=START),
    lambda job: job.sql("SELECT s.user, t.n FROM sums s JOIN totals t USING (user)").table.num_rows,
    lambda job: job.features("last").get_many([f"u{n} " + "k" * 200 for n in range(1000)], at=START),
    lambda job: job.view("sums").scan(" AND ".join(f"user <> '{'k' * n}'" for n in range(200))),
    lambda job: job.state("totals").get("k" * 20_000),
]
REFUSED: list[Callable[[JobViews], Any]] = [
    lambda job: job.view("nothing"),
    lambda job: job.view("sums").get(7),
    lambda job: job.view("sums").scan("m = 1"),
    lambda job: job.view("sums").scan(checkpoint=99),
    lambda job: job.state("nothing").scan(),
    lambda job: job.features("last").get(7),
    lambda job: job.features("last").get_many(["k" * 30] * 1001),
]


@pytest.mark.parametrize("read", READS)
def test_reads_equal_those_of_the_directory(server: DashboardServer, read: Any) -> None:
    assert read(far(server)) == read(rh.query("job@kept"))


@pytest.mark.parametrize("read", REFUSED)
def test_refusals_equal_those_of_the_directory(server: DashboardServer, read: Any) -> None:
    with pytest.raises(RheosError) as there:
        read(far(server))
    with pytest.raises(RheosError) as here:
        read(rh.query("job@kept"))
    assert type(there.value) is type(here.value)
    assert (there.value.what, there.value.hint) == (here.value.what, here.value.hint)
    assert there.value.site is not None
    assert there.value.site.file == __file__


def test_a_token_needs_the_role_that_reads(server: DashboardServer) -> None:
    watcher = far(server, WATCHER)
    assert [info.name for info in watcher.views()] == ["last", "sums"]
    with pytest.raises(ConfigurationError, match="needs the role 'read'"):
        watcher.view("sums").scan()
    with pytest.raises(ConfigurationError, match="needs the role 'read'"):
        watcher.features("last").get_many(["k" * 30] * 1000)
    stranger = far(server, "a token that nobody has")
    for read in (stranger.views, lambda: stranger.features("last").get_many(["k" * 30] * 1000)):
        with pytest.raises(ConfigurationError, match="token"):
            read()
    with pytest.raises(ConfigurationError, match="unknown job 'other'"):
        rh.query(server.url, "other", token=READER, ca_certs="cert.pem").views()


def test_a_token_may_be_limited_to_some_views_and_states(server: DashboardServer) -> None:
    billing, reader = far(server, BILLING), far(server)
    assert billing.views() == reader.views()
    for allowed in (READS[3], READS[5], READS[6], READS[8]):
        assert allowed(billing) == allowed(reader)
    for refused, what in (
        (lambda: billing.view("last").scan(), "may not read view 'last'"),
        (lambda: billing.state("totals", "running").scan(), "may not read state 'totals.running'"),
        (lambda: billing.features("last").get("u1"), "may not read features 'last'"),
        (lambda: billing.features("last").get_many(["k" * 30] * 1000), "may not read features 'last'"),
        (lambda: billing.sql("SELECT * FROM sums s JOIN last l USING (user)"), "may not read view"),
    ):
        with pytest.raises(ConfigurationError, match=f"the token of 'billing' {what}"):
            refused()


def test_the_certificate_is_checked(server: DashboardServer) -> None:
    with pytest.raises(TransportError, match=r"certificate(?s:.*)ca_certs="):
        rh.query(server.url, "job", token=READER).views()


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"job": "http://jobs.example:8484"}, "jobs.example unencrypted"),
        ({"job": "https://user:secret@jobs.example"}, "is not the address"),
        ({"job": "https://jobs.example:port"}, "is not the address"),
        ({"job": "shop"}, "needs a URL, the name of a job, and a token"),
        ({"token": None}, "needs a URL, the name of a job, and a token"),
        ({"token": "a\r\nb"}, "is not a token"),
        ({"ca_certs": "/nowhere.pem"}, "ca_certs='/nowhere.pem' cannot be read"),
    ],
)
def test_wrong_addresses_are_refused_without_a_request(given: dict[str, Any], what: str) -> None:
    usual = {"job": "https://jobs.example:8484", "name": "shop", "token": READER}
    with pytest.raises(ConfigurationError, match=what) as refused:
        rh.query(**{**usual, **given})
    assert "secret" not in str(refused.value)


def test_a_request_that_no_server_accepts_is_not_sent() -> None:
    features = rh.query("http://127.0.0.1:9", "job", token=READER).features("last")
    with pytest.raises(ConfigurationError, match="look up fewer keys"):
        features.get_many(["k" * 300] * 1000)


def test_an_older_server_accepts_no_posted_read() -> None:
    with answering(405, b"") as url, pytest.raises(ConfigurationError, match="no read of this size"):
        rh.query(url, "job", token=READER).features("last").get_many(["k" * 30] * 1000)


# --- answers that are not trusted ---------------------------------------------------------------------


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[str]:
    """Run a server with one answer to every request. Yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def page(data: bytes, columns: list[str]) -> bytes:
    found = ViewPage(view="s", checkpoint=1, completed_ms=0, columns=columns, rows=[], data=data)
    return msgspec.json.encode(found)


NOT_UTF8 = pa.StringArray.from_buffers(
    1, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")
)


@pytest.mark.parametrize(
    ("status", "body", "what"),
    [
        (200, b"<html>", "unreadable answer"),
        (200, b"[" * 100_000, "unreadable answer"),
        (200, b"{}", "unreadable answer"),
        (200, page(b"x", ["n"]), "are damaged"),
        (200, page(table_bytes(pa.table({"n": [1]}))[:-200], ["n"]), "are damaged"),
        (200, page(table_bytes(pa.table({"n": NOT_UTF8})), ["n"]), "are damaged"),
        (200, page(table_bytes(pa.table({"n": [1]})), ["m"]), "have other columns"),
        (200, b" " * 5000, "exceeds 4096 bytes"),
        (302, b"", "answered with the status 302"),
        (502, b"bad gateway", "answered with the status 502"),
        (500, msgspec.json.encode({"kind": "SystemExit", "what": "gone"}), "gone"),
    ],
)
def test_invalid_answers_are_refused(
    status: int, body: bytes, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_reads, "MAX_ANSWER_BYTES", 4096 if body.isspace() else 1 << 20)
    elsewhere = {"Location": "http://127.0.0.1:9/"} if status == 302 else {}
    with answering(status, body, **elsewhere) as url, pytest.raises(RheosError, match=what) as refused:
        rh.query(url, "job", token=READER).state("s").scan()
    assert type(refused.value) is (TransportError if status != 500 else RheosError)
