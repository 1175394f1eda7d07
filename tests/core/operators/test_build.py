"""Each spec finds its operator."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from rheos.core import aggregates as agg
from rheos.core.graph.nodes import ExpressionSpec, MapBatchesSpec, MapSpec, RunningSpec, Spec, UnionSpec
from rheos.core.operators.build import build
from rheos.core.operators.expressions import ExpressionOperator
from rheos.core.operators.map import FlatMapOperator, MapOperator
from rheos.core.operators.map_batches import MapBatchesOperator
from rheos.core.operators.running import RunningOperator
from rheos.core.operators.union import UnionOperator
from tests.core.operators.contexts import context

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
