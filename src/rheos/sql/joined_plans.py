"""Plan nodes that join rows with those of another input, or with an external system."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import polars as pl

from rheos.core.connectors.lookup import Lookup
from rheos.core.graph.changelog import Changes
from rheos.core.graph.expression_trees import spell_expression
from rheos.core.graph.windows import Window
from rheos.sql import types
from rheos.sql.plan import (
    NO_ORIGIN,
    Columns,
    Names,
    Origins,
    PlanNode,
    SqlColumn,
    names_of,
    origins_of_time,
)

if TYPE_CHECKING:
    from rheos.api.streams import DataStream
    from rheos.api.time_to_live import TimeToLive
    from rheos.sql.lowering import Lowering


_NULLS_ON = {"inner": (), "semi": (), "anti": (), "left": (1,), "right": (0,), "full": (0, 1)}
"""Sides whose columns a join sets to null in rows without a partner."""


@dataclass(frozen=True)
class CloseInTime:
    """Bounds on the time from the left row to the right one."""

    lower: timedelta
    upper: timedelta

    def __str__(self) -> str:
        return f"within {_distance(self.lower)} to {_distance(self.upper)} of event time"


def _distance(distance: timedelta) -> str:
    """Format a distance in time. Python writes minus one minute as minus one day plus 23:59:00."""
    return f"{'-' if distance < timedelta(0) else ''}{abs(distance)}"


@dataclass(frozen=True)
class InOneWindow:
    """A join of rows in the same window."""

    window: Window | None
    """Window; None if the windows have ended, and their bounds are among the keys."""

    def __str__(self) -> str:
        return "in the same window"


@dataclass(frozen=True)
class AsOfArrival:
    """The row of the right side that has arrived last, when the left row arrives."""

    def __str__(self) -> str:
        return "with the current row"


@dataclass(frozen=True)
class AsOfTime:
    """A join of each row with the version that was valid at its time."""

    def __str__(self) -> str:
        return "with the version as of its event time"


@dataclass(frozen=True)
class AllRows:
    """A join of all rows, limited by a time to live."""

    ttl: TimeToLive

    def __str__(self) -> str:
        return f"(rows kept for {self.ttl})"


Meeting: TypeAlias = CloseInTime | InOneWindow | AsOfTime | AsOfArrival | AllRows


@dataclass(frozen=True)
class JoinKeys:
    """Columns that must be equal on both sides."""

    left: tuple[str, ...]
    right: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class JoinPlan(PlanNode):
    """Pairs of rows. A null key equals nothing."""

    left: PlanNode
    right: PlanNode
    keys: JoinKeys
    how: str
    meeting: Meeting
    columns: Columns
    width: int
    """Number of columns from the left side."""
    changes: Changes | None
    where: pl.Expr | None = None
    """Further condition of partners."""
    input_names: ClassVar[tuple[str, ...]] = ("left", "right")

    def summary(self) -> str:
        pairs = zip(self.keys.left, self.keys.right, strict=True)
        on = ", ".join(f"{one} = {other}" for one, other in pairs)
        where = "" if self.where is None else f" where {spell_expression(self.where)}"
        return f"{self.how} join {f'on {on}' if on else 'of every pair'} {self.meeting}{where}"

    def looked_at(self, needed: Names) -> list[Names]:
        if self.where is not None:
            needed = needed.union(self.where.meta.root_names())
        return [needed.union(self.keys.left), needed.union(self.keys.right)]

    def with_filter_below(self, condition: pl.Expr, read: Names) -> PlanNode | None:
        """Push a filter to the side that has all columns of the condition, unless the join adds nulls
        to that side."""
        if read and read <= names_of(self.left) and self.how in ("inner", "left", "semi", "anti"):
            return self.with_filtered_input(0, condition)
        # The version at a time is chosen from all rows.
        versions = isinstance(self.meeting, AsOfTime | AsOfArrival)
        if read and read <= names_of(self.right) and self.how in ("inner", "right") and not versions:
            return self.with_filtered_input(1, condition)
        return None

    def may_be_null(self, name: str) -> bool:
        for place, side in enumerate(self.upstream()):
            if name in names_of(side):
                return place in _NULLS_ON[self.how] or side.may_be_null(name)
        return True

    def origins(self) -> Origins:
        # Columns of windows that both sides share are made where they meet.
        left, right = ((side.origins(), origins_of_time(side)) for side in (self.left, self.right))
        sides = [left] * self.width + [right] * (len(self.columns) - self.width)
        named = zip(self.columns, sides, strict=True)
        return {each.name: of.get(each.name, of_time) for each, (of, of_time) in named}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.joined(self)


@dataclass(frozen=True, eq=False)
class Versions(PlanNode):
    """The versions of the rows of a table with a key, as append-only rows. A deleted row is a version,
    too, which the column `deleted` marks."""

    input: PlanNode
    deleted: str
    columns: Columns
    changes: None = None

    @staticmethod
    def of(plan: PlanNode, deleted: str) -> Versions:
        return Versions(plan, deleted, (*plan.columns, SqlColumn(deleted, types.BOOLEAN)))

    def summary(self) -> str:
        return "versions of the rows"

    def looked_at(self, needed: Names) -> list[Names]:
        return [needed - {self.deleted}]

    def may_be_null(self, name: str) -> bool:
        return name != self.deleted and self.input.may_be_null(name)

    def origins(self) -> Origins:
        return {**self.input.origins(), self.deleted: NO_ORIGIN}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.versions(self)


@dataclass(frozen=True)
class LookupArguments:
    """Arguments of `stream.lookup`, without the lookup and its keys."""

    cache_for: str | None = None
    cache_keys: int = 100_000
    retry_for: str = "30s"


DEFAULT_CALLS = LookupArguments()


@dataclass(frozen=True, eq=False)
class LookupPlan(PlanNode):
    """Rows with columns of an external system, looked up by their keys."""

    input: PlanNode
    lookup: Lookup
    on: tuple[str, ...]
    added: tuple[tuple[str, str], ...]
    """Added columns, with their names in the lookup."""
    how: str
    columns: Columns
    calls: LookupArguments = DEFAULT_CALLS
    changes: None = None

    filters_pass: ClassVar[bool] = True

    def summary(self) -> str:
        return f"{self.how} lookup in {self.lookup.describe()} by {', '.join(self.on)}"

    def looked_at(self, needed: Names) -> list[Names]:
        return [needed.union(self.on)]

    def origins(self) -> Origins:
        of = self.input.origins()
        added = {name: frozenset([(self.lookup.describe(), theirs)]) for name, theirs in self.added}
        return {each.name: added.get(each.name) or of[each.name] for each in self.columns}

    def lowered(self, lowering: Lowering) -> DataStream:
        return lowering.looked_up(self)
