"""Arguments of the sink, and the meaning of the server's answers: without a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.clickhouse.columns import limits_of, type_for
from rheos.connectors.clickhouse.session import ClickhouseSession, ServerAddress, literal, quoted
from rheos.connectors.clickhouse.target_table import TableName, creation
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    SchemaError,
    UnavailableError,
)

URL = "http://ada:s3cret@127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"table": "a.b.c"}, "not a valid table name"),
        ({"table": ""}, "not a valid table name"),
        ({"url": "clickhouse://s3cret@h"}, "not a valid URL"),
        ({"url": "http://h?database=s3cret"}, "not the URL"),
        ({"key": ["a", "a"]}, "does not name columns"),
        ({"delete": "gone"}, "delete= needs key="),
        ({"delivery": "maybe"}, "is not known"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ProgramError, match=text) as raised:
        rh.clickhouse.sink(**{"table": "t", "url": URL, **arguments})
    assert str(raised.value).startswith(f"{__file__}:")
    assert "s3cret" not in f"{raised.value} {raised.value.hint}"


def test_no_secret_is_shown() -> None:
    sink = rh.clickhouse.sink("shop.t", url=URL, key="id")
    assert "s3cret" not in f"{sink!r} {sink.describe()}"
    assert sink.describe() == "ClickHouse table shop.t at http://127.0.0.1:1, upserts by id"


def test_columns_that_cannot_be_written_are_refused() -> None:
    sink = rh.clickhouse.sink("t", url=URL, key="id")
    for schema, text in (
        ([("id", pa.int64()), ("x", pa.list_(pa.int64()))], "which the sink cannot write"),
        ([("x", pa.int64())], "does not have"),
    ):
        with pytest.raises(SchemaError, match=text):
            sink.validate(pa.schema(schema))


@pytest.mark.parametrize(
    ("type", "kind", "fits"),
    [
        ("Nullable(Int64)", pa.int64(), True),
        ("LowCardinality(Nullable(String))", pa.string(), True),
        ("FixedString(3)", pa.string(), False),
        ("UUID", pa.string(), False),
        ("Float32", pa.float64(), False),
        ("Float64", pa.int64(), False),
        ("Decimal(10, 2)", pa.decimal128(10, 3), False),
        ("Decimal(12, 3)", pa.decimal128(10, 2), True),
        ("Date", pa.date32(), True),
        ("DateTime('Europe/Berlin')", pa.timestamp("us", "UTC"), True),
        ("DateTime64(9)", pa.timestamp("ns"), True),
        ("Date32", pa.timestamp("s"), False),
        ("Array(Int64)", pa.int64(), False),
    ],
)
def test_types_of_columns(type: str, kind: pa.DataType, fits: bool) -> None:
    assert (limits_of("x", type, kind) is not None) is fits


def test_a_statement_creates_a_table_that_fits() -> None:
    schema = pa.schema(
        [
            pa.field("k`", pa.string()),
            pa.field("n", pa.uint16(), False),
            pa.field("d", pa.decimal128(5, 1)),
            pa.field("gone", pa.bool_()),
        ]
    )
    assert creation(TableName("shop", "t"), schema, ["k`"], "gone") == (
        "CREATE TABLE `shop`.`t` (`k\\`` String, `n` UInt16, `d` Nullable(Decimal(5, 1)), "
        "version UInt64 DEFAULT toUnixTimestamp64Micro(now64(6)), deleted UInt8) "
        "ENGINE = ReplacingMergeTree(version, deleted) ORDER BY (`k\\``) "
        "SETTINGS non_replicated_deduplication_window = 10000"
    )
    for kind in (pa.float32(), pa.date32(), pa.timestamp("ms"), pa.bool_(), pa.large_binary()):
        made = type_for(kind, True)
        assert made is not None
        assert limits_of("x", made, kind) is not None


def test_names_and_values_are_quoted() -> None:
    assert quoted("a`b\\") == "`a\\`b\\\\`"
    assert literal("a'b\\") == "'a\\'b\\\\'"
    assert literal(-5) == "-5"


@contextmanager
def answering(status: int, content: bytes) -> Iterator[str]:
    """Run a server with a fixed answer. Yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (500, b"Code: 241. DB::Exception: Memory limit exceeded", UnavailableError),
        (500, b"Code: 252. DB::Exception: Too many parts", UnavailableError),
        (503, b"<html>", UnavailableError),
        (403, b"Code: 516. DB::Exception: ada: Authentication failed", ConfigurationError),
        (404, b"Code: 60. DB::Exception: Table t does not exist", ConfigurationError),
        (404, b"not found", ConfigurationError),
        (400, b"Code: 27. DB::Exception: Cannot parse input", InputError),
        (200, b"<html>", UnavailableError),
        (200, b'{"name": 5}', UnavailableError),
    ],
)
def test_the_meaning_of_answers(status: int, content: bytes, kind: type[Exception]) -> None:
    with answering(status, content) as url:
        session = ClickhouseSession(ServerAddress(url, None), "the table t cannot be read")
        with pytest.raises(kind, match="the table t cannot be read"):
            session.rows("SELECT name FROM t", dict[str, str])
        session.close()
