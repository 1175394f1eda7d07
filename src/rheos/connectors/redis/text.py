"""Values and commands as bytes in Redis's form, built from columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.connectors.schemas import is_bytes
from rheos.core.errors import SchemaError
from rheos.core.protocol.elements import Batch
from rheos.formats.bad_rows import RowsError, sift
from rheos.formats.decimal_text import cast_text, with_writable_times

_HELD = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_decimal128,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_date32,
    pa.types.is_time,
    pa.types.is_timestamp,
)


def check_fields(schema: Iterable[pa.Field]) -> None:
    """Raise SchemaError if a column cannot be converted to strings."""
    for field in schema:
        if not any(is_a(field.type) for is_a in _HELD):
            raise SchemaError(
                f"column {field.name!r} of type {field.type} cannot be a field in Redis",
                hint="convert it to a number, a string or a time, or use a format with nested "
                "values: format=rh.formats.json()",
            )


def to_bytes(column: pa.Array) -> pa.Array:
    """Return the column as `binary`; null stays null."""
    if not is_bytes(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.binary())


def as_fields(rows: Batch) -> dict[str, pa.Array]:
    """Return the rows' columns as fields of a hash: columns of `binary` by name. Raises InputError,
    naming column and record, for a time that cannot be written as a string."""
    writable = with_writable_times(rows, "a string for Redis")
    return {name: to_bytes(writable.column(name)) for name in writable.schema.names}


def from_bytes(
    columns: dict[str, pa.Array], rows: int, schema: pa.Schema
) -> tuple[Batch, npt.NDArray[np.int64] | None, list[tuple[int, str]]]:
    """Convert columns of `binary` to rows of the schema. Return the rows that fit, their indexes (None
    for all), and the other rows with their errors."""

    def decode(i: int, j: int) -> Batch:
        arrays = []
        for field in schema:
            given = columns[field.name].slice(i, j - i)
            try:
                arrays.append(_cast(given, field.type))
            except pa.ArrowInvalid:
                what = f"column {field.name!r} must be {field.type}, but is {_example_of(given)}"
                raise RowsError(what) from None
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        return pa.RecordBatch.from_arrays(arrays, schema=nullable)

    return sift(rows, decode, schema)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast values of type `binary`. Raises ArrowInvalid."""
    if is_bytes(kind):
        return values.cast(kind)
    text = values.cast(pa.string())
    if pa.types.is_time(kind):  # Arrow casts strings to times of day only by way of a timestamp.
        text = pc.binary_join_element_wise("1970-01-01", text, " ").cast(pa.timestamp(kind.unit))
    return cast_text(text, kind)


def _example_of(values: pa.Array) -> str:
    return repr(values[0].as_py())[:80]


# --- commands -----------------------------------------------------------------------------------------


Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
NOTHING = pa.scalar(b"", pa.binary())


@dataclass(frozen=True, slots=True)
class CommandBuffer:
    """Some commands in the form of Redis's protocol."""

    data: memoryview
    replies: Numbers
    """Total number of replies expected up to and including each row."""

    @property
    def count(self) -> int:
        return int(self.replies[-1])

    def row_of(self, reply: int) -> int:
        return int(np.searchsorted(self.replies, reply, side="right"))


def command(*arguments: bytes | str | int) -> bytes:
    """Encode a single command."""
    parts = [a if isinstance(a, bytes) else str(a).encode() for a in arguments]
    return b"*%d\r\n" % len(parts) + b"".join(map(bulk, parts))


def bulk(value: bytes) -> bytes:
    """Encode an argument."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def head(name: bytes, arguments: int) -> bytes:
    """Return the beginning of a command with this number of arguments, its name included."""
    return b"*%d\r\n%b" % (arguments, bulk(name))


def of_texts(rows: pa.Array, counts: Numbers) -> CommandBuffer:
    """Build commands from rows of bytes without nulls; `counts` is the number of commands in each
    row."""
    offsets, data = rows.buffers()[1:]
    ends = np.frombuffer(offsets, np.int32)[rows.offset : rows.offset + len(rows) + 1]
    begin, end = int(ends[0]), int(ends[-1])
    text = memoryview(b"") if data is None else memoryview(data)[begin:end]
    return CommandBuffer(text, np.cumsum(counts))


def argument(column: pa.Array) -> pa.Array:
    """Encode values as arguments of commands; null stays null."""
    sizes = pc.binary_length(column).cast(pa.string()).cast(pa.binary())
    return concatenated(b"$", sizes, b"\r\n", column, b"\r\n")


def concatenated(*parts: bytes | pa.Array) -> pa.Array:
    """Concatenate the bytes of each row; null if one of them is null."""
    return pc.binary_join_element_wise(*map(_scalar, parts), NOTHING)


def commands_with_optional(
    name: bytes, fixed: pa.Array, optional: Sequence[pa.Array], *, each: int = 1
) -> tuple[pa.Array, Flags]:
    """Build a command for each row from the `fixed` argument and those of the `optional` arguments that
    are not null. Each optional value contains `each` arguments. If all are null, the row has no
    command. Also return which rows have a command."""
    valid = [pc.is_valid(column).to_numpy(zero_copy_only=False) for column in optional]
    there = np.sum(valid, axis=0, dtype=np.int64)
    sizes = pa.array(2 + each * there).cast(pa.string()).cast(pa.binary())
    filled = [pc.fill_null(column, b"") for column in optional]
    made = concatenated(b"*", sizes, b"\r\n$%d\r\n%b\r\n" % (len(name), name), fixed, *filled)
    flags: Flags = np.greater(there, 0)
    return (made if flags.all() else pc.if_else(pa.array(flags), made, NOTHING)), flags


def _scalar(part: bytes | pa.Array) -> Any:
    return pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part
