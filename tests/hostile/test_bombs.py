"""Few bytes that expand to many: every format of records answers for each kind of bomb, by one that it
refuses at once, or by why it has none. What is around the bomb is read as ever."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos import formats
from rheos.core.errors import SchemaError
from rheos.core.formats import contract
from rheos.core.formats.arrow_bytes import table_bytes
from rheos.core.formats.contract import Format
from rheos.formats import arrow_format, avro_bounds, json_parts, protobuf_bounds
from rheos.formats.avro_schemas import parsed
from rheos.formats.decimal_text import decimals_of
from rheos.formats.registration import FORMATS
from tests.formats.messages import descriptors
from tests.formats.test_every_format import decode

VALUES = 1000
MAX_PEAK_BYTES = 1 << 24


@pytest.fixture(autouse=True)
def _few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (contract, avro_bounds, protobuf_bounds, json_parts):
        monkeypatch.setattr(module, "MAX_VALUES", VALUES)
    monkeypatch.setattr(arrow_format, "MAX_ROWS", VALUES)


def _avro(kind: object) -> Format:
    fields = [{"name": "n", "type": ["null", "long"]}, {"name": "x", "type": kind}]
    return formats.avro({"type": "record", "name": "R", "fields": fields})


def _arrow(array: pa.Array) -> bytes:
    return table_bytes(pa.record_batch({"x": array}))


def _varint(number: int) -> bytes:
    number, out = number << 1, bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


N = pa.schema([("n", pa.int64())])
_WORDS = pa.dictionary(pa.int32(), pa.string())
_MULTIPLIED = pa.DictionaryArray.from_arrays(
    pa.array(np.zeros(900, np.int32)), pa.array(["x" * (1 << 17)])
)
_ITEMS = pa.schema([("l", pa.list_(pa.struct([(f"c{i}", pa.float64()) for i in range(50)])))])
_DECIMAL = pa.schema([("x", pa.decimal128(38, 2))])
_ORDERS = formats.protobuf("shop.Order", descriptors=descriptors())
_ONE_ITEM = bytes([35 << 3 & 127 | 2 | 128, 35 >> 4, 0])
"""An element of `items`, without bytes of its own."""
_DIGITS = b"1" * 1_000_000

KINDS = ("many elements of few bytes", "a long number", "a far exponent", "a text many times")
NO_LISTS, ONE_VALUE = "it has no lists", "it has one value"
NO_NUMBERS = "its numbers have a size"

BOMBS: Mapping[str, Mapping[str, tuple[Format, pa.Schema, bytes, bytes] | str]] = {
    "avro": {
        "many elements of few bytes": (
            _avro({"type": "array", "items": {"type": "map", "values": "null"}}),
            N,
            b"\0\0",
            b"\0" + _varint(VALUES) + b"\0" * VALUES + b"\0",
        ),
        "a long number": (
            _avro({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}),
            N,
            b"\0\x02\x01",
            b"\0" + _varint(10_000_000) + b"\x7f" * 10_000_000,
        ),
        "a far exponent": NO_NUMBERS,
        "a text many times": "each value has its own bytes",
    },
    "arrow": {
        "many elements of few bytes": (
            formats.arrow(),
            pa.schema([("x", pa.bool_())]),
            _arrow(pa.array([True])),
            _arrow(pa.array(np.zeros(VALUES + 1, np.bool_))),
        ),
        "a long number": NO_NUMBERS,
        "a far exponent": NO_NUMBERS,
        "a text many times": (
            formats.arrow(),
            pa.schema([("x", _WORDS)]),
            _arrow(pa.array(["a"]).dictionary_encode()),
            _arrow(_MULTIPLIED),
        ),
    },
    "csv": {
        "many elements of few bytes": NO_LISTS,
        "a long number": (formats.csv(), _DECIMAL, b"1.5", _DIGITS),
        "a far exponent": (formats.csv(), _DECIMAL, b"1.5", b"1e-99999999"),
        "a text many times": ONE_VALUE,
    },
    "json": {
        "many elements of few bytes": (
            formats.json(),
            _ITEMS,
            b'{"l": [{}]}',
            b'{"l": [' + b",".join([b"{}"] * 100) + b"]}",
        ),
        "a long number": (formats.json(), _DECIMAL, b'{"x": 1.5}', b'{"x": ' + _DIGITS + b"}"),
        "a far exponent": (formats.json(), _DECIMAL, b'{"x": 1.5}', b'{"x": 1e-99999999}'),
        "a text many times": "each value has its own bytes",
    },
    "protobuf": {
        "many elements of few bytes": (_ORDERS, _ORDERS.own_schema(), _ONE_ITEM, _ONE_ITEM * VALUES),
        "a long number": NO_NUMBERS,
        "a far exponent": NO_NUMBERS,
        "a text many times": "each value has its own bytes",
    },
    "raw": dict.fromkeys(KINDS, ONE_VALUE),
    "text": dict.fromkeys(KINDS, ONE_VALUE),
}
_SAME_IN_CHANGES = {kind: bomb for kind, bomb in BOMBS["json"].items() if isinstance(bomb, str)}


def _of_changes(form: Format, around: bytes) -> dict[str, tuple[Format, pa.Schema, bytes, bytes] | str]:
    """Return the bombs of JSON inside of a change record, which has %s for the row."""
    made: dict[str, tuple[Format, pa.Schema, bytes, bytes] | str] = {**_SAME_IN_CHANGES}
    for kind, bomb in BOMBS["json"].items():
        if isinstance(bomb, tuple):
            _, schema, fine, bad = bomb
            made[kind] = form, form.rows_schema(schema), around % fine, around % bad
    return made


BOMBS = {
    **BOMBS,
    "debezium_json": _of_changes(formats.debezium_json(), b'{"op": "c", "after": %s}'),
    "canal_json": _of_changes(formats.canal_json(), b'{"type": "INSERT", "data": [%s]}'),
    "maxwell_json": _of_changes(formats.maxwell_json(), b'{"type": "insert", "data": %s}'),
    "ogg_json": _of_changes(formats.ogg_json(), b'{"op_type": "I", "after": %s}'),
    "debezium_avro_confluent": dict.fromkeys(KINDS, "its records are read as those of avro"),
}
SEEN = [
    pytest.param(*bomb, id=f"{name}: {kind}")
    for name, bombs in BOMBS.items()
    for kind, bomb in bombs.items()
    if isinstance(bomb, tuple)
]


def test_every_format_has_an_answer_for_each_kind_of_bomb() -> None:
    made = {*FORMATS.built_in}
    assert made == set(BOMBS)
    for name, bombs in BOMBS.items():
        assert set(bombs) == set(KINDS), name


@pytest.mark.parametrize(("format", "schema", "good", "bomb"), SEEN)
def test_a_bomb_is_a_bad_record_and_its_neighbours_are_read(
    format: Format, schema: pa.Schema, good: bytes, bomb: bytes
) -> None:
    decoder = format.decoder(schema)
    assert decode(decoder, good).rows.num_rows == 1
    tracemalloc.start()
    before = pa.default_memory_pool().bytes_allocated()
    decoded = decode(decoder, good, bomb, good)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [each.at for each in decoded.bad] == [1]
    assert decoded.rows.num_rows == 2
    assert peak < MAX_PEAK_BYTES + 4 * len(bomb)
    assert pa.default_memory_pool().bytes_allocated() - before < MAX_PEAK_BYTES + 4 * len(bomb)


@pytest.mark.parametrize("levels", [10, 24, 60])
def test_records_that_double_with_each_level_are_refused_by_their_schema(levels: int) -> None:
    kind: dict[str, object] = {"type": "record", "name": "L0", "fields": []}
    for i in range(1, levels + 1):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"L{i - 1}"}]
        kind = {"type": "record", "name": f"L{i}", "fields": fields}
    with pytest.raises(SchemaError, match="contains more than 1000 values that occupy no bytes"):
        _avro(kind)


@given(values=st.lists(st.integers(-(2**40), 2**40), max_size=50), text=st.text(max_size=30))
def test_counted_values_equal_those_of_the_payload(values: list[int], text: str) -> None:
    """A payload that has room for too many, and has not, is read."""
    bounds = parsed(
        json.dumps(
            {
                "type": "record",
                "name": "R",
                "fields": [
                    {"name": "l", "type": {"type": "array", "items": ["null", "long"]}},
                    {"name": "s", "type": "string"},
                ],
            }
        )
    ).bounds
    items = b"".join(b"\x02" + _signed(value) for value in values)
    block = _varint(len(values)) + items if values else b""
    data = text.encode() * 200
    payload = block + b"\0" + _varint(len(data)) + data
    if len(payload) > VALUES:
        assert bounds.values_in(payload, 0) == len(values) + 3
    else:
        assert bounds.values_in(payload, 0) <= 2 * len(payload) + 2


def _signed(number: int) -> bytes:
    zigzag, out = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes([*out, zigzag])


@given(
    digits=st.integers(-(10**40), 10**40),
    exponent=st.integers(-80, 20) | st.sampled_from([-999_999_999, -10_000_000, -200]) | st.none(),
    scale=st.integers(0, 38),
)
def test_a_decimal_equals_its_text_or_is_an_error(
    digits: int, exponent: int | None, scale: int
) -> None:
    """As a text that is cast, a field of CSV and a number of JSON."""
    type_ = pa.decimal128(38, scale)
    text = str(digits) if exponent is None else f"{digits}e{exponent}"
    number = Decimal(text)
    wide = Context(prec=4096)
    fits = number == 0 or (
        number.adjusted() < 38 - scale
        and (exponent is None or exponent > -100)
        and number.quantize(Decimal(1).scaleb(-scale), context=wide) == number
    )
    try:
        assert decimals_of(pa.array([text, None, "0"]), type_).to_pylist() == [number, None, 0]
        assert fits
    except pa.ArrowInvalid:
        assert not fits
    schema = pa.schema([("x", type_)])
    for format, payload in ((formats.csv(), text), (formats.json(), f'{{"x": {text}}}')):
        decoded = decode(format.decoder(schema), payload.encode())
        if decoded.bad:
            # Arrow refuses zeros that the number does not need, which changes no value.
            assert not fits or format.name == "json"
        else:
            assert decoded.rows["x"].to_pylist() == [number]
