"""Arguments of source, lookup and sink that are refused, and errors of the gateway."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.hbase.session import HbaseGateway, hbase_error
from rheos.connectors.hbase.source import KeyRange
from rheos.core.connectors.capabilities import session_of
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    RheosError,
    SchemaError,
    UnavailableError,
)

thrift: Any = pytest.importorskip("thriftpy2.thrift")
transport: Any = pytest.importorskip("thriftpy2.transport")
SINK: dict[str, Any] = {"table": "t", "gateway": "h", "key_columns": "k", "family": "cf"}
SOURCE: dict[str, Any] = {**SINK, "schema": {"k": str, "n": int}}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"table": "a b"}, "is not the name of a table"),
        ({"table": "a:b:c"}, "is not the name of a table"),
        ({"gateway": "http://h:1"}, "is not a host and a port"),
        ({"gateway": "h:x"}, "is not a host and a port"),
        ({"gateway": ""}, "is not a host and a port"),
        ({"key_columns": []}, "does not name columns"),
        ({"key_columns": ["k", "k"]}, "does not name columns"),
        ({"family": None}, "no column family is named"),
        ({"family": "a:b"}, "is not the name of a family"),
        ({"columns": {"n": "price"}}, "is not a family and a qualifier"),
        ({"columns": ["n"]}, "columns= must be a dict"),
        ({"options": {"tls": "on"}}, "unknown option 'tls'"),
        ({"options": {"transport": "http"}}, "the option 'transport' is 'http'"),
    ],
)
def test_invalid_arguments_are_refused(given: dict[str, Any], text: str) -> None:
    for create, arguments in ((rh.hbase.sink, SINK), (rh.hbase.source, SOURCE)):
        with pytest.raises(ProgramError, match=text) as raised:
            create(**{**arguments, **given})
        assert str(raised.value).startswith(f"{__file__}:")


def test_bounds_of_row_keys_are_bytes() -> None:
    with pytest.raises(ProgramError, match="first='a' is not a row key"):
        rh.hbase.source(**SOURCE, first="a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "given", "text"),
    [
        ({"n": pa.int64()}, {}, "the row key's column 'k' is missing"),
        ({"k": pa.string()}, {}, "no column besides those of the row key"),
        ({"k": pa.float64(), "n": pa.int64()}, {}, "cannot be part of a row key"),
        ({"k": pa.string(), "n": pa.list_(pa.int8())}, {}, "has no encoding"),
        ({"k": pa.string(), "n": pa.int64()}, {"columns": {"k": "cf:k"}}, "is part of the row key"),
        ({"k": pa.string(), "n": pa.int64()}, {"columns": {"m": "cf:m"}}, "the rows do not have"),
        (
            {"k": pa.string(), "n": pa.int64(), "m": pa.int64()},
            {"columns": {"m": "cf:n"}},
            "have one cell, cf:n",
        ),
        (
            {"k": pa.string(), "n": pa.int64(), "m": pa.int64()},
            {"columns": {"m": "cf:m"}, "family": None},
            "the column 'n' has no family",
        ),
        ({"k": pa.string(), "n": pa.int64()}, {"delete": "n"}, "must be true or false"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(columns: Any, given: Any, text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        rh.hbase.sink(**{**SINK, **given}).validate(pa.schema(columns))


def test_the_source_needs_no_session_of_spark() -> None:
    """Its own sessions are those of HBase, and no method has the name of Spark's."""
    assert session_of(rh.hbase.source(**SOURCE)) is None


def test_a_lookup_compares_keys_of_one_type() -> None:
    found = rh.hbase.lookup("t", gateway="h", key="k", schema={"k": int, "n": int}, family="cf")
    found.validate(pa.schema({"x": pa.int32()}))
    with pytest.raises(SchemaError, match="is int64, but the stream's column is string"):
        found.validate(pa.schema({"x": pa.string()}))


@pytest.mark.parametrize(
    ("given", "address"),
    [("h", "h:9090"), ("h:1", "h:1"), ("[::1]:7", "[::1]:7"), ("::1", "[::1]:9090")],
)
def test_addresses(given: str, address: str) -> None:
    assert HbaseGateway.of(given, None).address == address
    assert rh.hbase.sink(**{**SINK, "gateway": given}).describe() == f"HBase table t at {address}"


class IOErrorOfGateway(thrift.TException):  # type: ignore[misc]
    def __init__(self, message: str) -> None:
        self.message = message.encode()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            IOErrorOfGateway("org.apache.hadoop.hbase.TableNotFoundException: t\n at x"),
            ConfigurationError,
        ),
        (IOErrorOfGateway("...NoSuchColumnFamilyException: cf"), ConfigurationError),
        (
            IOErrorOfGateway("org.apache.hadoop.hbase.security.AccessDeniedException"),
            ConfigurationError,
        ),
        (IOErrorOfGateway("java.lang.IllegalArgumentException: Row length 40000"), InputError),
        (IOErrorOfGateway("RetriesExhaustedException: no region server"), UnavailableError),
        (thrift.TApplicationException(1, "Invalid method name"), ConfigurationError),
        (transport.TTransportException(1, "not connected"), UnavailableError),
        (TimeoutError("timed out"), UnavailableError),
        (ConnectionResetError(), UnavailableError),
        (ValueError("no such field"), InputError),
    ],
)
def test_errors_of_the_gateway(error: Exception, kind: type[RheosError]) -> None:
    found = hbase_error(error, "it fails", HbaseGateway.of("h", None))
    assert type(found) is kind
    assert str(found).startswith("it fails, at h:9090: ")
    assert "\n at x" not in str(found)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ((b"", b""), (b"", b""), (b"", b"")),
        ((b"", b"m"), (b"a", b""), (b"a", b"m")),
        ((b"b", b"m"), (b"a", b"c"), (b"b", b"c")),
        ((b"b", b"c"), (b"c", b""), None),
        ((b"b", b""), (b"", b"b"), None),
    ],
)
def test_ranges_of_row_keys(one: Any, other: Any, both: Any) -> None:
    wanted = None if both is None else KeyRange(*both)
    assert KeyRange(*one).overlap(KeyRange(*other)) == wanted
    assert KeyRange(*other).overlap(KeyRange(*one)) == wanted
