"""JSON: a payload is one object, read strictly by the schema.

Arrow decodes all payloads at once; if that fails, the bad ones are searched for. Types are strict: "1"
is not a number, 1.0 not an integer, and 1 not a string. Timestamps are ISO 8601 (without zone: UTC),
dates and times ISO strings. Fields that are not in the schema are ignored.

    >>> import pyarrow as pa
    >>> from rheos import formats
    >>> decoder = formats.json().decoder(pa.schema([("user", pa.int64())]))
    >>> decoded = decoder.decode(pa.array([b'{"user": 7}', b'{"user": "me"}']))
    >>> decoded.rows.to_pylist(), decoded.bad[0].error
    ([{'user': 7}], "column 'user' must be a number, but is a string")
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from rheos.core.formats.contract import (
    BadPayload,
    Decoded,
    Decoder,
    Encoder,
    Format,
    LineLayout,
    check_any_column,
)
from rheos.core.formats.payloads import JoinedPayloads, joined
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.time_bounds import POLARS_TEXT, refuse_times_outside
from rheos.formats.bad_rows import RowsError, sift
from rheos.formats.conforming import conform, no_form, whole
from rheos.formats.decimal_text import suspect_numbers
from rheos.formats.json_maps import NOT_ONE_OBJECT, MapObjects, with_entries
from rheos.formats.json_parts import ObjectBounds, RawFields
from rheos.formats.registration import FormatRegistration

_OPEN, _CLOSE = b"{"[0], b"}"[0]
_PLAIN = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_null,
)
"""Types that Arrow's reader supports directly."""
_JUDGED: tuple[tuple[Callable[[pa.DataType], bool], Any], ...] = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_string, str),
    (pa.types.is_timestamp, datetime),
    (pa.types.is_list, list),
    (pa.types.is_struct, dict),
)
_TOO_BIG = "Number too big"
_HUGE = re.compile(rb"[0-9.][eE]\+?0*[1-9][0-9]{2}|[0-9]{309}")
"""Pattern that matches every number that may be beyond float64."""
_CHANGED = re.compile(r"Column\((.*?)\) changed from (\w+) to (\w+)")


def json() -> JsonFormat:
    """Create the format for JSON: a payload is one object, decoded strictly.

    "1" is no number, 1.0 no integer, and 1 no string. Timestamps are ISO 8601 (UTC if they have no
    zone); dates and times are ISO strings. A map is an object, and its keys are strings. Fields that
    the schema lacks are ignored, and missing fields are null. The format writes timestamps in UTC with
    a Z, and NaN and infinity as null.

    ```python
    orders = rh.kafka.source("orders", brokers="localhost:9092", schema=Order, format=rh.formats.json())
    ```

    Returns:
        The format, for the `format=` of a connector.
    """
    return JsonFormat()


@dataclass(frozen=True)
class JsonFormat(Format):
    """Format that `json` creates."""

    name: ClassVar[str] = "json"

    @property
    def finds_by_name(self) -> bool:
        return True

    @property
    def in_lines(self) -> LineLayout:
        return LineLayout(end="jsonl")

    def check_decodes(self, schema: pa.Schema) -> None:
        check_any_column(schema, self.name)
        wire_schema(schema)

    def check_encodes(self, schema: pa.Schema) -> None:
        wire_schema(schema)

    def decoder(self, schema: pa.Schema, header: bytes | None = None) -> Decoder:
        return _JsonDecoder(schema)

    def encoder(self, schema: pa.Schema) -> Encoder:
        return _JsonEncoder(schema)


class _JsonDecoder(Decoder):
    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        self._wire = wire_schema(schema)
        self._maps = MapObjects(schema)
        read = pa.schema([field.with_type(with_entries(field.type)) for field in schema])
        self._judge = _judge(read)
        self._raw = RawFields(read)
        self._bounds = ObjectBounds(read)

    def _decode(self, payloads: pa.Array) -> Decoded:
        return self._decode_joined(joined(payloads))

    def _decode_joined(self, written: JoinedPayloads) -> Decoded:
        payloads, unfit = self._maps.rewritten(written)
        # A payload that begins with { and ends with } contains one object or several. No object can
        # span two payloads, because a line end is between them, which no string contains. So if all
        # payloads have this shape and there are as many rows as payloads, each is one row. Arrow itself
        # ignores line ends, and a zero byte ends its input.
        raw = payloads.bytes()
        lasts = np.maximum(payloads.starts[1:] - 2, payloads.starts[:-1])
        shaped = (raw[payloads.starts[:-1]] == _OPEN) & (raw[lasts] == _CLOSE)
        for index in np.flatnonzero(~shaped).tolist():
            payload = payloads[index].strip()
            shaped[index] = payload.startswith(b"{") and payload.endswith(b"}")
        if len(raw) and not raw.min():
            shaped[payloads.payload_at(np.flatnonzero(raw == 0))] = False
        unfit |= self._bounds.unfit(payloads)
        if self._raw.has_decimals:
            for at in np.unique(payloads.payload_at(suspect_numbers(raw))).tolist():
                if what := self._raw.unfit_decimal(payloads[at]):
                    unfit[at] = what
        for at in unfit:
            shaped[at] = False

        def decode(i: int, j: int) -> Batch:
            if not shaped[i:j].all():
                raise RowsError(unfit.get(i, NOT_ONE_OBJECT))
            part = payloads.part(i, j)
            try:
                rows = decode_objects(part, self._wire, self.schema)
            except RowsError as error:
                # Arrow refuses numbers beyond float64 even in fields that the schema does not contain.
                if j - i > 1 or _TOO_BIG not in str(error):
                    raise
                rows = decode_objects(self._raw.alone(part), self._wire, self.schema)
            if rows.num_rows != j - i:
                raise RowsError("it contains more than one JSON object")
            return rows

        def suspects() -> npt.NDArray[np.int64]:
            refused = map(self._refuses, payloads.column().to_pylist())
            found = np.fromiter(refused, np.bool_, len(payloads))
            if not found.any():
                for at in np.unique(payloads.payload_at(suspect_numbers(raw))).tolist():
                    found[at] = _HUGE.search(payloads[at]) is not None
            return np.flatnonzero(found)

        rows, good, bad = sift(len(payloads), decode, self.schema, suspects=suspects)
        return Decoded(rows, good, [BadPayload(i, written[i], what) for i, what in bad])

    def _refuses(self, payload: bytes) -> bool:
        try:
            self._judge.decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return True
        return False


def decode_objects(data: pa.Buffer, wire: pa.Schema, schema: pa.Schema) -> Batch:
    """Decode JSON objects to rows of `schema`, without a check for nulls. Raises RowsError."""
    try:
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=data.size + 1),
            parse_options=pj.ParseOptions(explicit_schema=wire, unexpected_field_behavior="ignore"),
        )
        table.validate(full=True)
        columns = [_typed(whole(table.column(field.name)), field.type) for field in schema]
    except pa.ArrowInvalid as error:
        raise RowsError(_json_message(str(error))) from None
    for field, column in zip(schema, columns, strict=True):
        if not _is_finite(column):
            raise RowsError(f"column {field.name!r} holds NaN, an infinity or a number out of range")
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.RecordBatch.from_arrays(columns, schema=nullable)


def _typed(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_time(type_):  # Arrow reads timestamps, but not times of day
        column = pc.binary_join_element_wise("1970-01-01", column, "T").cast(pa.timestamp(type_.unit))
    return conform(column, type_)


def _is_finite(column: pa.Array) -> bool:
    """Return whether all floats are finite. JSON has no others, but Arrow accepts some."""
    if pa.types.is_floating(column.type):
        return bool(pc.all(pc.is_finite(column), min_count=0).as_py())
    if pa.types.is_struct(column.type):
        return all(map(_is_finite, column.flatten()))
    if pa.types.is_map(column.type):
        return _is_finite(column.items)
    return not pa.types.is_list(column.type) or _is_finite(column.flatten())


def _json_message(message: str) -> str:
    changed = _CHANGED.search(message)
    if changed:
        name, wanted, found = changed.groups()
        if not name:
            return f"it must be a JSON object, but is a {found}"
        return f"column {name.lstrip('/')!r} must be a {wanted}, but is a {found}"
    reason = message.removeprefix("JSON parse error: ")
    return re.sub(r" in row \d+$", "", reason)


def wire_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema for Arrow's JSON reader, with strings for dates and times, which it would read
    as numbers.

    Raises SchemaError for a type that has no form in JSON.
    """
    fields = []
    for field in schema:
        time = pa.types.is_time(field.type)
        fields.append(pa.field(field.name, pa.string() if time else _wire_type(field.type, field)))
    return pa.schema(fields)


def _wire_type(type_: pa.DataType, column: pa.Field) -> pa.DataType:
    if pa.types.is_decimal128(type_):
        # With 128 bits Arrow does not notice that a number with the column's scale is too large.
        return pa.decimal256(76, type_.scale)
    if any(is_a(type_) for is_a in _PLAIN):
        return type_
    if pa.types.is_date(type_):
        return pa.string()
    if pa.types.is_timestamp(type_):
        # A whole second may be written with ".000"; other fractions fail in the cast to seconds.
        return pa.timestamp("ms", type_.tz) if type_.unit == "s" else type_
    if pa.types.is_dictionary(type_):
        return _wire_type(type_.value_type, column)
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _wire_type(field.type, column)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_wire_type(type_.value_type, column))
    if pa.types.is_map(type_) and pa.types.is_string(type_.key_type):
        return _wire_type(with_entries(type_), column)
    raise no_form(
        column,
        "JSON",
        "use Parquet or, in messages, rh.formats.arrow(), or convert it to a number, a string, "
        "a list, a nested struct or a map of strings",
    )


def _judge(schema: pa.Schema) -> msgspec.json.Decoder[Any]:
    """Return a decoder that checks a single object fast, and nearly as strictly as Arrow does."""
    fields = [(f"f{i}", _judged(field), None) for i, field in enumerate(schema)]
    names = {f"f{i}": field.name for i, field in enumerate(schema)}
    return msgspec.json.Decoder(msgspec.defstruct("Judged", fields, rename=names, gc=False))


def _judged(field: pa.Field) -> Any:
    for is_a, python in _JUDGED:
        if is_a(field.type):
            return python | None
    return Any


class _JsonEncoder(Encoder):
    def __init__(self, schema: pa.Schema) -> None:
        types = pl.DataFrame(schema.empty_table()).schema
        shown = [_json_value(pl.col(name), type_).alias(name) for name, type_ in types.items()]
        self._encoded = pl.struct(shown).struct.json_encode()

    def encode(self, rows: Batch) -> pa.Array:
        refuse_times_outside(rows, POLARS_TEXT, "JSON")
        encoded = pl.DataFrame(rows).select(self._encoded).to_series()
        return encoded.to_arrow().cast(pa.binary())


def _json_value(value: pl.Expr, type_: pl.DataType) -> pl.Expr:
    if isinstance(type_, pl.Datetime):
        digits = {"ms": 3, "us": 6, "ns": 9}[type_.time_unit]
        if type_.time_zone is not None:
            value = value.dt.convert_time_zone("UTC")
        return value.dt.strftime(f"%Y-%m-%dT%H:%M:%S%.{digits}fZ")
    if isinstance(type_, pl.List):
        inner = _inner(type_.inner)
        return value.list.eval(_json_value(pl.element(), inner)) if _has_datetime(inner) else value
    if isinstance(type_, pl.Map) and _has_datetime(type_):
        key, shown_value = pl.element().struct.field("key"), pl.element().struct.field("value")
        shown_value = _json_value(shown_value, _inner(type_.value)).alias("value")
        return value.map.entries().list.eval(pl.struct(key, shown_value)).list.to_map()
    if isinstance(type_, pl.Struct) and _has_datetime(type_):
        shown = [
            _json_value(value.struct.field(field.name), _inner(field.dtype)).alias(field.name)
            for field in type_.fields
        ]
        return pl.when(value.is_not_null()).then(pl.struct(shown))
    return value


def _has_datetime(type_: pl.DataType) -> bool:
    if isinstance(type_, pl.List):
        return _has_datetime(_inner(type_.inner))
    if isinstance(type_, pl.Map):
        return _has_datetime(_inner(type_.value))
    if isinstance(type_, pl.Struct):
        return any(_has_datetime(_inner(field.dtype)) for field in type_.fields)
    return isinstance(type_, pl.Datetime)


def _inner(type_: Any) -> pl.DataType:
    made: pl.DataType = type_() if isinstance(type_, type) else type_
    return made


FORMAT = FormatRegistration(
    name="json",
    title="JSON",
    function=f"{__name__}:json",
    docs="types.md",
)
