"""The first node of a stream: a source with its event time, its outputs and its rejected rows."""

from __future__ import annotations

from pathlib import Path

from rheos.api.program import Program
from rheos.api.watermarks import checked_watermark
from rheos.connectors.spark.dataframe import DataFrameSource, ordered_by
from rheos.core.callables import function_name
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import Sink, Source
from rheos.core.connectors.rejected_records import with_rows_ahead
from rheos.core.errors import ProgramError, Site
from rheos.core.graph.nodes import MAIN, Input, StreamType
from rheos.core.graph.validate import check_columns
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.source import REJECTED, SourceSpec
from rheos.core.redaction import redacted
from rheos.core.safe_strings import shown


def add_source(
    program: Program,
    source: Source,
    watermark: Watermark | None,
    *,
    name: str | None,
    uid: str | None,
    site: Site,
) -> Input:
    """Add a source to a program, and return the port of its rows. Raise ProgramError or SchemaError if
    the watermark does not fit the source."""
    check_columns(source.schema)
    if watermark is None and isinstance(source, DataFrameSource) and source.event_time:
        watermark = Watermark.monotonic(on=source.event_time)
    if watermark is not None:
        example = 'watermark=rh.Watermark.bounded_out_of_orderness("5s", on="at")'
        watermark = checked_watermark(source.schema, watermark, example)
        if watermark.on is not None:
            source = ordered_by(source, watermark.column)
    record = capabilities.record_class(source)
    on = None if watermark is None else watermark.on
    outputs = {MAIN: StreamType(source.schema, watermark is not None, record, on)}
    rejected = capabilities.rejected_schema_of(source)
    if watermark is not None and watermark.max_ahead is not None:
        if capabilities.dataframe_of(source) is not None:
            raise ProgramError(
                "max_ahead is not available for a DataFrame, whose rows have no order",
                hint="drop such rows before, with df.filter(...)",
            )
        rejected = with_rows_ahead(rejected)
    if rejected is not None:
        outputs[REJECTED] = StreamType(rejected, event_time=False)
    node = program.add(
        SourceSpec(source, watermark),
        name=redacted(source.describe()) if name is None else name,
        site=site,
        outputs=outputs,
        uid=uid,
    )
    return Input(node.id)


def no_source(given: object, is_stream: bool) -> ProgramError:
    """Return the error for an argument of `from_source` that is not a source."""
    if isinstance(given, Sink):
        hint = "a sink is where rows go: write stream.sink_to(...) at the end of a stream"
    elif is_stream:
        hint = "it is a stream already: call its methods, such as .filter(...)"
    elif callable(given):
        hint = f"call it: {function_name(given)}(...)"
    elif isinstance(given, str | Path):
        hint = 'write env.from_source(rh.files.source("data/*.parquet", schema=Event))'
    else:
        hint = "write env.from_source(rh.collection(rows))"
    return ProgramError(f"from_source() takes a source, not {shown(given)}", hint=hint)
