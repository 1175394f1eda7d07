"""CSV: a payload is one record of fields.

Arrow decodes all payloads at once; if that fails, it searches for the bad ones. An empty field is null;
in a non-nullable string column it is the empty string, as `""` always is. Timestamps are ISO 8601
(without zone: UTC), dates and times ISO.

    >>> import pyarrow as pa
    >>> from rheos import formats
    >>> decoder = formats.csv().decoder(pa.schema([("user", pa.int64()), ("page", pa.string())]))
    >>> decoded = decoder.decode(pa.array([b'7,"/a,b"', b"me,/"]))
    >>> decoded.rows.to_pylist(), decoded.bad[0].error
    ([{'user': 7, 'page': '/a,b'}], "column 'user' must be int64, but is 'me'")
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.formats.contract import (
    NOT_UTF_8,
    BadPayload,
    Decoded,
    Decoder,
    Encoder,
    Format,
    LineLayout,
    check_any_column,
)
from rheos.core.formats.payloads import NEWLINE, JoinedPayloads, joined, split_at
from rheos.core.protocol.elements import Batch
from rheos.core.site import located_at_call
from rheos.formats.bad_rows import RowsError, sift
from rheos.formats.conforming import no_form, whole
from rheos.formats.decimal_text import decimals_of, with_writable_times
from rheos.formats.registration import FormatRegistration

_RETURN = b"\r"[0]
_BOM = b"\xef\xbb\xbf"
_QUOTE = b'"'
_HELD = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_decimal128,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date32,
    pa.types.is_time,
    pa.types.is_timestamp,
)
_ZONE = r"\d([zZ]|[+-]\d\d(:?\d\d)?)$"
_INVALID = re.compile(r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to .+?: (.*)", re.S)
_FIELDS = re.compile(r"Expected (\d+) columns, got (\d+)")


@located_at_call
def csv(*, header: bool = True, delimiter: str = ",") -> CsvFormat:
    """Create the format for CSV: a payload is one line.

    An empty field is null; in a non-nullable string column it is the empty string. A field that
    contains a delimiter, a quote or a line end is in double quotes.

    ```python
    logs = rh.files.source("logs/*.csv", schema=LogEvent, format=rh.formats.csv(delimiter=";"))
    ```

    Args:
        header: Whether files begin with a line that names their columns, in any order; columns that the
            schema lacks are ignored. Without it, and always in messages, fields are in the order of the
            schema.
        delimiter: One ASCII character between two fields.

    Returns:
        The format, for the `format=` of a connector.

    Raises:
        ProgramError: `delimiter` is not a single ASCII character, or is a quote or a line end.
    """
    if len(delimiter.encode()) != 1 or delimiter in '"\r\n':
        raise ProgramError(
            f"delimiter={delimiter!r} is not a valid delimiter",
            hint='write one ASCII character, such as ";" or "\\t"',
        )
    return CsvFormat(header, delimiter)


@dataclass(frozen=True)
class CsvFormat(Format):
    """Format that `csv` creates."""

    header: bool = True
    delimiter: str = ","

    name: ClassVar[str] = "csv"

    @property
    def finds_by_name(self) -> bool:
        return self.header

    @property
    def in_lines(self) -> LineLayout:
        return LineLayout(
            end="csv", header=self.header, quote=_QUOTE, delimiter=self.delimiter.encode()
        )

    def check_decodes(self, schema: pa.Schema) -> None:
        check_any_column(schema, self.name)
        for field in schema:
            text = pa.types.is_dictionary(field.type) and field.type.value_type == pa.string()
            if not text and not any(is_a(field.type) for is_a in _HELD):
                hint = (
                    "convert it to a number, a string or a time, or use a format with nested "
                    "values: JSON"
                )
                raise no_form(field, "CSV", hint)

    def check_encodes(self, schema: pa.Schema) -> None:
        self.check_decodes(schema)
        if len(schema) == 1 and schema.field(0).nullable:
            raise SchemaError(
                f"a null in the only column, {schema.names[0]!r}, would be an empty line",
                hint="add a second column, or use fill_null and declare the column as not nullable",
            )

    def decoder(self, schema: pa.Schema, header: bytes | None = None) -> Decoder:
        names = schema.names if header is None else self._named(header)
        missing = [name for name in schema.names if name not in names]
        if missing:
            raise InputError(
                f"the header has no column {missing[0]!r}",
                hint=f"correct the schema; the file has {', '.join(names)}",
            )
        return _CsvDecoder(schema, names, self.delimiter)

    def encoder(self, schema: pa.Schema) -> Encoder:
        return _CsvEncoder(schema, self)

    def _named(self, header: bytes) -> list[str]:
        line = header.removeprefix(_BOM)
        names = pa.schema([])
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"the header is not valid UTF-8 from byte {error.start} on", hint=NOT_UTF_8
            ) from None
        try:
            names = pa_csv.read_csv(
                pa.BufferReader(line.rstrip(b"\r\n") + b"\n"),
                parse_options=pa_csv.ParseOptions(delimiter=self.delimiter),
            ).schema
        except pa.ArrowInvalid as error:
            raise InputError(
                f"the header cannot be read: {error}", hint="pass header=False if there is no header"
            ) from None
        found: list[str] = names.names
        if len(set(found)) < len(found):
            raise InputError(
                "the header contains a column name twice", hint="rename one of the columns"
            )
        return found


class _CsvDecoder(Decoder):
    def __init__(self, schema: pa.Schema, names: Sequence[str], delimiter: str) -> None:
        super().__init__(schema)
        self._names = names
        # A record of empty fields follows the others; an unterminated record would swallow it.
        self._last = delimiter.encode() * (len(names) - 1) + b"\n"
        self._options: dict[str, Any] = {
            "parse_options": pa_csv.ParseOptions(delimiter=delimiter, ignore_empty_lines=False),
            "convert_options": pa_csv.ConvertOptions(
                column_types={field.name: _wire_type(field.type) for field in schema},
                include_columns=schema.names,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        }

    def _decode(self, payloads: pa.Array) -> Decoded:
        return self._decode_joined(joined(payloads))

    def _decode_joined(self, payloads: JoinedPayloads) -> Decoded:
        # If no payload contains a line end, each holds at most one record; so if there are as many
        # records as payloads, each holds exactly one. The few others are decoded alone, and so are
        # payloads with a byte order mark: Arrow removes it from the start of its input only.
        raw = payloads.bytes()
        ends = (raw == NEWLINE) | (raw == _RETURN)
        ends[payloads.starts[1:] - 1] = False
        odd = np.zeros(len(payloads), np.bool_)
        odd[payloads.payload_at(np.flatnonzero(ends))] = True
        begin = payloads.starts[:-1][raw[payloads.starts[:-1]] == _BOM[0]]
        odd[payloads.payload_at(begin)] = True
        if len(self._names) > 1:  # Arrow reads an empty line as a record of nulls.
            odd |= np.diff(payloads.starts) == 1

        def decode(i: int, j: int) -> Batch:
            if j - i > 1 and odd[i:j].any():
                raise RowsError("some are decoded alone")
            if len(self._names) > 1 and payloads.starts[j] - payloads.starts[i] == 1:
                raise RowsError(f"it is empty, but {len(self._names)} fields are expected")
            return self._read(payloads.part(i, j), j - i + 1).slice(0, j - i)

        def suspects() -> npt.NDArray[np.int64]:
            return np.flatnonzero(odd)

        rows, good, bad = sift(len(payloads), decode, self.schema, suspects=suspects)
        return Decoded(rows, good, [BadPayload(i, payloads[i], what) for i, what in bad])

    def _read(self, records: pa.Buffer, wanted: int) -> Batch:
        data = records.to_pybytes() + self._last
        reading = pa_csv.ReadOptions(
            use_threads=False, block_size=len(data) + 1, column_names=self._names
        )
        try:
            table = pa_csv.read_csv(pa.BufferReader(data), read_options=reading, **self._options)
            if table.num_rows != wanted:
                raise RowsError(
                    "it is not a single record: check for a missing quote or an extra line end"
                )
            columns = [_typed(table.column(field.name), field) for field in self.schema]
        except pa.ArrowInvalid as error:
            raise RowsError(self._csv_message(str(error))) from None
        nullable = pa.schema([field.with_nullable(True) for field in self.schema])
        return pa.RecordBatch.from_arrays(columns, schema=nullable)

    def _csv_message(self, message: str) -> str:
        if fields := _FIELDS.search(message):
            return f"it has {fields[2]} fields, but {fields[1]} are expected"
        if invalid := _INVALID.search(message):
            field = self.schema.field(self.schema.names.index(self._names[int(invalid[1])]))
            what = invalid[2].removeprefix("invalid value ")
            return f"column {field.name!r} must be {field.type}, but is {what}"
        return message


def _wire_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that Arrow reads. It is a string if Arrow would read times too strictly, or
    decimals wrongly."""
    if (pa.types.is_timestamp(kind) and kind.tz is not None) or pa.types.is_decimal(kind):
        return pa.string()
    return pa.string() if pa.types.is_dictionary(kind) else kind


def _typed(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    array = whole(column)
    if pa.types.is_decimal(field.type):
        # Arrow's reader checks the scale of a number, but not its number of digits.
        array.validate(full=True)
    if pa.types.is_timestamp(field.type) and field.type.tz is not None:
        zoned = pc.match_substring_regex(array, _ZONE)
        utc = pc.binary_join_element_wise(array, "Z", "")
        array = pc.if_else(zoned, array, utc)
    if not field.nullable and (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
        array = array.fill_null("")
    try:
        if array.type == field.type:
            return array
        if pa.types.is_decimal(field.type):  # Arrow trims only values that it reads as numbers itself
            return decimals_of(pc.ascii_trim_whitespace(array), field.type)
        return array.cast(field.type)
    except pa.ArrowInvalid:
        # A single record is decoded together with an empty one, so two rows are one record.
        shown = f"is {column[0].as_py()!r}" if len(column) <= 2 else "is not"
        raise RowsError(f"column {field.name!r} must be {field.type}, but {shown}") from None


class _CsvEncoder(Encoder):
    def __init__(self, schema: pa.Schema, format: CsvFormat) -> None:
        self._schema = schema
        self._format = format

    def encode(self, rows: Batch) -> pa.Array:
        lines = self.lines(rows)
        raw = np.frombuffer(lines, np.uint8)
        ends = np.flatnonzero(raw == NEWLINE)
        if len(ends) != rows.num_rows:
            # A quote within quotes is written twice, so a line end outside follows an even number of
            # quotes.
            quotes = np.cumsum(raw == _QUOTE[0])
            ends = ends[quotes[ends] % 2 == 0]
        return split_at(lines, ends)

    def lines(self, rows: Batch) -> bytes:
        columns = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in with_writable_times(rows, "CSV").columns
        ]
        out = io.BytesIO()
        options = pa_csv.WriteOptions(include_header=False, delimiter=self._format.delimiter)
        pa_csv.write_csv(pa.RecordBatch.from_arrays(columns, names=rows.schema.names), out, options)
        return out.getvalue()

    def header(self) -> bytes:
        if not self._format.header:
            return b""
        quoted = ['"' + name.replace('"', '""') + '"' for name in self._schema.names]
        return self._format.delimiter.join(quoted).encode() + b"\n"


FORMAT = FormatRegistration(
    name="csv",
    title="CSV",
    function=f"{__name__}:csv",
    docs="types.md",
)
