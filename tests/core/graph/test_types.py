"""Canonical types, and conversion from Polars types."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

from rheos.core.errors import SchemaError
from rheos.core.graph.types import canonical, canonical_schema, describe, empty_frame, from_polars

SIMPLE = [pa.bool_(), pa.int8(), pa.uint64(), pa.float32(), pa.string(), pa.binary(), pa.date32()]


@pytest.mark.parametrize("kind", SIMPLE, ids=str)
def test_plain_types_are_canonical(kind: pa.DataType) -> None:
    assert canonical(kind) == kind


@pytest.mark.parametrize(
    ("kind", "stands_for"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.dictionary(pa.int32(), pa.large_string()), pa.string()),
        (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        (pa.list_(pa.large_string(), 3), pa.list_(pa.string(), 3)),
        (pa.struct([("a", pa.large_string())]), pa.struct([("a", pa.string())])),
        (pa.map_(pa.large_string(), pa.int64()), pa.map_(pa.string(), pa.int64())),
    ],
    ids=str,
)
def test_variants_map_to_the_plain_type(kind: pa.DataType, stands_for: pa.DataType) -> None:
    assert canonical(kind) == stands_for
    assert canonical(canonical(kind)) == canonical(kind)


def test_nullability_is_kept_and_metadata_dropped() -> None:
    schema = pa.schema([pa.field("a", pa.large_string(), nullable=False)], metadata={"k": "v"})
    assert canonical_schema(schema) == pa.schema([pa.field("a", pa.string(), nullable=False)])
    assert canonical_schema(schema).metadata is None


@pytest.mark.parametrize("kind", [*SIMPLE, pa.timestamp("us", "UTC"), pa.list_(pa.string())], ids=str)
def test_types_are_converted_to_polars_and_back(kind: pa.DataType) -> None:
    schema = pa.schema([("a", kind)])
    assert from_polars(empty_frame(schema).schema) == schema


def test_a_column_without_a_type_is_refused() -> None:
    with pytest.raises(SchemaError, match="the type of column 'a' is unknown"):
        from_polars(pl.Schema({"a": pl.Null()}))


def test_a_schema_on_one_line() -> None:
    assert describe(pa.schema([("a", pa.int64()), ("b", pa.string())])) == "a: int64, b: string"
