"""Traces each operator of a plan: selects the rule that explains its rows. If the operator calls a user
function, the trace uses a traced copy of that function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never

from rheos.core.operators.contract import OperatorSpec
from rheos.core.operators.origins import (
    CallOfFunction,
    NoRow,
    OneRow,
    Origin,
    PairOfRows,
    RowsOfKey,
    RowsOfMatch,
    RowsOfWindow,
    SameRow,
)
from rheos.core.plan.physical import PlannedOperator
from rheos.ops.lineage.functions import FunctionTrace, WatchedWindows, watched_function
from rheos.ops.lineage.joined_pairs import PairRule
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


@dataclass(frozen=True)
class TracedOperator:
    """One operator with its trace."""

    spec: OperatorSpec
    """Spec that runs: the program's, or one whose function is traced."""
    rule: RowRule
    trace: FunctionTrace | None = None


def watched(planned: PlannedOperator, place: int, ledger: Ledger, *, restored: bool) -> TracedOperator:
    """Return how to trace one operator.

    Args:
        planned: the operator.
        place: its number in the plan.
        ledger: the ledger that records its rows.
        restored: whether it begins with restored state.
    """
    spec, origin = planned.spec, planned.spec.origin()
    rule = _rule(origin, planned, place, ledger)
    watch: Any = None
    trace = FunctionTrace(ledger, place, restored=restored)
    match origin:
        case CallOfFunction(methods=methods):
            watch = partial(watched_function, trace=trace, ports=methods)
        case RowsOfKey(calls_function=True) | RowsOfWindow(calls_function=True):
            watch = partial(WatchedWindows, trace=trace)
    if watch is None:
        return TracedOperator(spec, rule)
    own: Any = spec
    return TracedOperator(spec.with_function(watch(own.fn)), rule, trace)


def _rule(origin: Origin, planned: PlannedOperator, place: int, ledger: Ledger) -> RowRule:
    given = (planned, place, ledger)
    match origin:
        case NoRow():
            return OfSource(*given)
        case SameRow():
            return RowForRow(*given)
        case OneRow():
            return EachRow(*given)
        case CallOfFunction():
            return OfFunction(*given)
        case RowsOfKey(doubt=doubt):
            return OfKey(*given, doubt)
        case RowsOfWindow(of_partials=True):
            return OfPartials(*given, origin.lateness_ms, origin.doubt)
        case RowsOfWindow():
            return OfFiredWindow(*given, origin.lateness_ms, origin.doubt)
        case PairOfRows():
            return PairRule(*given, origin)
        case RowsOfMatch():
            return OfMatch(*given)
        case _:
            assert_never(origin)
