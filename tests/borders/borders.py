"""Every conversion that rows pass on their way in, through and out, forth and back. A border converts
rows of one column `v` and returns them converted back. If a value cannot be converted, it raises a
RheosError that names the column or the record. If no value of the type can, it raises SchemaError
before it reads a value."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from dataclasses import make_dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from rheos import formats
from rheos.connectors.cassandra.columns import CqlColumn, check_fits, values
from rheos.connectors.casts import cast_rows
from rheos.connectors.collect import CollectSink, collected
from rheos.connectors.collection import collection
from rheos.connectors.files.open_files import OpenParquetFile
from rheos.connectors.files.parquet import ParquetDecoder
from rheos.connectors.generator import generator
from rheos.connectors.postgres.change_values import from_text
from rheos.connectors.postgres.column_types import as_strings, column_types
from rheos.connectors.print import PrintSink
from rheos.connectors.redis.text import as_fields, check_fields, from_bytes
from rheos.connectors.spark.spark_types import spark_arrow_schema, to_arrow, to_spark
from rheos.connectors.spark.staging_writer import stored_schema
from rheos.core.connectors.contract import ReaderContext, SinkContext
from rheos.core.errors import InputError, SchemaError
from rheos.core.formats.contract import Format
from rheos.core.operators.expressions import ExpressionOperator, ExpressionSpec
from rheos.core.operators.map import MapOperator, MapSpec
from rheos.core.operators.map_batches import MapBatchesOperator, MapBatchesSpec
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.pandas_frames import pandas_frame
from rheos.core.protocol.polars_frames import polars_frame
from rheos.core.protocol.types import batch_of, read_column
from rheos.core.state.codec import ValueCodec
from rheos.core.state.keys import KeyCodec
from rheos.formats.avro_schemas import avro_of
from tests.core.operators.contexts import AtOnce, StillClock, context

Border = Callable[[Batch], Batch]


# --- through functions ----------------------------------------------------------------------------


def function_per_record(rows: Batch) -> Batch:
    spec = MapSpec(lambda row: {"v": row.v}, False, None)
    return _through(MapOperator(context(rows.schema, rows.schema), spec), rows)


def function_of_a_dataclass(rows: Batch) -> Batch:
    record = make_dataclass("Record", [("v", Any)])
    return _through(
        MapOperator(context(rows.schema, rows.schema), MapSpec(lambda row: row, False, record)), rows
    )


def function_of_batches(form: Any) -> Border:
    def cross(rows: Batch) -> Batch:
        spec = MapBatchesSpec(lambda frame: frame, form)
        return _through(MapBatchesOperator(context(rows.schema, rows.schema), spec), rows)

    return cross


def expression(rows: Batch) -> Batch:
    value = pl.when(pl.col("v").is_not_null()).then(pl.col("v")).alias("v")
    spec = ExpressionSpec("select", (value,))
    return _through(ExpressionOperator(context(rows.schema, rows.schema), spec), rows)


def _through(operator: Any, rows: Batch) -> Batch:
    outs = [out.batch for out in operator.on_batch(0, rows)]
    return pa.Table.from_batches(outs, rows.schema).combine_chunks().to_batches()[0]


# --- through state --------------------------------------------------------------------------------


def value_of_state(rows: Batch) -> Batch:
    python = read_column(rows, "v")
    kind = type(next((each for each in python if each is not None), None))
    codec = ValueCodec("v", object if kind in (list, dict, type(None)) else kind | None)
    fitted = [codec.fit(each) for each in python]
    restored = [codec.decode(each) for each in codec.encode(fitted, ["k"] * len(fitted))]
    assert repr(restored) == repr(fitted), "a value is the same before and after a restart"
    return batch_of([{"v": each} for each in restored], rows.schema)


def key(rows: Batch) -> Batch:
    codec = KeyCodec(rows.schema, ["v"])
    keys = codec.of(rows)
    [column] = codec.columns([codec.decode(codec.encode(each)) for each in keys])
    return pa.RecordBatch.from_arrays([column.cast(rows.schema.field("v").type)], schema=rows.schema)


# --- formats and files ----------------------------------------------------------------------------


def form(named: Format | None) -> Border:
    def cross(rows: Batch) -> Batch:
        format = formats.avro(avro_of(rows.schema)) if named is None else named
        format.check_encodes(rows.schema)
        format.check_decodes(rows.schema)
        payloads = format.encoder(rows.schema).encode(rows)
        decoded = format.decoder(rows.schema).decode(payloads)
        if decoded.bad:
            raise InputError(decoded.bad[0].error, record=repr(decoded.bad[0].payload))
        return decoded.rows

    return cross


def parquet(rows: Batch) -> Batch:
    out = io.BytesIO()
    out.close = lambda: None  # type: ignore[method-assign]
    file = OpenParquetFile(("v.parquet", "v.parquet"), out, rows.schema, "snappy")  # type: ignore[arg-type]
    file.append(pa.Table.from_batches([rows]))
    file.finish()
    opened = pq.ParquetFile(pa.BufferReader(out.getvalue()))
    chunk = ParquetDecoder("v.parquet", rows.schema, opened=lambda: opened).read()
    assert chunk is not None
    return chunk.batch


# --- sources and sinks ----------------------------------------------------------------------------


def rows_of_a_program(make: Callable[[Batch], Any], *, declared: bool) -> Border:
    def cross(rows: Batch) -> Batch:
        source = collection(make(rows), rows.schema if declared else None)
        found = source.table.combine_chunks().to_batches()[0]
        if pa.types.is_map(rows.schema.field("v").type) and not declared:
            raise SchemaError(
                "a dict in a row is a struct, unless the schema of 'v' says that it is a map"
            )
        return found

    return cross


def _dicts(rows: Batch) -> list[dict[str, Any]]:
    return [{"v": each} for each in read_column(rows, "v")]


def generated(rows: Batch) -> Batch:
    values = read_column(rows, "v")
    source = generator(lambda block: {"v": values}, schema=rows.schema, count=rows.num_rows, splits=1)
    ctx = ReaderContext(StillClock(), AtOnce(), lambda *_: None, lambda *_: None, lambda: None)
    made = source.open(source.splits()[0], None, ctx).poll(rows.num_rows)
    assert isinstance(made, pa.RecordBatch)
    return made


def collect(rows: Batch) -> Batch:
    writer = CollectSink().open(_sink_context(rows.schema))
    writer.write(rows)
    table = collected(writer.prepare(CheckpointId(1)))
    assert table is not None
    return table.to_batches()[0]


def printed(rows: Batch) -> Batch:
    """Print rows, for people: every value is accepted."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        PrintSink().open(_sink_context(rows.schema)).write(rows)
    assert out.getvalue().count(">") >= rows.num_rows
    return rows


def redis(rows: Batch) -> Batch:
    check_fields(rows.schema)
    made, _, bad = from_bytes(as_fields(rows), rows.num_rows, rows.schema)
    if bad:
        raise InputError(bad[0][1])
    return made


def postgres(rows: Batch) -> Batch:
    """Convert to strings as PostgreSQL reads and writes them, except names of eras and zones."""
    kind = rows.schema.field("v").type
    if column_types(kind) is None or pa.types.is_duration(kind):
        raise SchemaError("column 'v' is written, and not read")
    text = as_strings(rows.column("v"))
    if pa.types.is_boolean(kind):
        text = text.cast(pa.string()).dictionary_encode().dictionary_decode()
        text = pa.array([each and each[0] for each in text.to_pylist()], pa.string())
    return pa.RecordBatch.from_arrays([from_text(text, kind, "column 'v'")], schema=rows.schema)


def cassandra(kind: str) -> Border:
    def cross(rows: Batch) -> Batch:
        column, field = CqlColumn("v", kind), rows.schema.field("v")
        check_fits(field, column, "t")
        found = [each for [each] in values(rows, [column])]
        if kind == "date":
            found = [None if each is None else each - 2**31 for each in found]
            return _integers(found, pa.int32(), field)
        if kind == "timestamp":
            ms = pa.array(found, pa.int64()).view(pa.timestamp("ms", field.type.tz))
            return pa.RecordBatch.from_arrays([ms.cast(field.type)], schema=rows.schema)
        return pa.RecordBatch.from_arrays([pa.array(found, field.type)], schema=rows.schema)

    return cross


def _integers(values: list[Any], integers: pa.DataType, field: pa.Field) -> Batch:
    column = pa.array(values, integers).view(field.type)
    return pa.RecordBatch.from_arrays([column], schema=pa.schema([field]))


def spark(rows: Batch) -> Batch:
    """Convert values that Python sends to the JVM and receives from it."""
    return to_arrow(to_spark(rows), spark_arrow_schema(rows.schema))


def staged_for_spark(rows: Batch) -> Batch:
    schema = stored_schema(rows.schema)
    stored = parquet(cast_rows(rows, schema).rename_columns(["v"]))
    return cast_rows(stored, rows.schema)


def _sink_context(schema: pa.Schema) -> SinkContext:
    return SinkContext(JobId("job"), Attempt(1), "sink", 0, StillClock(), AtOnce(), schema, "sink")


BORDERS: Mapping[str, Border] = {
    "a function per record": function_per_record,
    "a function of a dataclass": function_of_a_dataclass,
    "map_batches, polars": function_of_batches("polars"),
    "map_batches, arrow": function_of_batches("arrow"),
    "map_batches, pandas": function_of_batches("pandas"),
    "an expression": expression,
    "a value of state": value_of_state,
    "a key": key,
    **{
        f"format {name}": form(format)
        for name, format in {
            "json": formats.json(),
            "csv": formats.csv(),
            "arrow": formats.arrow(),
            "avro": None,
        }.items()
    },
    "a file of Parquet": parquet,
    "a collection of dicts": rows_of_a_program(_dicts, declared=False),
    "a collection of dicts with a schema": rows_of_a_program(_dicts, declared=True),
    "a collection of pandas": rows_of_a_program(pandas_frame, declared=True),
    "a collection of polars": rows_of_a_program(polars_frame, declared=True),
    "a generator": generated,
    "collect": collect,
    "print": printed,
    "a hash of Redis": redis,
    "text of PostgreSQL": postgres,
    **{f"{kind} of Cassandra": cassandra(kind) for kind in ("bigint", "double", "timestamp", "date")},
    "Spark": spark,
    "rows staged for Spark": staged_for_spark,
}
