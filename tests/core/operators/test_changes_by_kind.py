"""Table of state changes: the fate of the state of each kind of operator if the type of its rows
changes. Every stateful kind has a line, which is tested: if state is accepted, the changed operator
must process rows with it; if it is refused, there must be advice."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core import operators
from rheos.core.checkpoint.compatibility import Verdict, refusals
from rheos.core.operators.contract import OperatorSpec
from rheos.core.protocol.shapes import StatePurpose
from rheos.core.protocol.state_config import NewAggregates
from tests.core.operators.test_changed_programs import (
    TEXT,
    Both,
    Every,
    Run,
    Transform,
    Version,
    arrival,
    connected,
    fired_by,
    ordered,
    reduced,
    running,
    told,
    windows,
)

SAME, NEW, MIGRATES, DROPPED, UNREADABLE = Verdict


class Count(rh.WindowFunction):
    def process(self, records: list[Any], ctx: rh.WindowContext) -> Iterator[dict[str, Any]]:
        yield {"k": records[0].k, "n": len(records)}


def by_function(keyed: rh.KeyedStream) -> rh.DataStream:
    returns = pa.schema({"k": TEXT, "n": pa.int64()})
    return keyed.window(rh.Tumbling("10ms")).process(Count(), returns=returns)


RISING = rh.pattern.begin("a").followed_by("b").where(rh.col("v") > 3).within("1s")


@dataclass(frozen=True)
class Kind:
    """Kind of operator, with the worst verdicts if its rows gain a nullable column, and if they lose a
    column."""

    spec: str
    transform: Transform
    gains: Verdict
    loses: Verdict


TABLE = {
    "running": Kind("RunningSpec", running(n=rh.agg.count(), low=rh.agg.min("v")), SAME, SAME),
    "reduce": Kind("ReduceSpec", reduced, UNREADABLE, DROPPED),
    "aggregates of windows": Kind("WindowSpec", windows(), SAME, SAME),
    "functions of windows": Kind("WindowSpec", by_function, MIGRATES, DROPPED),
    "windows with a trigger": Kind("TriggeredWindowSpec", fired_by(Every()), MIGRATES, MIGRATES),
    "functions of records": Kind("ProcessSpec", arrival, SAME, SAME),
    "functions in order of time": Kind("ProcessSpec", ordered, MIGRATES, DROPPED),
    "functions of two streams": Kind("KeyedCoProcessSpec", connected(Both()), SAME, SAME),
    "the first of each key": Kind("DedupSpec", lambda keyed: keyed.dedup(), SAME, SAME),
    "ranked rows": Kind("TopNSpec", lambda keyed: keyed.top_n(2, by="v"), UNREADABLE, UNREADABLE),
    "patterns": Kind("PatternSpec", lambda keyed: keyed.detect(RISING), MIGRATES, DROPPED),
}
ELSEWHERE = {
    "CallOnceSpec": "tests/core/operators/test_call_once.py",
    "SourceSpec": "positions: tests/core/operators/test_changed_programs.py",
    "EventTimeSpec": "progress of splits, which holds no rows",
    "IntervalJoinSpec": "tests/core/operators/joins/test_changed_programs.py",
    "TableJoinSpec": "tests/core/operators/joins/test_table_join.py",
    "TemporalJoinSpec": "joins/test_changed_programs.py: rows as those of interval joins",
    "WindowJoinSpec": "as functions of windows, one for each side",
    "CoGroupSpec": "as functions of windows, one for each side",
    "KeyedBroadcastProcessSpec": "as functions of two streams",
    "BroadcastProcessSpec": "tests/core/state/test_unkeyed_state.py",
    "CoProcessSpec": "tests/core/state/test_unkeyed_state.py",
    "PlainProcessSpec": "tests/core/state/test_unkeyed_state.py",
    "TableSpec": "tests/core/operators/test_changed_programs.py, as running aggregates",
    "MergedWindowSpec": "as aggregates of windows, whose state it has",
    "RetractionsSpec": "as reduce: one row of each key",
    "RekeyingSpec": "as reduce: rows of each key",
    "TruncationDeletesSpec": "keys alone",
    "OverSpec": "as ranked rows",
    "ViewSpec": "as joins of tables, whose rows it stores in the same way",
}


def specs_with_state() -> set[str]:
    """Return every stateful kind of operator, including those that inherit their state."""
    for module in pkgutil.walk_packages(operators.__path__, "rheos.core.operators."):
        importlib.import_module(module.name)
    found: set[str] = set()
    waiting: list[Any] = [OperatorSpec]
    while waiting:
        spec = waiting.pop()
        waiting += spec.__subclasses__()
        if not inspect.isabstract(spec) and spec.states is not OperatorSpec.states:
            found.add(spec.__name__)
    return {name for name in found if not name.startswith("_")}


def test_every_kind_that_keeps_state_has_a_line() -> None:
    """Check that a new operator declares what a change of its rows does to its state."""
    ours = {name for name in specs_with_state() if _is_ours(name)}
    assert ours == {kind.spec for kind in TABLE.values()} | set(ELSEWHERE)


def _is_ours(name: str) -> bool:
    """Return whether the spec was not defined by a test."""
    waiting: list[type] = [OperatorSpec]
    while waiting:
        spec = waiting.pop()
        waiting += spec.__subclasses__()
        if spec.__name__ == name:
            return spec.__module__.startswith("rheos.")
    return False


def test_every_use_of_state_has_its_own_comparison_rule() -> None:
    from rheos.core.checkpoint import state_changes

    assert set(StatePurpose) - set(state_changes._COMPARED) == {StatePurpose.PROGRESS}


def worst(old: Version, new: Version) -> Verdict:
    return max(
        (finding.verdict for finding in told(old, new)), key=lambda one: one.gravity, default=SAME
    )


@pytest.mark.parametrize("name", TABLE)
def test_rows_may_gain_or_lose_a_column(name: str) -> None:
    kind = TABLE[name]
    plain, noted = Version(kind.transform), Version(kind.transform, more={"note": TEXT})
    for old, new, verdict in ((plain, noted, kind.gains), (noted, plain, kind.loses)):
        assert worst(old, new) is verdict
        refusal = refusals(told(old, new), allow_dropped=True, new_aggregates=NewAggregates.NULL)
        assert (refusal is not None) is (verdict is UNREADABLE)
        if refusal is not None:
            assert refusal.hint
            continue
        before = Run(old)
        before.feed(*(("a", v, v, *("x" for _ in old.more or ())) for v in (1, 2)))
        after = Run(new, before)
        more = [("a", 4), ("a", 5), ("b", 6)]
        given = after.feed(*((key, v, v, *("y" for _ in new.more or ())) for key, v in more))
        given += after.to(1_000)
        assert given
