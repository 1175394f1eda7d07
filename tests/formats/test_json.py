"""JSON payloads: which are one object, and which are not."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import rheos as rh
from rheos import formats
from rheos.core.errors import SchemaError
from rheos.core.formats.contract import Decoded
from tests.formats.test_every_format import decode, outcomes

NUMBER = pa.schema([pa.field("a", pa.int64(), nullable=False)])
WORD = pa.schema([pa.field("s", pa.string())])


def numbers(*payloads: bytes | None) -> Decoded:
    return decode(formats.json().decoder(NUMBER), *payloads)


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (b'{"a": "1"}', "column 'a' must be a number, but is a string"),
        (b'{"a": 1.0}', "couldn't parse:1.0"),
        (b'{"a": true}', "column 'a' must be a number, but is a boolean"),
        (b'{"a": null}', "column 'a' is missing or null"),
        (b"{}", "column 'a' is missing or null"),
        (b'{"a": 1', "it is not a single complete JSON object"),
        (b'{"a": 1}{"a": 2}', "it contains more than one JSON object"),
        (b'{"a": 1}\x00{"a": 2}', "it is not a single complete JSON object"),
        (b"[1]", "it is not a single complete JSON object"),
        (b"", "it is not a single complete JSON object"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": 1, "b": "\xff"}', ""),
    ],
)
def test_a_bad_payload_is_rejected_with_its_error(payload: bytes, what: str) -> None:
    decoded = numbers(b'{"a": 1}', payload, b'{"a": 2}', b'{"a": 3}')
    if what:
        [bad] = decoded.bad
        assert (bad.at, bad.payload) == (1, payload)
        assert what in bad.error
        assert decoded.rows.to_pylist() == [{"a": 1}, {"a": 2}, {"a": 3}]
        assert decoded.origin is not None
        assert decoded.origin.tolist() == [0, 2, 3]
        assert decoded.of_rows(pa.array([10, 11, 12, 13])).to_pylist() == [10, 12, 13]
    else:  # What no column asks for is not looked at.
        assert decoded.rows.to_pylist() == [{"a": 1}, {"a": 1}, {"a": 2}, {"a": 3}]


def test_an_object_over_several_lines_is_one_payload() -> None:
    shown = json.dumps({"a": 1, "s": "x\ny"}, indent=2).encode()
    assert numbers(shown, b'{"a": 2}').rows.to_pylist() == [{"a": 1}, {"a": 2}]


def test_an_object_over_several_payloads_makes_each_bad() -> None:
    payloads = (b'{"s":"', b'"}', b'{"s":"}', b'{"}', b'{"s":', b'"x"}', b'{"s":"a"}{"s":"b"}')
    decoded = decode(formats.json().decoder(WORD), *payloads)
    assert decoded.rows.num_rows == 0
    assert [bad.at for bad in decoded.bad] == list(range(len(payloads)))


@pytest.mark.parametrize(
    "payload", [b'{"a": 1, "b": %s%s}' % (b"[" * 10**6, b"]" * 10**6), b"{" * 10**6]
)
def test_deep_nesting_harms_neither_the_process_nor_neighbours(payload: bytes) -> None:
    found = outcomes(numbers(b'{"a": 1}', payload, b'{"a": 2}'), 3)
    assert found[0] == [{"a": 1}]
    assert found[2] == [{"a": 2}]


def test_times_of_whole_seconds_may_have_a_fraction_of_zeros() -> None:
    schema = pa.schema([pa.field("at", pa.timestamp("s"))])
    given = [b'{"at": "2026-01-01T00:00:00.000Z"}', b'{"at": "2026-01-01T00:00:00.500Z"}']
    decoded = decode(formats.json().decoder(schema), *given)
    assert [bad.at for bad in decoded.bad] == [1]


def test_not_a_number_is_written_as_null() -> None:
    schema = pa.schema([pa.field("f", pa.float64())])
    rows = pa.RecordBatch.from_pylist([{"f": float("nan")}, {"f": float("inf")}, {"f": 1.5}], schema)
    payloads = formats.json().encoder(schema).encode(rows)
    assert payloads.to_pylist() == [b'{"f":null}', b'{"f":null}', b'{"f":1.5}']


def test_bytes_are_written_as_the_hint_suggests() -> None:
    """Such as the payloads of rejected records."""
    rows = pa.table({"payload": pa.array([b"\xff{", None])})
    for format in (formats.json(), formats.csv()):
        with pytest.raises(SchemaError, match="column 'payload' of type binary cannot be") as raised:
            format.check_encodes(rows.schema)
        assert '.with_columns(payload=col("payload").bin.encode("base64"))' in str(raised.value.hint)
    env = rh.Environment(1, runtime="simulated")
    stream = env.from_source(rh.collection(rows))
    stream.with_columns(payload=rh.col("payload").bin.encode("base64")).collect("text")
    text = env.execute().collected["text"]
    assert text.column("payload").to_pylist() == ["/3s=", None]
    formats.json().check_encodes(text.schema)
