"""Each spec finds its operator."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from rheos import aggregates as agg
from rheos.graph.nodes import ExpressionSpec, MapBatchesSpec, MapSpec, RunningSpec, Spec, UnionSpec
from rheos.operators.build import build
from rheos.operators.expressions import ExpressionOperator
from rheos.operators.map import FlatMapOperator, MapOperator
from rheos.operators.map_batches import MapBatchesOperator
from rheos.operators.running import RunningOperator
from rheos.operators.union import UnionOperator
from tests.operators.contexts import context

SCHEMA = pa.schema([("k", pa.int64())])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (ExpressionSpec("filter", (pl.col("k") > 0,)), ExpressionOperator),
        (MapSpec(print, False, None), MapOperator),
        (MapSpec(print, True, None), FlatMapOperator),
        (MapBatchesSpec(print, "arrow"), MapBatchesOperator),
        (UnionSpec(), UnionOperator),
        (RunningSpec({"n": agg.count()}), RunningOperator),
    ],
)
def test_the_operator_of_a_spec(spec: Spec, expected: type[Any]) -> None:
    assert type(build(context(SCHEMA, SCHEMA, keys=("k",)), spec)) is expected
