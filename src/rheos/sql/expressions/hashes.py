"""HASH and XXHASH64: one number for the values of a row, equal to Spark's."""

from __future__ import annotations

from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.table import ANY, Compiler, Typed, computes_named
from rheos.sql.spark_hashes import MURMUR3, XXH64, hashes
from rheos.sql.text import kind

_BY = {"hash": (MURMUR3, types.INT), "xxhash64": (XXH64, types.BIGINT)}


@computes_named(*_BY)
def hashed(compiler: Compiler, node: exp.Anonymous) -> Typed:
    by, of = _BY[node.name.casefold()]
    if not node.expressions:
        raise compiler.sql.error(f"{kind(node)} is missing an argument", node, "name columns")
    values = compiler.given(node, [ANY] * len(node.expressions))
    for value in values:
        if _has_map(value.type):
            raise compiler.wrong_type(
                f"{kind(node)} takes no MAP, as its entries have no order",
                value,
                "hash MAP_KEYS(...) and MAP_VALUES(...)",
            )
    made = of_columns(partial(hashes, by=by), [value.expr for value in values], of)
    return Typed(made, of, node)


def _has_map(of: pl.DataType) -> bool:
    match of:
        case pl.Map():
            return True
        case pl.List():
            return _has_map(of.inner)  # type: ignore[arg-type]
        case pl.Struct():
            return any(_has_map(field.dtype) for field in of.fields)  # type: ignore[arg-type]
    return False
