"""Arguments of a source, and errors that are found before anything runs. No broker is contacted."""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.kafka.messages import named_fields, with_metadata
from rheos.core.connectors.capabilities import is_endless
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.protocol.splits import Split

pytest.importorskip("confluent_kafka")


@dataclass
class Order:
    user: str
    sent_at: datetime


def made(**more: Any) -> rh.kafka.KafkaSource:
    given: dict[str, Any] = {"brokers": "localhost:9092", "schema": Order, "format": rh.formats.json()}
    return rh.kafka.source("orders", **{**given, **more})


def test_without_a_format_a_row_is_the_bytes_of_a_record() -> None:
    source = made(schema=None, format=None)
    assert source.schema == pa.schema([pa.field("value", pa.binary())])
    assert not source.bounded
    assert is_endless(source, Split("orders/0"))
    assert made(end="latest").bounded
    assert made(end="latest").discovery_ms is None
    assert made(discover="5s").discovery_ms == 5000


def test_the_source_is_pickled_whole_and_shown_without_secrets() -> None:
    source = made(options={"sasl.password": "geheim", "ssl.key.pem": "auch geheim"})
    assert pickle.loads(pickle.dumps(source)) == source
    assert "geheim" not in repr(source) + source.describe() + source.positions()
    assert source.describe() == "Kafka topics orders at localhost:9092"


def test_metadata_fills_columns_of_the_schema_or_further_ones() -> None:
    source = made(metadata={"timestamp": "sent_at", "offset": "place"})
    assert source.schema.names == ["user", "sent_at", "place"]
    assert source.schema.field("place") == pa.field("place", pa.int64(), nullable=False)
    whole, payload = with_metadata(source.schema, named_fields({"timestamp": "sent_at"}))
    assert whole == source.schema
    assert payload.names == ["user", "place"]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"metadata": ["colour"]}, ProgramError, "has no field 'colour'"),
        ({"metadata": {"key": "a", "topic": "a"}}, ProgramError, "maps two fields to one column"),
        ({"metadata": {"offset": "user"}}, SchemaError, "but the offset of a message is int64"),
        ({"format": "json"}, ProgramError, "is not a format"),
        ({"schema": None}, SchemaError, "does not define the columns of its rows"),
        ({"isolation": "dirty"}, ProgramError, "isolation='dirty'"),
        ({"on_error": "ignore"}, ProgramError, "on_error='ignore'"),
        ({"start": "group"}, ProgramError, 'start="group" needs group='),
        ({"start": -1}, ProgramError, "start=-1 is not a position in a topic"),
        ({"start": 2000, "end": 1000}, ProgramError, "end= is before start=: 1000 ms"),
        (
            {"start": {"orders": {0: 1, 1: 9}}, "end": {"orders": {0: 5, 1: 5}}},
            ProgramError,
            "end= is before start=: in orders[1], 5 is less than 9",
        ),
        ({"group": ""}, ProgramError, "group='' is not a group name"),
        ({"group": 5, "start": "group"}, ProgramError, "group=5 is not a group name"),
        ({"brokers": ""}, ProgramError, "brokers="),
        ({"options": {"group.id": "g"}}, ProgramError, "'group.id' is set by Rheos"),
    ],
)
def test_invalid_arguments_are_refused_at_their_line(given: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=re.escape(words)) as raised:
        made(**given)
    assert raised.value.site is not None
    assert raised.value.site.file == __file__


@pytest.mark.parametrize("topics", ["", [], [""], [3], None, 3, "orders-*"])
def test_a_topic_is_required(topics: Any) -> None:
    with pytest.raises(ProgramError, match="does not name a topic"):
        rh.kafka.source(topics, brokers="localhost:9092")
