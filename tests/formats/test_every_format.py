"""Properties of every format: rows are decoded as they were encoded, and a payload has the same
result alone and with others."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rheos import formats
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.formats import contract
from rheos.core.formats.contract import Decoded, Decoder
from rheos.formats.registration import FORMATS
from tests.formats.examples import EXAMPLES, Example, batches
from tests.formats.test_change_formats import OF_CHANGES

drawn = settings(max_examples=8, phases=[Phase.generate])
"""Rows of all types have hundreds of draws, and shrinking them takes minutes."""
every_format = pytest.mark.parametrize("name", EXAMPLES)


def decode(decoder: Decoder, *payloads: bytes | None) -> Decoded:
    decoded = decoder.decode(pa.array(payloads, pa.binary()))
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == decoder.schema
    return decoded


def outcomes(decoded: Decoded, payloads: int) -> list[Any]:
    """What became of each payload: its rows, or its error."""
    found: list[Any] = [[] for _ in range(payloads)]
    rows = decoded.rows.to_pylist()
    origin = range(payloads) if decoded.origin is None else decoded.origin.tolist()
    for place, row in zip(origin, rows, strict=True):
        found[place].append(row)
    for bad in decoded.bad:
        assert found[bad.at] == []
        found[bad.at] = (bad.payload, bad.error)
    return found


def in_order(value: Any) -> Any:
    """Maps, which are lists of pairs, in the order of their keys: some formats have no other."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in value.items()}
    if isinstance(value, list):
        found = [in_order(each) for each in value]
        return sorted(found, key=repr) if found and isinstance(found[0], tuple) else found
    return tuple(map(in_order, value)) if isinstance(value, tuple) else value


@every_format
@drawn
@given(data=st.data())
def test_encoded_rows_are_decoded_unchanged(name: str, data: st.DataObject) -> None:
    example = EXAMPLES[name]
    example.format.check_decodes(example.schema)
    example.format.check_encodes(example.schema)
    rows = data.draw(batches(example))
    payloads = example.format.encoder(example.schema).encode(rows)
    assert payloads.type == pa.binary()
    per_payload = example.format.rows_per_payload
    assert len(payloads) == -(-rows.num_rows // per_payload)
    decoded = example.format.decoder(example.schema).decode(payloads)
    assert decoded.bad == []
    assert decoded.rows.schema == example.schema
    assert in_order(decoded.rows.to_pylist()) == in_order(rows.to_pylist())
    if per_payload == 1:
        assert decoded.origin is None


def odd(example: Example, true: list[bytes | None]) -> st.SearchStrategy[bytes | None]:
    """Payloads, true ones and others that look like them."""
    some = st.sampled_from(true)
    cut = st.builds(lambda a, b, n: (a or b"")[:n] + (b or b""), some, some, st.integers(0, 99))
    changed = st.builds(
        lambda a, at, byte: b"" if not a else a[: at % len(a)] + bytes([byte]) + a[at % len(a) + 1 :],
        some,
        st.integers(0, 999),
        st.integers(0, 255),
    )
    return st.none() | some | cut | changed | st.binary(max_size=20)


@every_format
@drawn
@given(data=st.data())
def test_a_payload_has_the_same_result_alone_and_with_others(name: str, data: st.DataObject) -> None:
    example = EXAMPLES[name]
    true = example.format.encoder(example.schema).encode(data.draw(batches(example))).to_pylist()
    payloads = data.draw(st.lists(odd(example, true or [b"x"]), max_size=8))
    decoder = example.format.decoder(example.schema)
    together = outcomes(decode(decoder, *payloads), len(payloads))
    alone = [outcomes(decode(decoder, payload), 1)[0] for payload in payloads]
    assert together == alone


@every_format
def test_no_payloads_give_no_rows(name: str) -> None:
    example = EXAMPLES[name]
    decoded = decode(example.format.decoder(example.schema))
    assert (decoded.rows.num_rows, decoded.bad) == (0, [])


@every_format
def test_a_slice_of_a_column_is_decoded(name: str) -> None:
    """Arrow's slices share the bytes before and behind them."""
    example = EXAMPLES[name]
    row = dict.fromkeys(example.schema.names) | example.row
    rows = pa.RecordBatch.from_pylist([row] * 5, schema=example.schema)
    payloads = example.format.encoder(example.schema).encode(rows)
    part = example.format.decoder(example.schema).decode(payloads.slice(1, len(payloads) - 2))
    each = example.format.rows_per_payload
    assert part.rows.to_pylist() == rows.to_pylist()[each : (len(payloads) - 1) * each]


@every_format
def test_a_tombstone_is_a_row_of_nulls_if_allowed(name: str) -> None:
    example = EXAMPLES[name]
    loose = pa.schema([each.with_nullable(True) for each in example.schema])
    decoded = decode(example.format.decoder(loose), None)
    assert decoded.rows.to_pylist() == [dict.fromkeys(loose.names)]
    strict = pa.schema([each.with_nullable(False) for each in example.schema])
    [bad] = decode(example.format.decoder(strict), None).bad
    assert (bad.at, bad.payload) == (0, None)
    assert bad.error == (
        f"the payload is null (a tombstone), but column {strict.names[0]!r} is not nullable"
    )


@every_format
def test_a_payload_that_is_too_long_is_bad(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "MAX_PAYLOAD_BYTES", 9)
    decoded = decode(EXAMPLES[name].format.decoder(EXAMPLES[name].schema), b"0123456789")
    assert [bad.error for bad in decoded.bad] == ["the payload has 10 bytes, but the maximum is 9"]


@every_format
def test_a_format_can_be_pickled(name: str) -> None:
    format = EXAMPLES[name].format
    assert pickle.loads(pickle.dumps(format)) == format
    assert hash(format) == hash(pickle.loads(pickle.dumps(format)))


REFUSED = {
    "avro": [pa.uint64(), pa.timestamp("ns"), pa.duration("us"), pa.map_(pa.int64(), pa.int64())],
    "arrow": [pa.null(), pa.binary(0), pa.struct([]), pa.list_(pa.int8(), 0), pa.string_view()],
    "csv": [pa.binary(), pa.duration("us"), pa.list_(pa.int64()), pa.struct([("x", pa.int64())])],
    "json": [
        pa.binary(),
        pa.duration("us"),
        pa.map_(pa.int64(), pa.string()),
        pa.list_(pa.time32("s")),
    ],
    "raw": [pa.string(), pa.int64()],
    "text": [pa.binary(), pa.int64()],
}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, kinds in REFUSED.items() for kind in kinds], ids=str
)
def test_a_type_that_a_format_cannot_hold_is_refused(name: str, kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("value", kind)])
    for check in (EXAMPLES[name].format.check_decodes, EXAMPLES[name].format.check_encodes):
        with pytest.raises(SchemaError) as caught:
            check(schema)
        assert str(kind) in caught.value.what
        assert caught.value.hint


@every_format
def test_rows_without_columns_are_refused(name: str) -> None:
    with pytest.raises(SchemaError):
        EXAMPLES[name].format.check_decodes(pa.schema([]))


@pytest.mark.parametrize(
    "made",
    [
        lambda: formats.avro(),
        lambda: formats.protobuf("shop.Order"),
        lambda: formats.csv(delimiter=";;"),
        lambda: formats.arrow(rows_per_payload=0),
    ],
)
def test_errors_of_a_format_are_raised_at_its_line(made: Callable[[], Any]) -> None:
    with pytest.raises(ProgramError) as caught:
        made()
    assert caught.value.site is not None
    assert caught.value.site.file == __file__


def test_every_format_is_tested() -> None:
    made = {*FORMATS.built_in} - {*OF_CHANGES}
    assert made == {name.split(",")[0] for name in EXAMPLES}
