"""Partition fields of a table: columns, or transforms of columns such as `day(at)`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from rheos.connectors.iceberg.library import library
from rheos.core.errors import ProgramError, SchemaError

_TRANSFORMED = re.compile(r"((?:year|month|day|hour|identity|(?:bucket|truncate)\[[1-9]\d*\]))\((.+)\)")
_MARK = "="
"""Begins each key, because an empty string would be equal to null."""


@dataclass(frozen=True)
class PartitionTerm:
    """A column, or a transform of one, by which a table is partitioned."""

    column: str
    transform: str = "identity"
    """Name of the transform, as Iceberg spells it: `day`, `bucket[16]`."""

    def __str__(self) -> str:
        return self.column if self.transform == "identity" else f"{self.transform}({self.column})"


def parsed_terms(partition_by: Sequence[str], columns: Sequence[str]) -> list[PartitionTerm]:
    """Return the terms that the user wrote.

    Args:
        partition_by: names of columns, or transforms such as `day(at)` and `bucket[16](id)`.
        columns: the columns of the stream.

    Raises:
        ProgramError: a term is not known, or its column does not exist.
    """
    terms = []
    for text in partition_by:
        found = None if text in columns else _TRANSFORMED.fullmatch(text)
        term = PartitionTerm(found[2], found[1]) if found else PartitionTerm(text)
        if term.column not in columns:
            raise ProgramError(
                f"partition_by names the column {term.column!r}, which the stream does not have",
                hint=f"it has {', '.join(columns)}; transforms are year(c), month(c), day(c), hour(c), "
                "bucket[16](c) and truncate[4](c)",
            )
        if term in terms:
            raise ProgramError(f"partition_by={list(partition_by)} names {term} twice", hint="once")
        terms.append(term)
    return terms


def terms_of(spec: Any, schema: Any) -> list[PartitionTerm]:
    """Return the terms of a table."""
    return [
        PartitionTerm(schema.find_column_name(field.source_id), str(field.transform))
        for field in spec.fields
    ]


def identity_columns(spec: Any, schema: Any) -> frozenset[str]:
    """Return the columns by whose values a table is partitioned."""
    return frozenset(term.column for term in terms_of(spec, schema) if term.transform == "identity")


@dataclass(frozen=True)
class Partitioning:
    """Computes the partition of each row."""

    spec: Any
    """The table's `PartitionSpec`."""
    schema: Any
    """The table's `Schema`."""

    @property
    def names(self) -> list[str]:
        """Return the names of the columns that `with_keys` adds."""
        return [f"partition {term}" for term in terms_of(self.spec, self.schema)]

    def check(self, columns: pa.Schema) -> None:
        """Check that the sink can compute all partitions.

        Raises:
            SchemaError: a partition has a type that the sink does not support, or a source column is
                in a record.
        """
        for term, kind in zip(terms_of(self.spec, self.schema), self._results(), strict=True):
            if term.column not in columns.names or not _has_key(kind):
                raise SchemaError(
                    f"the table is partitioned by {term}, which the sink does not support",
                    hint="partition by strings, numbers, booleans, dates or times that are columns of "
                    "their own",
                )

    def with_keys(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with a column of strings for each partition field."""
        for name, field, term in zip(
            self.names, self.spec.fields, terms_of(self.spec, self.schema), strict=True
        ):
            source = self.schema.find_field(field.source_id).field_type
            values = field.transform.pyarrow_transform(source)(rows.column(term.column))
            rows = rows.append_column(name, _keys(values))
        return rows

    def record(self, keys: Sequence[str | None]) -> Any:
        """Return the values of one partition as a data file's description has them."""
        kinds = self.spec.partition_type(self.schema).fields
        convert = library("conversions").partition_to_py
        values = [
            None if key is None else convert(kind.field_type, key.removeprefix(_MARK))
            for key, kind in zip(keys, kinds, strict=True)
        ]
        return library("typedef").Record(*values)

    def _results(self) -> list[pa.DataType]:
        to_arrow = library("io.pyarrow").schema_to_pyarrow
        return [to_arrow(field.field_type) for field in self.spec.partition_type(self.schema).fields]


def _has_key(kind: pa.DataType) -> bool:
    return any(
        is_a(kind)
        for is_a in (
            types.is_string,
            types.is_large_string,
            types.is_integer,
            types.is_boolean,
            types.is_date,
            types.is_timestamp,
            types.is_decimal,
        )
    )


def _keys(values: pa.Array) -> pa.Array:
    """Return values as `partition_to_py` reads them, after the mark."""
    if types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return pc.binary_join_element_wise(_MARK, values.cast(pa.string()), "")
