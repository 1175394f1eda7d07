"""Conversion of a DataFrame's rows to entries of state: the Spark tasks, and the checks before them.

Encoded rows are (key group, key, namespace, value), as in a snapshot, and a *priority*. It is 0 for
stored entries, and higher for later changes. The row with the highest priority of an entry counts.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.spark.spark_types import to_arrow, to_spark
from rheos.core.errors import InputError, SchemaError, UnrestorableError
from rheos.core.protocol.columns import columns_to_python
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS
from rheos.core.protocol.shapes import StateShape
from rheos.core.state.codec import ValueCodec
from rheos.core.state.keys import Key
from rheos.core.state.parts import PLACE
from rheos.core.state.stamps import stamped
from rheos.core.state.timers import EVENT, NAMESPACE, PROCESSING
from rheos.ops.savepoints.layouts import layout_of
from rheos.ops.savepoints.reading_tasks import ReadState, tables
from rheos.runtimes.state_tables.entry_layouts import (
    EVENT_DOMAIN,
    PROCESSING_DOMAIN,
    EntryLayout,
    ListLayout,
    MapLayout,
    TimerLayout,
    ValueLayout,
)
from rheos.runtimes.state_tables.forms import misfit

RAW = pa.schema(
    [
        pa.field("key_group", pa.int32(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("namespace", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("priority", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True)
class EncodeState:
    """Rows of a DataFrame, as entries of one state."""

    state: str
    shapes: Mapping[str, StateShape]
    given: pa.Schema
    """The DataFrame's columns, in their order."""
    max_parallelism: int
    priority: int
    declared: Sequence[Any] = ()
    """The types in the program, if it is known: of values, or of a map's keys and values."""


def encode_state(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    task: EncodeState = pickle.loads(payload)
    layout = writable_layout(task.state, task.shapes)
    codecs = [ValueCodec(task.state, declared) for declared in task.declared]
    for batch in batches:
        rows = to_arrow(batch, task.given)
        yield to_spark(_encoded(rows, layout, task, codecs), RAW)


def raw_state(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the stored state unchanged. The payload is a `ReadState`."""
    task: ReadState = pickle.loads(payload)
    for table in tables(task, batches):
        columns = [table.column(name) for name in RAW.names[:-1]]
        columns[0] = columns[0].cast(pa.int32())
        none = pa.chunked_array([pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)])
        rows = pa.table([*columns, none], schema=RAW).combine_chunks()
        yield from rows.to_batches(max_chunksize=1 << 14)


def _encoded(
    rows: pa.RecordBatch, layout: EntryLayout, task: EncodeState, codecs: Sequence[ValueCodec]
) -> pa.RecordBatch:
    codec = layout.keys.codec
    keys = codec.of(layout.keys.batch(rows, layout.keys.names))
    namespaces, values = _entries(rows, layout, keys, codecs)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(codec.groups(keys, task.max_parallelism).astype("int32")),
            pa.array([codec.encode(key) for key in keys], pa.binary()),
            pa.array(namespaces, pa.binary()),
            pa.array(values, pa.binary()),
            pa.repeat(pa.scalar(task.priority, pa.int32()), rows.num_rows),
        ],
        schema=RAW,
    )


def _entries(
    rows: pa.RecordBatch, layout: EntryLayout, keys: Sequence[Key], codecs: Sequence[ValueCodec]
) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Return the namespaces and the values of the entries."""
    names = layout.names
    match layout:
        case ValueLayout():
            values = layout.values.encode(rows.column(names["value"]), keys, names["value"])
            _check(values, codecs[:1], keys, names["value"])
            return [b""] * len(keys), _with_stamps(values, rows, layout, keys)
        case ListLayout():
            values = layout.values.encode(rows.column(names["value"]), keys, names["value"])
            _check(values, codecs[:1], keys, names["value"])
            places = [PLACE.pack(at) for at in _whole(rows, names["position"], keys)]
            return places, _with_stamps(values, rows, layout, keys)
        case MapLayout():
            items = layout.items.encode(rows.column(names["map_key"]), keys, names["map_key"])
            values = layout.values.encode(rows.column(names["value"]), keys, names["value"])
            _check(items, codecs[:1], keys, names["map_key"])
            _check(values, codecs[1:], keys, names["value"])
            return items, _with_stamps(values, rows, layout, keys)
        case TimerLayout():
            marks = {EVENT_DOMAIN: EVENT, PROCESSING_DOMAIN: PROCESSING}
            domains = rows.column(names["domain"]).to_pylist()
            for domain, key in zip(domains, keys, strict=True):
                if domain not in marks:
                    raise InputError(
                        f"column {names['domain']!r} is {domain!r}, which is not a kind of time",
                        key=repr(key),
                        hint=f"use {EVENT_DOMAIN!r} or {PROCESSING_DOMAIN!r}",
                    )
            times = _whole(rows, names["timestamp_ms"], keys)
            timers = [NAMESPACE.pack(marks[d], at) for d, at in zip(domains, times, strict=True)]
            return timers, [b""] * len(keys)
        case _:
            raise AssertionError(f"rows cannot be converted to entries of {type(layout).__name__}")


def _with_stamps(
    values: Sequence[bytes], rows: pa.RecordBatch, layout: EntryLayout, keys: Sequence[Key]
) -> Sequence[bytes]:
    """Add the time of the last update to the entries, if they expire."""
    if layout.ttl is None:
        return values
    times = _whole(rows, layout.names["expires_ms"], keys)
    stamps = (max(at - layout.ttl.ms, MIN_TIMESTAMP_MS) for at in times)
    return [stamped(stamp, value) for stamp, value in zip(stamps, values, strict=True)]


def _check(
    values: Sequence[bytes], codecs: Sequence[ValueCodec], keys: Sequence[Key], name: str
) -> None:
    """Decode the values as the program will, to check them."""
    for codec in codecs:
        for value, key in zip(values, keys, strict=True):
            try:
                codec.decode(value)
            except UnrestorableError as error:
                raise InputError(
                    f"column {name!r} has a value that the program cannot read: {error.what}",
                    key=repr(key),
                    hint="correct it, or drop the row",
                ) from error


def _whole(rows: pa.RecordBatch, name: str, keys: Sequence[Key]) -> list[int]:
    column = rows.column(name)
    if column.null_count:
        key = keys[pc.index(column.is_null(), True).as_py()]
        raise InputError(f"column {name!r} is null", key=repr(key), hint="fill it in")
    return columns_to_python(column.cast(pa.int64()))


# --- checks on the driver ---------------------------------------------------------------------------


def writable_layout(state: str, shapes: Mapping[str, StateShape]) -> EntryLayout:
    """Return the layout of a state. Raise SchemaError if the state cannot be made from rows."""
    layout = layout_of(state, shapes)
    if not isinstance(layout, EntryLayout):
        raise SchemaError(
            f"state {state!r} contains {shapes[state].holds}, which cannot be written from rows",
            hint="value, list and map state, reduced records and timers can be written; for other "
            "state, you can delete keys and drop whole operators",
        )
    if isinstance(layout, ListLayout) and layout.pickled:
        raise SchemaError(
            f"state {state!r} is a list of values without a declared type, so it cannot be written",
            hint="declare the type of its elements; or delete keys of it, which needs no type",
        )
    return layout


def check_columns(given: pa.Schema, layout: EntryLayout, what: str) -> None:
    """Raise SchemaError, with each column, if a DataFrame does not match a state."""
    wanted = layout.schema
    problems = [f"{n} is missing, {wanted.field(n).type}" for n in wanted.names if n not in given.names]
    problems += [
        f"{name} is not one of its columns" for name in given.names if name not in wanted.names
    ]
    problems += layout.keys.misfits(given, [n for n in layout.keys.names if n in given.names])
    there = {part: name for part, name in layout.names.items() if name in given.names}
    for part, name in there.items():
        kind = given.field(name).type
        match part, layout:
            case "value", ValueLayout() | ListLayout() | MapLayout():
                problems += layout.values.misfits(kind, name)
            case "map_key", MapLayout():
                problems += layout.items.misfits(kind, name)
            case "domain", TimerLayout():
                problems += [] if pa.types.is_string(kind) else [misfit(name, pa.string(), kind)]
            case _:
                problems += [] if pa.types.is_integer(kind) else [misfit(name, pa.int64(), kind)]
    if problems:
        raise SchemaError(
            f"the DataFrame does not fit {what}: {'; '.join(problems)}",
            hint=f"its columns must be {', '.join(f'{field.name}: {field.type}' for field in wanted)}",
        )
