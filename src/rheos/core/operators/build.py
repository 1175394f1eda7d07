"""From what the user configured to what runs: the operator of each spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from rheos.core.connectors.contract import Split
from rheos.core.graph.nodes import (
    EventTimeSpec,
    ExpressionSpec,
    MapBatchesSpec,
    MapSpec,
    OwnSpec,
    ProcessSpec,
    ReduceSpec,
    RunningSpec,
    SinkSpec,
    SourceSpec,
    Spec,
    UnionSpec,
    WindowSpec,
)
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec
from rheos.core.operators.event_time import EventTimeOperator
from rheos.core.operators.expressions import ExpressionOperator
from rheos.core.operators.map import FlatMapOperator, MapOperator
from rheos.core.operators.map_batches import MapBatchesOperator
from rheos.core.operators.process import ProcessOperator
from rheos.core.operators.reduce import ReduceOperator
from rheos.core.operators.running import RunningOperator
from rheos.core.operators.sink import SinkOperator
from rheos.core.operators.source import SourceOperator
from rheos.core.operators.union import UnionOperator
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.operators.window.process import WindowProcessOperator


def build(ctx: OperatorContext, spec: Spec, splits: Sequence[Split] = ()) -> Operator:
    """The operator of a spec, not open yet. `splits` is a source's share of its splits."""
    match spec:
        case SourceSpec():
            return SourceOperator(ctx, spec, splits)
        case EventTimeSpec():
            return EventTimeOperator(ctx, spec)
        case ExpressionSpec():
            return ExpressionOperator(ctx, spec)
        case MapSpec(flat=True):
            return FlatMapOperator(ctx, spec)
        case MapSpec():
            return MapOperator(ctx, spec)
        case MapBatchesSpec():
            return MapBatchesOperator(ctx, spec)
        case UnionSpec():
            return UnionOperator(ctx)
        case ProcessSpec():
            return ProcessOperator(ctx, spec)
        case ReduceSpec():
            return ReduceOperator(ctx, spec)
        case RunningSpec():
            return RunningOperator(ctx, spec)
        case WindowSpec(fn=None):
            return WindowAggregateOperator(ctx, spec)
        case WindowSpec():
            return WindowProcessOperator(ctx, spec)
        case SinkSpec():
            return SinkOperator(ctx, spec)
        case OwnSpec():
            assert isinstance(spec, OperatorSpec), f"{spec.kind} cannot be made"
            return spec.operator(ctx)
        case _:
            assert_never(spec)
