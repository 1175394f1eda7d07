"""Arguments of MongoDB's functions, and conversions of documents: without a server."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.mongodb.documents import rows_of
from rheos.connectors.mongodb.session import MongodbAddress, mongodb_error
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    SchemaError,
    UnavailableError,
)

URL = "mongodb://ada:s3cret@h1:1,h2:2/shop?replicaSet=rs0"
bson = pytest.importorskip("bson")
errors = pytest.importorskip("pymongo.errors")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"collection": ""}, "not a valid name"),
        ({"collection": "$cmd"}, "not a valid name"),
        ({"url": "http://s3cret@h/x"}, "not a valid URL"),
        ({"url": "mongodb://ada:s3cret@h"}, "lacks the host or the database"),
        ({"url": "mongodb://ada:s3/cret@h/x"}, "is not a valid URL"),
        ({"id": ["a", "a"]}, "does not name columns"),
        ({"id": None, "delete": "gone"}, "delete= needs id="),
        ({"options": {"tls": "s3cret"}}, "unknown option 'tls'"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ProgramError, match=text) as raised:
        rh.mongodb.sink(**{"collection": "t", "url": URL, "id": "k", **arguments})
    assert str(raised.value).startswith(f"{__file__}:")
    assert "s3cret" not in f"{raised.value} {raised.value.hint}"


def test_no_secret_is_shown() -> None:
    sink = rh.mongodb.sink("t", url=URL, id="k")
    assert sink.describe() == "MongoDB collection t at h1:1,h2:2/shop"
    assert "s3cret" not in repr(sink)
    server = MongodbAddress.of(URL)
    error = mongodb_error(errors.AutoReconnect("lost s3cret"), "the collection t", server)
    assert str(error).startswith("the collection t, at h1:1,h2:2/shop: lost ***")


@pytest.mark.parametrize(
    ("columns", "kind", "text"),
    [
        ([("k", pa.string()), ("a.b", pa.int64())], SchemaError, "named 'a.b'"),
        ([("k", pa.string()), ("$a", pa.int64())], SchemaError, "named '\\$a'"),
        ([("k", pa.string()), ("t", pa.duration("us"))], SchemaError, "cannot write"),
        ([("k", pa.string()), ("s", pa.struct([("$x", pa.int8())]))], SchemaError, "named"),
        ([("k", pa.string()), ("d", pa.decimal128(35, 1))], SchemaError, "cannot write"),
        ([("k", pa.float64())], SchemaError, "id= names the column 'k'"),
        ([("n", pa.int64())], SchemaError, "does not have"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(columns: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        rh.mongodb.sink("t", url=URL, id="k").validate(pa.schema(columns))


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (5, pa.int8(), 5),
        (5.0, pa.int64(), 5),
        (5, pa.float64(), 5.0),
        (None, pa.int64(), None),
        (bson.ObjectId("6b0add5c6a88481235ccbdbe"), pa.string(), "6b0add5c6a88481235ccbdbe"),
        ({"a": [1, None]}, pa.string(), '{"a": [1, null]}'),
        (True, pa.string(), "true"),
        (bson.Decimal128("1.50"), pa.string(), "1.50"),
        (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), pa.date32(), dt.date(2026, 1, 2)),
        (300, pa.int8(), InputError),
        (5.5, pa.int64(), InputError),
        (True, pa.int64(), InputError),
        (1, pa.bool_(), InputError),
        ("5", pa.int64(), InputError),
        (2**53 + 1, pa.float64(), InputError),
        (bson.Decimal128("1.55"), pa.decimal128(3, 1), InputError),
        (bson.Decimal128("NaN"), pa.decimal128(3, 1), InputError),
        (5, pa.timestamp("ms", "UTC"), InputError),
        (dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), pa.date32(), InputError),
        ("ab", pa.list_(pa.string()), InputError),
        ("a", pa.binary(), InputError),
        (b"a", pa.binary(), b"a"),
        ([{"a": 1}, None], pa.list_(pa.struct([("a", pa.int8())])), [{"a": 1}, None]),
        (5, pa.struct([("a", pa.int64())]), InputError),
    ],
)
def test_values_of_documents(value: Any, kind: pa.DataType, expected: Any) -> None:
    document = {"_id": 1, "x": value}
    schema = pa.schema([("x", kind)])
    if expected is InputError:
        with pytest.raises(InputError, match="the field 'x' of a document of t") as raised:
            rows_of([{"_id": 0}, document], schema, "t")
        assert raised.value.record == "_id=1"
    else:
        assert rows_of([document], schema, "t").to_pylist() == [{"x": expected}]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.ServerSelectionTimeoutError("no server"), UnavailableError),
        (errors.OperationFailure("stepped down", 189), UnavailableError),
        (errors.OperationFailure("not allowed", 13), ConfigurationError),
        (errors.OperationFailure("wrong password", 18), ConfigurationError),
        (errors.OperationFailure("no replica set", 40573), ConfigurationError),
        (errors.OperationFailure("bad query", 2), InputError),
        (bson.errors.InvalidDocument("bad"), InputError),
    ],
)
def test_errors_of_the_client(error: Exception, kind: type[Exception]) -> None:
    assert type(mongodb_error(error, "it fails", MongodbAddress.of(URL))) is kind


def test_declarations_of_changes() -> None:
    for arguments, kind, text in (
        ({"schema": {"n": int}}, SchemaError, "lacks '_id'"),
        ({"schema": {"_id": str, "op": str}}, SchemaError, "two columns are named 'op'"),
        ({"schema": {"_id": str}, "metadata": "before"}, ProgramError, "unknown field 'before'"),
        ({"schema": {"_id": str}, "end": "later"}, ProgramError, "end='later'"),
    ):
        with pytest.raises(kind, match=text):
            rh.mongodb.changes("t", url=URL, **arguments)
    with pytest.raises(SchemaError, match="has the key '_id'"):
        rh.mongodb.lookup("t", url=URL, key="_id", schema={"_id": str})
