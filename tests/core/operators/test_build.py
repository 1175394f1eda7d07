"""Each spec builds its operator."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from rheos.core import aggregates as agg
from rheos.core.operators.contract import OperatorSpec
from rheos.core.operators.expressions import ExpressionOperator, ExpressionSpec
from rheos.core.operators.map import FlatMapOperator, MapOperator, MapSpec
from rheos.core.operators.map_batches import MapBatchesOperator, MapBatchesSpec
from rheos.core.operators.running import RunningOperator, RunningSpec
from rheos.core.operators.union import UnionOperator, UnionSpec
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
def test_each_spec_builds_its_operator(spec: OperatorSpec, expected: type[Any]) -> None:
    assert type(spec.operator(context(SCHEMA, SCHEMA, keys=("k",)))) is expected
