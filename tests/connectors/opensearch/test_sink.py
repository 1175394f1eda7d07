"""Documents by id: content of requests, and handling of refused items."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.opensearch.client import Connection, Endpoint
from rheos.connectors.opensearch.sink import OpenSearchSink
from rheos.core.connectors import backoff
from rheos.core.connectors.contract import SinkWriter
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    SchemaError,
    UnavailableError,
)
from rheos.core.protocol.ids import CheckpointId
from tests.connectors.opensearch.stand_in import StandIn, items
from tests.connectors.ports import batch_of, sink_context

SCHEMA = pa.schema({"id": pa.string(), "n": pa.int64()})
CHECKPOINT = CheckpointId(1)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "_FIRST_WAIT_US", 0)


class Writing:
    def __init__(self, sink: OpenSearchSink, schema: pa.Schema = SCHEMA) -> None:
        sink.validate(schema)
        self.counts: dict[str, int] = {}
        ctx = sink_context(schema)
        ctx.count = self._count
        self.schema = schema
        self.writer: SinkWriter = sink.open(ctx)

    def _count(self, name: str, by: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + by

    def write(self, *rows: Any) -> None:
        """Write rows and prepare a checkpoint."""
        named = [
            row if isinstance(row, dict) else dict(zip(("id", "n"), row, strict=True)) for row in rows
        ]
        self.writer.write(batch_of(self.schema, *named))
        assert self.writer.prepare(CHECKPOINT) == []


def to(server: StandIn, **more: Any) -> OpenSearchSink:
    return rh.opensearch.sink(server.url, **{"index": "numbers", "id": "id", **more})


def test_only_the_newest_row_of_an_id_is_sent() -> None:
    with StandIn([]) as server:
        job = Writing(to(server))
        job.write(("a", 1), ('b"', 2), ("a", 3))
        job.writer.close()
        assert server.requests == [
            [
                {"index": {"_id": 'b"'}},
                {"id": 'b"', "n": 2},
                {"index": {"_id": "a"}},
                {"id": "a", "n": 3},
            ]
        ]


def test_versions_and_deletes_are_sent() -> None:
    schema = SCHEMA.append(pa.field("gone", pa.bool_()))
    with StandIn(
        [items(200, 409), lambda lines: (200, {"items": [{"delete": {"status": 404}}]})]
    ) as server:
        job = Writing(to(server, version="n", delete="gone"), schema)
        job.write({"id": "a", "n": 7, "gone": None}, {"id": "a", "n": 6, "gone": False})
        job.write({"id": "a", "n": 8, "gone": True})
        version = {"version_type": "external_gte"}
        assert server.requests == [
            [
                {"index": {"_id": "a", "version": 7, **version}}, {"id": "a", "n": 7},
                {"index": {"_id": "a", "version": 6, **version}}, {"id": "a", "n": 6},
            ],
            [{"delete": {"_id": "a", "version": 8, **version}}],
        ]  # fmt: skip
        assert job.counts == {"stale": 1}


def test_only_rejected_items_are_sent_again() -> None:
    with StandIn([(500, {}), (429, {}), items(200, 429, 200), items(503), items(500)]) as server:
        job = Writing(to(server, on_error="skip"))
        job.write(("a", 1), ("b", 2), ("c", 3))
        sent = [[line["index"]["_id"] for line in lines[::2]] for lines in server.requests]
        assert sent == [["a", "b", "c"]] * 3 + [["b"]] * 3
        assert job.counts == {"retries": 5}


def test_retries_end() -> None:
    with StandIn([(503, {"error": "too busy"})] * 9) as server:
        job = Writing(to(server, retry_for="0s"))
        with pytest.raises(UnavailableError, match=r"the server is overloaded, .*too busy"):
            job.write(("a", 1))
    away = Writing(to(server, retry_for="0s"))
    with pytest.raises(UnavailableError, match="does not answer"):
        away.write(("a", 1))
    with pytest.raises(UnavailableError, match="does not answer"):
        to(server, retry_for="0s").prepared(SCHEMA, ("job", "sink"))


def test_a_row_that_is_refused_ends_the_job_or_is_counted() -> None:
    with StandIn([items(200, 400)]) as server:
        with pytest.raises(InputError) as raised:
            Writing(to(server)).write(("a", 1), ("b", 2))
        assert raised.value.what == "document 'b' is rejected by the index 'numbers': status 400, t, r"
        assert raised.value.record == "{'id': 'b', 'n': 2}"
    with StandIn([items(200, 400, 429)]) as server:
        job = Writing(to(server, on_error="skip"))
        job.write(("a", 1), ("b", 2), ("c", 3))
        assert job.counts == {"rejected": 1, "retries": 1}


@pytest.mark.parametrize("on_error", ["fail", "skip"])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, "index_not_found_exception"),
        (403, "security_exception"),
        (401, "security_exception"),
        (400, "index_closed_exception"),
        (400, "cluster_block_exception"),
        (405, "t"),
    ],
)
def test_errors_not_caused_by_a_row_skip_none(on_error: str, status: int, kind: str) -> None:
    with StandIn([items(200, status, kind=kind)]) as server:
        job = Writing(to(server, on_error=on_error))
        with pytest.raises(ConfigurationError) as raised:
            job.write(("a", 1), ("b", 2))
        assert raised.value.what == f"the index 'numbers' cannot be written: status {status}, {kind}, r"
        assert job.counts == {}


def test_requests_are_bounded_and_halved_if_too_large() -> None:
    with StandIn([(413, {})]) as server:
        job = Writing(to(server, max_request_bytes=1024))
        job.write(*((f"{n:040}", n) for n in range(30)))
        sizes = [len(lines) // 2 for lines in server.requests]
        assert sum(sizes[1:]) == 30
        assert sizes[1] + sizes[2] == sizes[0]
        assert max(sizes) < 12
    with StandIn([(413, {"error": {"type": "x", "reason": "too large"}})]) as server:
        with pytest.raises(InputError, match="too large") as raised:
            Writing(to(server)).write(("a", 1))
        assert raised.value.record == "{'id': 'a', 'n': 1}"
    with StandIn([(413, {}), (413, {})]) as server:
        job = Writing(to(server, on_error="skip"))
        job.write(("a", 1), ("b", 2))
        assert [len(lines) // 2 for lines in server.requests] == [2, 1, 1]
        assert job.counts == {"rejected": 1}


@pytest.mark.parametrize("said", [{}, {"items": [{}]}, {"items": [{"index": {"status": "x"}}]}, [1]])
def test_unexpected_answers_are_errors(said: Any) -> None:
    with StandIn([(200, said)] * 9) as server, pytest.raises(UnavailableError):
        Writing(to(server, retry_for="0s")).write(("a", 1))


def test_users_and_keys_are_sent_and_never_shown() -> None:
    with StandIn([(401, {"error": "who?"})]) as server:
        secret = server.url.replace("http://", "http://ada:love%40l%C3%A4ce%E2%82%AC@")
        sink = rh.opensearch.sink(secret, index="numbers", id="id")
        with pytest.raises(ConfigurationError, match=r"the server rejects the user, .*who") as raised:
            Writing(sink).write(("a", 1))
        login = b64encode("ada:love@läce€".encode()).decode()
        assert server.headers[0]["Authorization"] == f"Basic {login}"
        keyed = rh.opensearch.sink(server.url, index="numbers", id="id", api_key="topsecret")
        Writing(keyed).write(("a", 1))
        assert server.headers[1]["Authorization"] == "ApiKey topsecret"
        shown = f"{sink!r} {sink.describe()} {keyed!r} {raised.value}"
        assert "love" not in shown
        assert "topsecret" not in shown


@pytest.mark.parametrize(
    "given",
    [
        {"url": "https://user:s3cr/et=@host:9200"},
        {"url": "https://user:s3cr#et=@host:9200"},
        {"api_key": "s3cret\n"},
        {"api_key": "s3cret "},
        {"api_key": "s3créet"},
        {"api_key": b"s3cret"},
        {"api_key": ""},
    ],
)
def test_secrets_that_cannot_be_sent_are_refused_and_not_shown(given: Any) -> None:
    with pytest.raises(ProgramError) as raised:
        rh.opensearch.sink(**{"url": "http://h:1", "index": "i", "id": "id", **given})
    assert raised.value.site is not None
    assert raised.value.site.file == __file__
    assert "s3cr" not in f"{raised.value!r} {raised.value} {raised.value.hint}"


def test_a_request_that_cannot_be_sent_shows_no_secret() -> None:
    endpoint = Endpoint("http://127.0.0.1:1", None, None)
    connection = Connection(endpoint)
    connection._session._headers["Authorization"] = "ApiKey s3cret\n"
    with pytest.raises(ConfigurationError, match="cannot be sent") as raised:
        connection.ask("GET", "/")
    assert "s3cret" not in f"{raised.value} {raised.value.hint}"
    assert raised.value.__suppress_context__


def test_without_ids_the_server_generates_them() -> None:
    with StandIn([]) as server:
        job = Writing(to(server, id=None))
        job.write(("a", 1), ("a", 2))
        assert server.requests == [
            [{"index": {}}, {"id": "a", "n": 1}, {"index": {}}, {"id": "a", "n": 2}]
        ]


@pytest.mark.parametrize("id", [None, "", "x" * 513])
def test_a_row_without_an_id_is_an_error(id: str | None) -> None:
    with StandIn([]) as server, pytest.raises(InputError, match="its id \\('id'\\) is"):
        Writing(to(server)).write((id, 1))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"url": "localhost:9200"}, ProgramError),
        ({"url": "https://:9200"}, ProgramError),
        ({"url": "https://host:9200?pretty"}, ProgramError),
        ({"index": "Orders"}, ProgramError),
        ({"id": None, "delete": "gone"}, ProgramError),
        ({"max_request_bytes": 1}, ProgramError),
        ({"id": "missing"}, SchemaError),
        ({"version": "id"}, SchemaError),
        ({"delete": "n"}, SchemaError),
    ],
)
def test_invalid_arguments_are_refused(given: Any, error: type[ProgramError]) -> None:
    with pytest.raises(error):
        rh.opensearch.sink(**{"url": "http://h:1", "index": "i", "id": "id", **given}).validate(SCHEMA)


HOSTILE = (
    '"}}\n{"delete":{"_index":"other","_id":"1"}}\n{"',
    "a\r\nb\u2028c\u0085d",
    "\x00\x01\x1f\x7f",
    "\\u0000\\",
    "../_all/_bulk?x=#",
    "__proto__",
    "\U0010ffff\ufeff\u202e",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_strings_cannot_inject_actions(text: str) -> None:
    """Check that each row is one action and one document with unchanged strings, in the sink's
    index."""
    schema = pa.schema({"id": pa.string(), "_id": pa.string(), "__proto__": pa.string()})
    with StandIn([]) as server:
        Writing(to(server), schema).write({"id": text, "_id": text, "__proto__": text})
        [lines] = server.requests
    assert lines == [{"index": {"_id": text}}, {"id": text, "_id": text, "__proto__": text}]


@pytest.mark.parametrize("version", [-1, 1 << 63, (1 << 64) - 1])
def test_an_invalid_version_is_an_error_with_its_row(version: int) -> None:
    kind = pa.int64() if version < 0 else pa.uint64()
    schema = pa.schema({"id": pa.string(), "v": kind})
    with (
        StandIn([]) as server,
        pytest.raises(InputError, match=r"its version \('v'\) is not") as raised,
    ):
        Writing(to(server, version="v"), schema).write({"id": "a", "v": 1}, {"id": "b", "v": version})
    assert raised.value.record == f"{{'id': 'b', 'v': {version}}}"


def test_a_row_that_causes_the_refusal_of_a_request_is_named() -> None:
    def answer(lines: list[Any]) -> Any:
        bad = any(line.get("n") == 3 for line in lines)
        return (
            (400, {"error": {"type": "x", "reason": "no"}})
            if bad
            else items(*[200] * (len(lines) // 2))
        )

    with StandIn([answer] * 20) as server:
        with pytest.raises(InputError, match="no") as raised:
            Writing(to(server)).write(*((str(n), n) for n in range(8)))
        written = [line["n"] for lines in server.requests for line in lines if "n" in line]
    assert raised.value.record == "{'id': '3', 'n': 3}"
    assert {0, 1, 2} <= set(written)
