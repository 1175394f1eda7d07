"""Arguments of source and sink: what is refused, and which secrets are shown."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.pulsar.client_options import PulsarOptions, client, pulsar_error
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    SchemaError,
    UnavailableError,
)

VISIT = pa.schema([pa.field("page", pa.string(), nullable=False), pa.field("n", pa.int64())])
JSON: dict[str, Any] = {"format": rh.formats.json()}
TOKEN = "a-secret-token"


@pytest.mark.parametrize(
    "given",
    [
        {"topic": "a b"},
        {"topic": []},
        {"topic": "non-persistent://public/default/a"},
        {"topic": ["a", "a"]},
        {"start": 0},
        {"end": "earliest"},
        {"metadata": {"offset": "o"}},
        {"on_removed": "ignore"},
        {"options": {"password": "x"}},
        {"options": {"token": ""}},
        {"url": "http://a"},
        {"url": "pulsar://ada:secret@a"},
        {"url": "pulsar://a/x"},
        {"url": "pulsar://a,b c:d"},
    ],
    ids=json.dumps,
)
def test_wrong_arguments_of_the_source_are_refused(given: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"url": "pulsar://a", "topic": "t", "schema": VISIT, **JSON, **given}
    with pytest.raises(ProgramError) as raised:
        rh.pulsar.source(arguments.pop("url"), **arguments)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"topic": ""}, ProgramError),
        ({"compression": "gzip"}, ProgramError),
        ({"value": []}, ProgramError),
        ({"key": "x"}, SchemaError),
        ({"key": "at"}, SchemaError),
        ({"event_time": "n"}, SchemaError),
        ({"properties": ["page", "at"]}, SchemaError),
    ],
    ids=str,
)
def test_wrong_arguments_of_the_sink_are_refused(given: Any, error: Any) -> None:
    rows = VISIT.append(pa.field("at", pa.timestamp("us", "UTC")))
    with pytest.raises(error):
        rh.pulsar.sink("pulsar://a", **{"topic": "t", **JSON, **given}).validate(rows)


@pytest.mark.parametrize(
    ("nullable", "kind", "match"),
    [(False, pa.string(), "is not nullable"), (True, pa.int64(), "but the key of a message is string")],
)
def test_a_column_has_the_type_of_its_field(nullable: bool, kind: pa.DataType, match: str) -> None:
    rows = VISIT.append(pa.field("key", kind, nullable=nullable))
    with pytest.raises(SchemaError, match=match):
        rh.pulsar.source("pulsar://a", topic="t", schema=rows, metadata={"key": "key"}, **JSON)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AuthorizationError", ConfigurationError),
        ("TopicNotFound", InputError),
        ("MessageTooBig", InputError),
        ("IncompatibleSchema", InputError),
        ("Timeout", UnavailableError),
        ("ServiceUnitNotReady", UnavailableError),
    ],
)
def test_errors_of_the_client_are_translated(name: str, kind: type[Exception]) -> None:
    options = PulsarOptions.of("pulsar://a:1,b:2", {"token": TOKEN})
    found = pulsar_error(getattr(client(), name)(f"with {TOKEN}"), "the topic 't'", options)
    assert type(found) is kind
    assert "a:1,b:2" in str(found)
    assert TOKEN not in f"{found}{options}{options!r}"
