from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any

import pytest

import rheos as rh
from rheos.core.connectors.contract import Committer, Sink, Source
from rheos.core.connectors.lookup import Lookup
from rheos.core.redaction import RedactedRepr, redacted, redacted_repr


@pytest.mark.parametrize(
    "text",
    [
        "https://user:SECRET@host/a",
        "s3://key:SEC/RET+x@bucket/a",
        "https://host/a?pass=SECRET",
        "https://host/a?db_pass=SECRET&v=1",
        "https://host/a?v=1&code=SECRET",
        "https://host/a#access_token=SECRET",
        "https://host/a?sig=SECRET&sv=1",
        "https://user:SECRET",
        "cannot open https://user:SECRET: no host",
        "jdbc:postgresql://user:SECRET@host/db",
    ],
)
def test_secrets_do_not_appear(text: str) -> None:
    assert "SEC" not in redacted(text)
    assert "RET" not in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://host:8080",
        "http://127.0.0.1:80: refused",
        "(http://host:80)",
        "kafka://a:9092,b:9092",
        "http://[::1]:80/",
        "http://host:{port}/a",
        "https://host/a?country_code=DE&compass=n",
        "s3://bucket/a@b",
        "file:///c:/x",
    ],
)
def test_other_strings_are_unchanged(text: str) -> None:
    assert redacted(text) == text


def subclasses_of(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses_of(each)


def test_no_connector_shows_credentials() -> None:
    """Every source, sink, committer and lookup of Rheos."""
    for name in (
        "files",
        "kafka",
        "kinesis",
        "postgres",
        "mysql",
        "sql_database",
        "duckdb",
        "lancedb",
        "redis",
        "mqtt",
        "nats",
        "rabbitmq",
        "sqs",
        "pulsar",
        "opensearch",
        "cassandra",
        "clickhouse",
        "mongodb",
        "hbase",
        "tables",
        "delta",
        "iceberg",
        "http",
    ):
        getattr(rh, name)
    found = {each for kind in (Source, Sink, Committer, Lookup) for each in subclasses_of(kind)}
    ours = {each for each in found if each.__module__.startswith("rheos.") and is_dataclass(each)}
    assert len(ours) > 15
    assert {each for each in ours if each.__repr__ is not redacted_repr} == set()


def test_a_class_may_define_its_own_repr() -> None:
    @dataclass(frozen=True)
    class Plain(RedactedRepr):
        url: str

    class Own(Plain):
        def __repr__(self) -> str:
            return "own"

    class Derived(Own):
        pass

    assert repr(Plain("s3://k:s@b")).endswith("Plain(url='s3://***@b')")
    assert (repr(Own("a")), repr(Derived("a"))) == ("own", "own")
