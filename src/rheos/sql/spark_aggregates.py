"""Nodes of Spark's aggregates that sqlglot has no class for."""

from __future__ import annotations

from sqlglot import exp


class BitmapAndAgg(exp.Expression, exp.AggFunc):
    _sql_names = ["BITMAP_AND_AGG"]


class CollectUnion(exp.Expression, exp.AggFunc):
    _sql_names = ["COLLECT_UNION"]


class SchemaOfVariantAgg(exp.Expression, exp.AggFunc):
    _sql_names = ["SCHEMA_OF_VARIANT_AGG"]


class TrySum(exp.Expression, exp.AggFunc):
    _sql_names = ["TRY_SUM"]


class VectorAvg(exp.Expression, exp.AggFunc):
    _sql_names = ["VECTOR_AVG"]


class VectorSum(exp.Expression, exp.AggFunc):
    _sql_names = ["VECTOR_SUM"]


SPARK_AGGREGATES = {
    name: node.from_arg_list
    for node in (
        BitmapAndAgg,
        CollectUnion,
        SchemaOfVariantAgg,
        TrySum,
        VectorAvg,
        VectorSum,
    )
    for name in node.sql_names()
}
"""By name: the functions that make the nodes from the arguments of a call."""
