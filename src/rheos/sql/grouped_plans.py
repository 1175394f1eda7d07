"""Plan nodes that read several rows of a key: windows, groups, ranks, frames and patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import polars as pl
from sqlglot import exp

from rheos.core.aggregates import Agg
from rheos.core.graph.changelog import Changes
from rheos.core.graph.nodes import Order
from rheos.core.graph.patterns import PatternTree
from rheos.core.graph.windows import Window
from rheos.core.operators.changelog.dedup import Keep
from rheos.core.operators.over.event_time_over import OverColumns
from rheos.core.operators.over.moving_frames import FrameSpec
from rheos.core.protocol.durations import duration_ms, written_duration
from rheos.sql.plan import NO_ORIGIN, Columns, Names, Origins, PlanNode, origins_of, origins_of_time

if TYPE_CHECKING:
    from rheos.api.streams import DataStream
    from rheos.sql.lowering import Lowering


def window_text(window: Window) -> str:
    """Return a window for `explain`, such as "tumbling windows (size 10m)"."""
    parts = []
    for each in fields(window):  # type: ignore[arg-type]
        value = getattr(window, each.name)
        if value and value != each.default:
            length = isinstance(value, timedelta)
            parts.append(f"{each.name} {written_duration(duration_ms(value)) if length else value}")
    return f"{type(window).__name__.lower()} windows ({', '.join(parts)})"


def _keys_text(keys: Sequence[str]) -> str:
    return f"by {', '.join(keys)}" if keys else "of all rows"


@dataclass(frozen=True, eq=False)
class WindowedRows(PlanNode):
    """Rows with their windows: the result of TUMBLE and similar functions."""

    input: PlanNode
    time: str
    """Event-time column."""
    window: Window
    keys: tuple[str, ...] | None
    """Partition keys of sessions; None: those of GROUP BY."""
    columns: Columns
    """Columns of the input, followed by those of the window."""
    changes: None = None

    filters_pass: ClassVar[bool] = True

    def summary(self) -> str:
        return f"assign {window_text(self.window)} by {self.time}"

    def looked_at(self, needed: Names) -> list[Names]:
        return [needed.union(self.keys or (), (self.time,))]

    def origins(self) -> Origins:
        of = self.input.origins()
        return {each.name: of.get(each.name, of[self.time]) for each in self.columns}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.windowed(self)


@dataclass(frozen=True, eq=False)
class Aggregate(PlanNode):
    """A row for each key, or for each key and window."""

    input: PlanNode
    keys: tuple[str, ...]
    """Key columns; none if all rows have one key."""
    aggregates: tuple[tuple[str, Agg | pl.Expr], ...]
    window: Window | None
    columns: Columns
    """Keys, window columns, and aggregates."""
    changes: Changes | None
    only_key: tuple[int, ...] | None = None
    """Value of the key if the result is one row, also over no rows (`TableSpec.only_key`)."""

    def summary(self) -> str:
        of = ", ".join(f"{name} = {agg}" for name, agg in self.aggregates)
        window = "" if self.window is None else f" in {window_text(self.window)}"
        return f"aggregate {_keys_text(self.keys)}{window}: {of}"

    def with_filter_below(self, condition: pl.Expr, read: Names) -> PlanNode | None:
        return self.with_filtered_input(0, condition) if read and read <= {*self.keys} else None

    def may_be_null(self, name: str) -> bool:
        return name not in self.keys or self.input.may_be_null(name)

    def origins(self) -> Origins:
        of = self.input.origins()
        found = {key: of[key] for key in self.keys}
        for name, agg in self.aggregates:
            columns = agg.meta.root_names() if isinstance(agg, pl.Expr) else agg.columns
            found[name] = origins_of(of, columns)
        # The others are those of the window.
        rest = NO_ORIGIN if self.window is None else origins_of_time(self.input)
        return {each.name: found.get(each.name, rest) for each in self.columns}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.aggregated(self)


@dataclass(frozen=True, eq=False)
class Distinct(PlanNode):
    """Distinct rows of an append-only input."""

    input: PlanNode
    columns: Columns
    changes: None = None

    filters_pass: ClassVar[bool] = True

    def summary(self) -> str:
        return "distinct"

    def may_be_null(self, name: str) -> bool:
        return self.input.may_be_null(name)

    def origins(self) -> Origins:
        return self.input.origins()

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.distinct(self)


class Dedup(NamedTuple):
    """The row of each key that has the number 1."""

    keep: Keep
    order: Order
    """Whether rows are numbered by event time, or as they arrive."""


FIRST_BY_TIME = Dedup("first", "event_time")
"""The first row by event time, which is final when the watermark has passed it."""


@dataclass(frozen=True, eq=False)
class RankedRows(PlanNode):
    """Rows with their numbers by key, in the order of a column. It is never computed: a filter turns it
    into `TopN`."""

    input: PlanNode
    keys: tuple[str, ...]
    by: str
    smallest: bool
    rank: str
    window: Window | None
    dedup: Dedup | None
    """Meaning of the number 1 of append-only rows by event time or by arrival; None: other orders."""
    at: exp.Expr
    """Place in the SQL."""
    columns: Columns
    """Columns of the input except `by`, followed by the number."""
    changes: Changes | None

    def summary(self) -> str:
        return f"number rows {_keys_text(self.keys)}"

    def origins(self) -> Origins:
        return _origins_with_rank(self)

    def lowered(self, lowering: Lowering) -> DataStream:
        raise AssertionError("row numbers have a limit: check_result")


@dataclass(frozen=True, eq=False)
class TopN(PlanNode):
    """The first rows of each key, or of each key and window."""

    input: PlanNode
    keys: tuple[str, ...]
    by: str
    smallest: bool
    n: int
    with_ties: bool
    """Whether rows that rank equal to the last one are included."""
    rank: str
    window: Window | None
    dedup: Dedup | None
    columns: Columns
    changes: Changes | None

    def summary(self) -> str:
        which = "first" if self.dedup is None else f"{self.dedup.keep} by {self.dedup.order},"
        ties = " with ties" if self.with_ties else ""
        return f"{which} {self.n}{ties} {_keys_text(self.keys)}"

    def looked_at(self, needed: Names) -> list[Names]:
        # All columns decide between first rows of the same time.
        if self.dedup not in (None, FIRST_BY_TIME) or self.window is not None:
            return [needed.union(self.keys, (self.by,))]
        return super().looked_at(needed)

    def origins(self) -> Origins:
        return _origins_with_rank(self)

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.first(self)


def _origins_with_rank(plan: RankedRows | TopN) -> Origins:
    of = plan.input.origins()
    ranked = {**of, plan.rank: origins_of(of, [*plan.keys, plan.by])}
    return {each.name: ranked.get(each.name, NO_ORIGIN) for each in plan.columns}


@dataclass(frozen=True, eq=False)
class OverPlan(PlanNode):
    """Rows with aggregates over those around them, by key."""

    input: PlanNode
    keys: tuple[str, ...]
    over: OverColumns
    frame: FrameSpec
    columns: Columns
    changes: Changes | None

    def summary(self) -> str:
        return f"over {self.frame} {_keys_text(self.keys)}: {self.over}"

    def origins(self) -> Origins:
        of = dict(self.input.origins())
        over = zip(self.over.results, self.over.arguments, strict=True)
        of |= {result: of[argument] for result, argument in over}
        return {each.name: of.get(each.name, NO_ORIGIN) for each in self.columns}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.framed(self)


@dataclass(frozen=True, eq=False)
class MatchPlan(PlanNode):
    """The matches of a pattern: the keys, the rows in order, and the time at which each match became
    certain."""

    input: PlanNode
    keys: tuple[str, ...]
    pattern: PatternTree
    number: str | None
    """Column that numbers the matches of a key, if the query reads it."""
    columns: Columns
    changes: None = None

    def summary(self) -> str:
        return f"match {_keys_text(self.keys)}: {self.pattern}"

    def origins(self) -> Origins:
        # The rows of a variable are not distinguished.
        of = self.input.origins()
        rows = origins_of(of, of)
        keys = {key: of[key] for key in self.keys}
        return {each.name: keys.get(each.name, rows) for each in self.columns}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.matched(self)
