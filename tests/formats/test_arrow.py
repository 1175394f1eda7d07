"""Arrow streams as payloads: from other writers, and hostile ones."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rheos import formats
from rheos.core.errors import ProgramError
from rheos.core.formats.arrow_bytes import table_bytes, table_of
from rheos.formats import arrow_format
from tests.formats.test_every_format import decode, outcomes

SCHEMA = pa.schema([pa.field("s", pa.string(), nullable=False)])


def stream(*batches: pa.RecordBatch, compression: str | None = None) -> bytes:
    out = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(out, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return out.getvalue().to_pybytes()


def texts(*values: str | None, kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch({"n": [1] * len(values), "s": pa.array(values, kind or pa.string())})


@pytest.mark.parametrize(
    "kind",
    [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    ids=str,
)
def test_strings_are_accepted_in_every_layout(kind: pa.DataType) -> None:
    payload = stream(texts("a", "b", kind=kind), texts("c", kind=kind))
    decoded = decode(formats.arrow().decoder(SCHEMA), payload, b"", payload)
    assert decoded.rows.column(0).to_pylist() == ["a", "b", "c"] * 2
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 0, 0, 2, 2, 2]
    assert [bad.at for bad in decoded.bad] == [1]


whole = stream(texts("a"))


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (whole[:-20], "it is not a complete Arrow stream"),
        (whole + b"more", "it has bytes after the end of its Arrow stream"),
        (whole + whole, "it has bytes after the end of its Arrow stream"),
        (b"text", "it is not a complete Arrow stream"),
        (stream(texts(None)), "column 's' holds a null"),
        (stream(pa.record_batch({"n": [1]})), "it has no column 's'"),
        (stream(pa.record_batch({"s": [1]})), "column 's' is int64, but the schema declares string"),
        (stream(texts("a" * 999), compression="zstd"), "its buffers are compressed"),
        (stream(texts("a" * 999), compression="lz4"), "its buffers are compressed"),
    ],
)
def test_a_bad_stream_is_rejected_with_its_error(payload: bytes, what: str) -> None:
    [before, bad, after] = outcomes(decode(formats.arrow().decoder(SCHEMA), whole, payload, whole), 3)
    assert before == after == [{"s": "a"}]
    assert bad[0] == payload
    assert bad[1].startswith(what)


def test_rows_that_take_no_bytes_are_refused() -> None:
    nothing = pa.RecordBatch.from_arrays([pa.nulls(10**6)], names=["s"])
    loose = pa.schema([pa.field("s", pa.string())])
    [bad] = decode(formats.arrow().decoder(loose), stream(nothing)).bad
    assert bad.error.startswith("it announces 1000000 rows in")


def test_a_dictionary_does_not_multiply_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_format, "MAX_PAYLOAD_BYTES", 10_000)
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int8()), pa.array(["x" * 1000]))
    for column in (long, long.cast(pa.string()).cast(pa.string_view())):
        [bad] = decode(formats.arrow().decoder(SCHEMA), stream(pa.record_batch({"s": column}))).bad
        assert bad.error == "column 's' exceeds 10000 bytes when expanded"


def test_a_payload_has_at_least_one_row() -> None:
    with pytest.raises(ProgramError, match="rows_per_payload must be at least 1, not 0"):
        formats.arrow(rows_per_payload=0)


def test_a_table_of_several_pieces_becomes_one_stream_and_back() -> None:
    table = pa.table({"n": pa.chunked_array([[1, 2], [3]])})
    assert table_of(table_bytes(table)).equals(table)
    with pytest.raises((pa.ArrowInvalid, OSError)):
        table_of(table_bytes(table)[:40])
