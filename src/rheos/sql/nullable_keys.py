"""Nullable keys. In SQL, rows with a null key form a group, but a stream's key cannot be null. So such
a key becomes two: its value, or any value, and whether it is null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from rheos.api.expressions import compile_expressions
from rheos.api.streams import DataStream
from rheos.core.graph.changelog import INSERT, OP, Changes
from rheos.core.graph.nullable_names import absence_name, value_name
from rheos.core.operators.expressions import ExpressionSpec
from rheos.sql import types

if TYPE_CHECKING:
    from rheos.api.keyed_stream import KeyedStream


@dataclass(frozen=True)
class NullableKeys:
    """Keys of rows, none of which is null."""

    stream: DataStream
    """Rows, with two columns for each nullable key."""
    keys: tuple[str, ...]
    of: tuple[str, ...]
    """Keys that may be null."""

    def of_keys(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return the columns without nulls for some of the keys."""
        return _named(keys, self.of)

    def keyed(self) -> KeyedStream:
        return self.stream.key_by(*self.keys)

    def restored(self, found: DataStream, changes: Changes | None) -> DataStream:
        """Restore the original keys in a result computed by key."""
        if not self.of:
            return found
        hidden = {name for key in self.of for name in (value_name(key), absence_name(key))}
        there, changing = {*found.schema.names}, found.transformation.type.changes is not None
        exprs = [
            pl.when(~pl.col(absence_name(key))).then(pl.col(value_name(key))).alias(key)
            for key in self.of
            if key not in there
        ]
        kept = [
            pl.col(name)
            for name in found.schema.names
            if name not in hidden and not (changing and name == OP)
        ]
        return selected(found, [*exprs, *kept], changes)


def selected(stream: DataStream, exprs: Sequence[pl.Expr], changes: Changes | None) -> DataStream:
    """Return new columns; of a changelog, with the kind of change, as a changelog of the resulting
    table. Append-only rows become a changelog of insertions if `changes` is given."""
    changing = stream.transformation.type.changes is not None
    if not changing and changes is None:
        return stream.select(*exprs)
    given = [*exprs, pl.col(OP) if changing else pl.lit(INSERT).alias(OP)]
    made, schema = compile_expressions("select", given, {}, stream.schema)
    added = stream.transformation.then(ExpressionSpec("select", made), "select", schema)
    return DataStream.at(added.with_changes(changes))


def with_changes(stream: DataStream, changes: Changes | None) -> DataStream:
    """Declare the rows to be a changelog, or plain rows if `changes` is None."""
    return DataStream.at(stream.transformation.with_changes(changes))


def not_null(stream: DataStream, keys: Sequence[str]) -> NullableKeys:
    """Return the rows with non-null columns for nullable keys."""
    of = tuple(key for key in keys if stream.schema.field(key).nullable)
    if not of:
        return NullableKeys(stream, tuple(keys), of)
    kinds = {key: types.of_arrow(stream.schema.field(key).type) for key in of}
    added = [pl.col(key).fill_null(any_value(kinds[key])).alias(value_name(key)) for key in of]
    added += [pl.col(key).is_null().alias(absence_name(key)) for key in of]
    changes = stream.transformation.type.changes
    if changes is not None:
        changes = replace(changes, key=_named(changes.key, of))
    every = [pl.col(name) for name in stream.schema.names if not (changes and name == OP)]
    rows = selected(stream, [*every, *added], changes)
    return NullableKeys(rows, _named(keys, of), of)


def _named(keys: Sequence[str], of: Sequence[str]) -> tuple[str, ...]:
    named = [value_name(key) if key in of else key for key in keys]
    return (*named, *(absence_name(key) for key in of if key in keys))


def any_value(kind: pl.DataType) -> pl.Expr:
    """Return some value of the type."""
    match kind:
        case pl.String():
            return pl.lit("")
        case pl.Binary():
            return pl.lit(b"")
        case pl.Boolean():
            return pl.lit(False)
    return pl.lit(0).cast(kind)
