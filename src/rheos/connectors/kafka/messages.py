"""Metadata of Kafka's messages as columns.

A metadata field becomes a column if the user names it. If the schema declares the column, it has the
declared type; otherwise the first type of its field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.kafka.client_options import client
from rheos.core.errors import ProgramError, SchemaError

Columns: TypeAlias = dict[str, pa.Array]
Unfit: TypeAlias = dict[int, str]
"""Error by index of the message."""
_MISFITS = (pa.ArrowInvalid, UnicodeDecodeError)
"""Errors for strings that are not valid UTF-8: a key, or the name of a header."""
_HEADER = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())])


def numbers(of: Callable[[Any], int], messages: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Call a method of Message on each message."""
    return np.fromiter(map(of, messages), np.int64, len(messages))


def message_keys(messages: Sequence[Any]) -> pa.Array:
    """Return the keys; null for messages without one."""
    return pa.array(list(map(client().Message.key, messages)), pa.binary())


def _timestamps(messages: Sequence[Any]) -> pa.Array:
    """Return the timestamps; null for messages without one."""
    found = map(client().Message.timestamp, messages)
    return pa.array([ms if kind else None for kind, ms in found], pa.timestamp("ms", "UTC"))


def _headers(messages: Sequence[Any]) -> pa.Array:
    """Return the headers, one list per message in their order; empty for a message without headers."""
    found = map(client().Message.headers, messages)
    listed = [[{"name": name, "value": value} for name, value in each or ()] for each in found]
    return pa.array(listed, pa.list_(_HEADER))


def _topics(messages: Sequence[Any]) -> pa.Array:
    return pa.array(list(map(client().Message.topic, messages)), pa.string())


def _partitions(messages: Sequence[Any]) -> pa.Array:
    return pa.array(numbers(client().Message.partition, messages)).cast(pa.int32())


def _offsets(messages: Sequence[Any]) -> pa.Array:
    return pa.array(numbers(client().Message.offset, messages))


@dataclass(frozen=True)
class _Field:
    column: Callable[[Sequence[Any]], pa.Array]
    types: tuple[pa.DataType, ...]
    """Types that the column may have; the first is the default."""
    nullable: bool = False


FIELDS: Mapping[str, _Field] = {
    "key": _Field(message_keys, (pa.binary(), pa.string()), nullable=True),
    "headers": _Field(_headers, (pa.list_(_HEADER),)),
    "timestamp": _Field(
        _timestamps,
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("ns", "UTC"), pa.int64()),
        nullable=True,
    ),
    "topic": _Field(_topics, (pa.string(),)),
    "partition": _Field(_partitions, (pa.int32(), pa.int64())),
    "offset": _Field(_offsets, (pa.int64(),)),
}


def named_fields(metadata: Any) -> tuple[tuple[str, str], ...]:
    """Return the requested fields with their columns, from a list of names or a mapping of fields to
    columns. Raises ProgramError."""
    hint = f'write metadata={{"timestamp": "sent_at"}}; the fields are {", ".join(FIELDS)}'
    if isinstance(metadata, str):
        metadata = [metadata]
    pairs = metadata.items() if isinstance(metadata, Mapping) else [(name, name) for name in metadata]
    wanted = tuple((str(name), str(column)) for name, column in pairs)
    for name, _ in wanted:
        if name not in FIELDS:
            raise ProgramError(f"a Kafka message has no field {name!r}", hint=hint)
    columns = [column for _, column in wanted]
    if len(set(columns)) < len(columns):
        raise ProgramError(f"metadata={metadata!r} maps two fields to one column", hint=hint)
    return wanted


def with_metadata(schema: pa.Schema, wanted: Sequence[tuple[str, str]]) -> tuple[pa.Schema, pa.Schema]:
    """Return the schema of the source's rows, and that of the columns which the payload fills. Raises
    SchemaError if a column has a type that its field does not support."""
    whole = schema
    for name, column in wanted:
        field = FIELDS[name]
        if column not in schema.names:
            whole = whole.append(pa.field(column, field.types[0], nullable=field.nullable))
        elif schema.field(column).type not in field.types:
            raise SchemaError(
                f"the column {column!r} is {schema.field(column).type}, but the {name} of a "
                f"message is {field.types[0]}",
                hint=f"it must be {' or '.join(map(str, field.types))}",
            )
    ours = {column for _, column in wanted}
    payload = pa.schema([field for field in schema if field.name not in ours])
    return whole, payload


def metadata_columns(
    messages: Sequence[Any], wanted: Sequence[tuple[str, str]], schema: pa.Schema
) -> tuple[Columns, Unfit]:
    """Return columns with a value per message, null where it does not fit; and the misfits."""
    made: Columns = {}
    unfit: Unfit = {}
    for name, column in wanted:
        kind = schema.field(column).type
        try:
            values = _of_type(FIELDS[name].column(messages), kind)
        except _MISFITS:
            values = _one_by_one(messages, name, kind, unfit)
        if values.null_count and not schema.field(column).nullable:
            for at in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
                unfit.setdefault(at, f"it has no {name}, but column {column!r} is not nullable")
        made[column] = values
    return made, unfit


def _of_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def _one_by_one(messages: Sequence[Any], name: str, kind: pa.DataType, unfit: Unfit) -> pa.Array:
    """Return a column, converted value by value; values that do not fit are added to `unfit`."""
    values = []
    for at, message in enumerate(messages):
        try:
            values.append(_of_type(FIELDS[name].column([message]), kind))
        except _MISFITS as error:
            unfit.setdefault(at, f"its {name} does not fit the column: {error}")
            values.append(pa.nulls(1, kind))
    return pa.concat_arrays(values)
