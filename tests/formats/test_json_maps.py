"""Maps in JSON are objects."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rheos import formats

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("deep", pa.struct([("x", pa.list_(pa.map_(pa.string(), pa.decimal128(5, 2))))])),
    ]
)


def test_an_object_is_read_and_written_as_a_map() -> None:
    payloads = [
        b'{"id":1,"m":{"a":1,"b":null},"deep":{"x":[{"p":1.50},null,{}]}}',
        b'{"id":2,"m":{},"deep":null}',
        b'{"id":3,"m":null,"deep":{"x":null}}',
    ]
    decoded = formats.json().decoder(SCHEMA).decode(pa.array(payloads))
    assert not decoded.bad
    first, *others = decoded.rows["m"].to_pylist()
    assert (sorted(first), others) == ([("a", 1), ("b", None)], [[], None])
    again = formats.json().decoder(SCHEMA).decode(formats.json().encoder(SCHEMA).encode(decoded.rows))
    assert again.rows.to_pylist() == decoded.rows.to_pylist()


def test_of_equal_keys_the_last_value_counts_and_other_fields_are_ignored() -> None:
    payload = b'{"m":{"a":1,"b":2,"a":3},"m ":{"a":"x"},"id":7,"other":[1e999]}'
    decoded = formats.json().decoder(SCHEMA).decode(pa.array([payload]))
    assert decoded.rows.to_pylist() == [{"id": 7, "m": [("a", 3), ("b", 2)], "deep": None}]


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (b'{"m":[1]}', "Expected `object | null`, got `array` - at `$.m`: a map must be an object"),
        (b'{"m":[{"key":"a","value":1}]}', "a map must be an object"),
        (b'{"deep":{"x":[{"a":1},3]}}', "at `$.deep.x[1]`: a map must be an object"),
        (b'{"m":{"a":"1"}}', "must be a number, but is a string"),
        (b'{"m":{"a":1.5}}', "1.5"),
        (b'{"deep":{"x":[{"a":1.505}]}}', "1.505 requires scale 3"),
        (b'{"m":{"a":1}} {"id":2}', "not a single complete JSON object"),
        (b'{"m":{"a":1}', "not a single complete JSON object"),
        (b"[]", "not a single complete JSON object"),
    ],
)
def test_a_bad_map_is_rejected_with_its_error(payload: bytes, what: str) -> None:
    good = b'{"id":1,"m":{"a":1}}'
    decoded = formats.json().decoder(SCHEMA).decode(pa.array([good, payload, good]))
    assert decoded.rows["m"].to_pylist() == [[("a", 1)], [("a", 1)]]
    [bad] = decoded.bad
    assert (bad.at, bad.payload) == (1, payload)
    assert what in bad.error
