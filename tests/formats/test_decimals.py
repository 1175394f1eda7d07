"""Decimals in every format: each digit is preserved, and values that do not fit are refused."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import rheos as rh
from rheos import formats
from rheos.connectors.postgres.change_values import from_text
from rheos.connectors.postgres.column_types import as_strings
from rheos.connectors.redis import text as redis_text
from rheos.connectors.spark.spark_types import spark_arrow_type
from rheos.core.errors import InputError, SchemaError
from rheos.core.formats.contract import Format
from rheos.core.protocol.columns import TypeMismatch, column_of, columns_to_python
from rheos.core.protocol.polars_frames import arrow_column, polars_frame
from rheos.core.protocol.wire import BatchDecoder, encode_batch
from rheos.core.state.order_encoding import from_ordered, ordered
from rheos.core.state.packing import as_bytes, from_bytes
from rheos.formats.avro_format import AvroFormat
from rheos.formats.avro_schemas import avro_of
from tests.formats.examples import EXAMPLES

KINDS = [pa.decimal128(*digits) for digits in [(1, 0), (1, 1), (9, 2), (18, 2), (19, 0), (20, 4)]]
KINDS += [pa.decimal128(38, scale) for scale in (0, 1, 18, 37, 38)]


def values(kind: pa.DataType) -> list[Decimal]:
    most = 10**kind.precision - 1
    units = {0, 1, -1, 5, -9, most, -most, most // 2, 10 ** (kind.precision - 1), 1 << 63, -(1 << 64)}
    fitting = sorted(each for each in units if abs(each) <= most)
    return [Decimal((each < 0, tuple(map(int, str(abs(each)))), -kind.scale)) for each in fitting]


def column(kind: pa.DataType) -> pa.Array:
    return pa.array([*values(kind), None], kind)


def _batch(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"d": array, "n": pa.array(range(len(array)))})


def _by(format: Format) -> Callable[[pa.Array], pa.Array]:
    def back(array: pa.Array) -> pa.Array:
        rows = _batch(array)
        of = formats.avro(avro_of(rows.schema)) if isinstance(format, AvroFormat) else format
        of.check_encodes(rows.schema)
        of.check_decodes(rows.schema)
        payloads = of.encoder(rows.schema).encode(rows)
        decoded = of.decoder(rows.schema).decode(payloads)
        assert not decoded.bad
        return decoded.rows.column("d")

    return back


def _redis(array: pa.Array) -> pa.Array:
    schema = pa.schema([pa.field("d", array.type)])
    rows, fitting, bad = redis_text.from_bytes({"d": redis_text.to_bytes(array)}, len(array), schema)
    assert fitting is None
    assert not bad
    return rows.column("d")


def _over_the_wire(array: pa.Array) -> pa.Array:
    batch = _batch(array)
    return BatchDecoder(batch.schema).decode(encode_batch(batch)).column("d")


def _filled(way: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    """For what takes no nulls."""
    return lambda array: pa.concat_arrays([way(array.drop_null()), pa.nulls(1, array.type)])


BORDERS: dict[str, Callable[[pa.Array], pa.Array]] = {
    **{name: _by(example.format) for name, example in EXAMPLES.items()},
    "records": lambda array: column_of(columns_to_python(array), pa.field("d", array.type)),
    "Polars": lambda array: arrow_column(polars_frame(_batch(array))["d"]),
    "the wire": _over_the_wire,
    "state": _filled(lambda array: from_bytes(as_bytes(array), array.type)),
    "state in order": _filled(lambda array: from_ordered(ordered(array), array.type)),
    "Redis": _redis,
    "PostgreSQL": lambda array: from_text(as_strings(array), array.type, "a column"),
    "Spark": lambda array: array.cast(spark_arrow_type(array.type, "d")),
}
HOLD_NONE = {name for name in EXAMPLES if name.split(",")[0] in ("protobuf", "raw", "text")}
"""Formats without decimals."""


@pytest.mark.parametrize("name", BORDERS)
def test_every_digit_is_preserved(name: str) -> None:
    for kind in KINDS:
        array = column(kind)
        if name in HOLD_NONE:
            with pytest.raises((SchemaError, InputError)):
                BORDERS[name](array)
            continue
        found = BORDERS[name](array)
        assert found.type == kind
        assert found.to_pylist() == array.to_pylist(), kind


@pytest.mark.parametrize("format", ["parquet", "jsonl", "csv"])
def test_every_digit_is_preserved_in_files(format: str, tmp_path: Path) -> None:
    columns = {f"d{kind.precision}_{kind.scale}": kind for kind in KINDS}
    size = max(len(values(kind)) for kind in KINDS)
    rows = [
        {name: (values(kind) * size)[place] for name, kind in columns.items()} for place in range(size)
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    env = rh.Environment(parallelism=1, runtime="simulated")
    env.from_source(rh.collection(table)).sink_to(rh.files.sink(tmp_path / "out", format=format))
    env.execute("write")
    env = rh.Environment(parallelism=1, runtime="simulated")
    source = rh.files.source(tmp_path / "out", format=format, schema=table.schema)
    env.from_source(source).collect("out")
    assert sorted(map(str, env.execute("read").collected["out"].to_pylist())) == sorted(map(str, rows))


@pytest.mark.parametrize("name", ["json", "csv"])
@pytest.mark.parametrize("text", ["1.005", "1e17", "NaN", "Infinity", "1e-400", "--1", "1_0"])
def test_text_that_does_not_fit_is_a_bad_record(name: str, text: str) -> None:
    format = EXAMPLES[name].format
    schema = pa.schema([pa.field("d", pa.decimal128(18, 2)), pa.field("n", pa.int64())])
    payload = f'{{"d": "{text}", "n": 1}}' if name == "json" else f"{text},1"
    decoded = format.decoder(schema).decode(pa.array([payload.encode()]))
    assert decoded.rows.num_rows == 0
    assert len(decoded.bad) == 1


@pytest.mark.parametrize("name", ["json", "csv"])
@pytest.mark.parametrize("text", ["1.5", "1.500", "15e-1", "+1.5", "0.15E1"])
def test_text_that_fits_is_read(name: str, text: str) -> None:
    schema = pa.schema([pa.field("d", pa.decimal128(18, 2)), pa.field("n", pa.int64())])
    payload = f'{{"d": "{text}", "n": 1}}' if name == "json" else f"{text},1"
    decoded = EXAMPLES[name].format.decoder(schema).decode(pa.array([payload.encode()]))
    assert decoded.rows.column("d").to_pylist() == [Decimal("1.50")]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_values_beyond_a_type_are_refused(kind: pa.DataType) -> None:
    beyond = [10**kind.precision, -(10**kind.precision)]
    wrong = [Decimal(each).scaleb(-kind.scale) for each in beyond]
    wrong += [Decimal(1).scaleb(-kind.scale - 1), Decimal("NaN"), Decimal("Infinity")]
    for value in wrong:
        with pytest.raises(TypeMismatch):
            column_of([value], pa.field("d", kind))
