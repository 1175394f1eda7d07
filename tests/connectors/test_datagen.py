"""Rows that `datagen` generates."""

from __future__ import annotations

import pyarrow as pa

from rheos.connectors.datagen import source

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int8()),
        ("share", pa.float64()),
        ("price", pa.decimal128(5, 2)),
        ("word", pa.string()),
        ("yes", pa.bool_()),
        ("at", pa.timestamp("ms", "UTC")),
    ]
)
FIELDS = {
    "id.kind": "sequence",
    "id.start": "5",
    "id.end": "1504",
    "small.min": "-3",
    "small.max": "3",
    "share.min": "0",
    "share.max": "1",
    "price.min": "10",
    "price.max": "20",
    "word.length": "4",
    "word.null-rate": "0.5",
    "at.max-past": "1 h",
}


def rows() -> pa.Table:
    generated = source(schema=SCHEMA, fields=FIELDS)
    blocks = [generated.block(0, 0), generated.block(0, 1000)]
    return pa.concat_tables(
        [pa.table(generated.fn(block)).cast(SCHEMA) for block in blocks]  # type: ignore[arg-type]
    )


def test_values_have_the_bounds_of_their_options() -> None:
    found = rows().to_pydict()
    assert found["id"] == [*range(5, 1505)]
    assert {*found["small"]} == {*range(-3, 4)}
    assert all(0 <= share <= 1 for share in found["share"])
    assert all(10 <= price <= 20 for price in found["price"])
    words = [word for word in found["word"] if word is not None]
    assert 600 < len(words) < 900
    assert {len(word) for word in words} == {4}
    assert {*found["yes"]} == {True, False}
    assert max(found["at"]).timestamp() - min(found["at"]).timestamp() <= 3600


def test_the_rows_of_a_block_are_the_same_each_time() -> None:
    generated = source(schema=SCHEMA, fields=FIELDS)
    block = generated.block(0, 1000)
    first, again = (pa.table(generated.fn(block)) for _ in range(2))  # type: ignore[arg-type]
    assert first == again


def test_a_sequence_ends_the_source() -> None:
    assert source(schema=SCHEMA, fields=FIELDS).count == 1500
    assert source(schema=SCHEMA, fields=FIELDS, number_of_rows=7).count == 7
