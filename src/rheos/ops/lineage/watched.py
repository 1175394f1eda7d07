"""How each operator of a plan is watched: the rule by which its rows are explained, and, where it calls
a function of the user, the function in a copy that is watched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rheos.core.graph.batch_functions import KeyedBatchFunction
from rheos.core.graph.nodes import (
    EventTimeSpec,
    ExpressionSpec,
    MapBatchesSpec,
    MapSpec,
    ProcessSpec,
    ReduceSpec,
    RunningSpec,
    SinkSpec,
    SourceSpec,
    Spec,
    UnionSpec,
    WindowSpec,
)
from rheos.core.graph.window_functions import WindowAssigner
from rheos.core.operators.async_map import AsyncMapSpec
from rheos.core.operators.broadcast_process import BroadcastProcessSpec
from rheos.core.operators.changelog.dedup import DedupSpec
from rheos.core.operators.co_process import CoProcessSpec
from rheos.core.operators.explode import ExplodeSpec
from rheos.core.operators.filter_function import FilterFunctionSpec
from rheos.core.operators.iterate import IterateSpec
from rheos.core.operators.joins.co_group import CoGroupSpec
from rheos.core.operators.joins.interval import IntervalJoinSpec
from rheos.core.operators.joins.tables import TableJoinSpec
from rheos.core.operators.joins.temporal import TemporalJoinSpec
from rheos.core.operators.joins.windowed import WindowJoinSpec
from rheos.core.operators.keyed_broadcast_process import KeyedBroadcastProcessSpec
from rheos.core.operators.keyed_co_process import KeyedCoProcessSpec
from rheos.core.operators.lookup import LookupSpec
from rheos.core.operators.pattern.operator import PatternSpec
from rheos.core.operators.plain_process import PlainProcessSpec
from rheos.core.operators.window.triggered.spec import TriggeredWindowSpec
from rheos.core.operators.window.two_phases import MergedWindowSpec, WindowCombineSpec
from rheos.core.plan.physical import PlannedOperator
from rheos.ops.lineage.functions import FunctionTrace, WatchedWindows, watched_function
from rheos.ops.lineage.joined import OfPair, anyhow, apart, in_its_window, not_after
from rheos.ops.lineage.ledger import Ledger
from rheos.ops.lineage.reasons import (
    EachRow,
    OfFiredWindow,
    OfFunction,
    OfKey,
    OfMatch,
    OfPartials,
    OfSource,
    RowForRow,
    RowRule,
)

_ALL_OF_KEY = "which rows of the key it was made of is not seen: all that had come are named"
_ALL_OF_WINDOW = (
    "which rows its trigger or evictor had left in the window is not seen: all that lie in it are named"
)
_BY_VALUES = "rows of a table are found by their values, and may have come more than once"

_ONE_PORT = {"process_element": 0}
_TWO_PORTS = {"process_element1": 0, "process_element2": 1}
_BROADCAST = {"process_element": 0, "process_broadcast_element": 1}


@dataclass(frozen=True)
class WatchedOperator:
    """One operator."""

    spec: Spec
    """What is run: the program's, or one whose function is watched."""
    rule: RowRule
    trace: FunctionTrace | None = None


def watched(planned: PlannedOperator, place: int, ledger: Ledger, *, restored: bool) -> WatchedOperator:
    """`place` is the operator's number in the plan; `restored`: whether it begins with state."""
    spec = planned.spec
    ports = _methods(spec)
    if ports is not None:
        trace = FunctionTrace(ledger, place, restored=restored)
        of_function: Any = spec
        function = watched_function(of_function.fn, trace, ports)
        return WatchedOperator(
            replace(of_function, fn=function), OfFunction(planned, place, ledger), trace
        )
    rule = _rule(planned, place, ledger)
    if isinstance(spec, WindowSpec | CoGroupSpec | TriggeredWindowSpec) and spec.fn is not None:
        trace = FunctionTrace(ledger, place, restored=restored)
        of_windows: Any = spec
        return WatchedOperator(replace(of_windows, fn=WatchedWindows(spec.fn, trace)), rule, trace)
    return WatchedOperator(spec, rule)


def _methods(spec: Spec) -> Mapping[str, int] | None:
    """Of a function that keeps state, and is called for each row: its methods for rows, with their
    ports."""
    match spec:
        case ProcessSpec(fn=KeyedBatchFunction()):
            return None
        case ProcessSpec() | PlainProcessSpec():
            return _ONE_PORT
        case KeyedCoProcessSpec() | CoProcessSpec(form="process"):
            return _TWO_PORTS
        case KeyedBroadcastProcessSpec() | BroadcastProcessSpec():
            return _BROADCAST
        case _:
            return None


def _rule(planned: PlannedOperator, place: int, ledger: Ledger) -> RowRule:
    spec, given = planned.spec, (planned, place, ledger)
    match spec:
        case SourceSpec():
            return OfSource(*given)
        case MapSpec(flat=False) | ExpressionSpec(op="select" | "with_columns"):
            return RowForRow(*given)
        case EventTimeSpec() | UnionSpec():
            return RowForRow(*given)
        case ExpressionSpec() | MapSpec() | MapBatchesSpec() | WindowCombineSpec():
            return EachRow(*given)
        case FilterFunctionSpec() | ExplodeSpec() | IterateSpec() | AsyncMapSpec() | LookupSpec():
            return EachRow(*given)
        case CoProcessSpec() | DedupSpec() | SinkSpec():
            return EachRow(*given)
        case ReduceSpec() | RunningSpec():
            return OfKey(*given)
        case MergedWindowSpec():
            return OfPartials(*given, spec.windows.lateness_ms)
        case WindowSpec() if _by_clock(spec.window):
            return OfKey(*given, _ALL_OF_KEY)
        case WindowSpec():
            return OfFiredWindow(*given, spec.lateness_ms)
        case CoGroupSpec() if not _by_clock(spec.window):
            return OfFiredWindow(*given, 0)
        case TriggeredWindowSpec(time="event_time") if not isinstance(spec.windows, WindowAssigner):
            return OfFiredWindow(*given, spec.lateness_ms, _ALL_OF_WINDOW)
        case IntervalJoinSpec():
            return OfPair(*given, spec.columns, apart(spec.lower_ms, spec.upper_ms))
        case TemporalJoinSpec():
            return OfPair(*given, spec.columns, not_after, newest=True)
        case WindowJoinSpec():
            return OfPair(*given, spec.columns, in_its_window)
        case TableJoinSpec():
            return OfPair(*given, spec.columns, anyhow, newest=True, doubt=_BY_VALUES)
        case PatternSpec():
            return OfMatch(*given)
        case _ if any(port.keys for port in planned.ports):
            return OfKey(*given, _ALL_OF_KEY)
        case _:
            return EachRow(*given)


def _by_clock(window: Any) -> bool:
    return getattr(window, "time", None) == "processing_time"
