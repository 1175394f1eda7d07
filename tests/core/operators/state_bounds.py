"""The bound of the state that each operator keeps for one key, or for a subtask.

Every kind of operator has an entry here; a test fails for a kind without one. If event time, a time
to live or a count bounds the state, no check is needed. Otherwise a `KeyLimit` checks it
(`state/key_limit.py`). `docs/tuning.md` has the same table for users, and a test
compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rheos.core.operators.async_map import AsyncMapSpec
from rheos.core.operators.broadcast_process import BroadcastProcessSpec
from rheos.core.operators.call import CallSpec
from rheos.core.operators.changelog.dedup import DedupSpec
from rheos.core.operators.changelog.rekeying import RekeyingSpec
from rheos.core.operators.changelog.retractions import RetractionsSpec
from rheos.core.operators.changelog.table import TableSpec
from rheos.core.operators.changelog.top_n import TopNSpec
from rheos.core.operators.changelog.truncation import TruncationSpec
from rheos.core.operators.changelog.truncation_deletes import TruncationDeletesSpec
from rheos.core.operators.co_process import CoProcessSpec
from rheos.core.operators.column_selection import ColumnSelectionSpec
from rheos.core.operators.event_time import EventTimeSpec
from rheos.core.operators.event_time_column import EventTimeColumnSpec
from rheos.core.operators.event_time_of_results import ResultTimeSpec
from rheos.core.operators.explode import ExplodeSpec
from rheos.core.operators.expressions import ExpressionSpec
from rheos.core.operators.filter_function import FilterFunctionSpec
from rheos.core.operators.iterate import IterateSpec
from rheos.core.operators.joins.co_group import CoGroupSpec
from rheos.core.operators.joins.interval_join import IntervalJoinSpec
from rheos.core.operators.joins.table_join import TableJoinSpec
from rheos.core.operators.joins.temporal_join import TemporalJoinSpec
from rheos.core.operators.joins.window_join import WindowJoinSpec
from rheos.core.operators.keyed_broadcast_process import KeyedBroadcastProcessSpec
from rheos.core.operators.keyed_co_process import KeyedCoProcessSpec
from rheos.core.operators.lookup import LookupSpec
from rheos.core.operators.map import MapSpec
from rheos.core.operators.map_batches import MapBatchesSpec
from rheos.core.operators.once_operator import CallOnceSpec
from rheos.core.operators.over.changelog_over import OverSpec
from rheos.core.operators.pattern.operator import PatternSpec
from rheos.core.operators.plain_process import PlainProcessSpec
from rheos.core.operators.process import ProcessSpec
from rheos.core.operators.reduce import ReduceSpec
from rheos.core.operators.running import RunningSpec
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.operators.union import UnionSpec
from rheos.core.operators.view import ViewSpec
from rheos.core.operators.window.spec import WindowSpec
from rheos.core.operators.window.triggers.spec import TriggeredWindowSpec
from rheos.core.operators.window.two_phases import MergedWindowSpec, WindowCombineSpec
from rheos.core.state.key_limit import KeyContents


@dataclass(frozen=True)
class StateBound:
    """The state that one kind of operator keeps, and its bound."""

    operator: str
    """Name of the operator as users see it."""
    keeps: str
    by: str
    """Description of the bound, for users; `limits` are in addition."""
    limits: tuple[KeyContents, ...] = ()


NOTHING = StateBound("`filter`, `select`, `map`, `union` and other functions of a row", "nothing", "")
_DECLARED = (KeyContents.ELEMENTS, KeyContents.ENTRIES)
_FUNCTION = StateBound(
    "keyed functions: `process`, `connect`, OVER by event time",
    "declared state: a value, a list or a map for each key; timers",
    "`ttl=`; a value is one",
    (*_DECLARED, KeyContents.OVER_ROWS),
)
_WINDOWS = StateBound(
    "windows, `window_join`, `co_group`",
    "aggregates, values (`collect`, `quantile`, `count_distinct`) or rows of open windows",
    "the length of windows and the allowed lateness; for sessions, the gap",
    (KeyContents.WINDOW_ROWS,),
)

BOUNDS: Mapping[type, StateBound] = {
    SourceSpec: StateBound(
        "sources", "a position and event time for each split", "the number of splits"
    ),
    EventTimeSpec: StateBound("`with_event_time`", "event time for each split", "the number of splits"),
    SinkSpec: StateBound("sinks", "rows of the open checkpoint", "the time between checkpoints"),
    **dict.fromkeys(
        (
            AsyncMapSpec,
            CallSpec,
            ResultTimeSpec,
            EventTimeColumnSpec,
            ExplodeSpec,
            ExpressionSpec,
            FilterFunctionSpec,
            LookupSpec,
            MapBatchesSpec,
            MapSpec,
            ColumnSelectionSpec,
            TruncationSpec,
            UnionSpec,
            WindowCombineSpec,
        ),
        NOTHING,
    ),
    **dict.fromkeys((ProcessSpec, KeyedCoProcessSpec, KeyedBroadcastProcessSpec), _FUNCTION),
    **dict.fromkeys(
        (BroadcastProcessSpec, CoProcessSpec, PlainProcessSpec),
        StateBound(
            "`process` without a key, broadcast state",
            "operator state and broadcast state of each subtask",
            "only the program: an entry is kept until the program deletes it",
        ),
    ),
    **dict.fromkeys(
        (ReduceSpec, RunningSpec),
        StateBound("`reduce`, `running`", "one value of each key and aggregate", "the number of keys"),
    ),
    **dict.fromkeys((WindowSpec, MergedWindowSpec, WindowJoinSpec, CoGroupSpec), _WINDOWS),
    TriggeredWindowSpec: StateBound(
        "windows with a trigger, an evictor or an assigner; global windows; windows of a count",
        "rows or aggregates of open windows",
        "the length of windows, and a trigger that purges",
        (KeyContents.ELEMENTS,),
    ),
    IntervalJoinSpec: StateBound(
        "`join(between=)`", "rows of both sides", "the interval, by event time"
    ),
    TemporalJoinSpec: StateBound(
        "`temporal_join`",
        "the versions of a key",
        "event time: versions that the watermark has passed are deleted, except the newest",
    ),
    TableJoinSpec: StateBound(
        "`join` of all rows", "rows of both sides", "`ttl=`", (KeyContents.JOIN_ROWS,)
    ),
    TopNSpec: StateBound(
        "`top_n`, ORDER BY ... LIMIT",
        "the first n rows of a key; for a changelog, all of its rows",
        "n",
        (KeyContents.RANKED_ROWS,),
    ),
    DedupSpec: StateBound(
        "`dedup`",
        "a time for each key; by event time, rows that the watermark has not passed",
        "`within=`, or the number of keys",
    ),
    TruncationDeletesSpec: StateBound(
        "tables that may be truncated", "the keys of the table", "the number of keys of the table"
    ),
    RetractionsSpec: StateBound("`retractions`", "the newest row of each key", "the number of keys"),
    RekeyingSpec: StateBound(
        "`upserts` of a changelog with another key",
        "all current rows of a key",
        "`ttl=`, or the number of rows of the table",
        (KeyContents.TABLE_ROWS,),
    ),
    TableSpec: StateBound(
        "`table`, GROUP BY without a window",
        "one value of each key and aggregate; the distinct values, if rows are retracted or with "
        "DISTINCT",
        "the number of keys",
        (KeyContents.VALUES,),
    ),
    ViewSpec: StateBound(
        "`CREATE MATERIALIZED VIEW`",
        "the current rows of the view",
        "the number of keys; a view without a key keeps every row",
    ),
    OverSpec: StateBound(
        "OVER of an updating table", "all rows of a key", "", (KeyContents.OVER_ROWS,)
    ),
    PatternSpec: StateBound(
        "`detect`, MATCH_RECOGNIZE",
        "partial matches, and the rows in them; rows up to the watermark",
        "`within`",
        (KeyContents.MATCHES,),
    ),
    CallOnceSpec: StateBound(
        "`call_once`", "rows that wait for answers; remembered answers", "`max_waiting=`, `remember=`"
    ),
    IterateSpec: StateBound("`iterate`", "rows in the iteration", "`capacity=`"),
}
