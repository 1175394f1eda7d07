"""Lowering of plans to streams: each node calls the method of streams that computes it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from rheos.api.changelogs import added_table
from rheos.api.compiled_checks import automatic_form
from rheos.api.streams import DataStream
from rheos.connectors.collection import CollectionSource
from rheos.core import aggregates as agg
from rheos.core.callables import function_name
from rheos.core.errors import ProgramError
from rheos.core.graph.changelog import DELETE, INSERT, OP, UPDATE_BEFORE, Changes
from rheos.core.graph.nodes import MAIN, Order, StreamType
from rheos.core.graph.types import from_polars
from rheos.core.graph.windows import Cumulating, Session, Sliding, Tumbling, Window
from rheos.core.operators.automatic_rows import column_typing
from rheos.core.operators.call import CallForm
from rheos.core.operators.change_rows import table_columns
from rheos.core.operators.changelog.top_n import RANK
from rheos.core.operators.map_batches import MapBatchesSpec
from rheos.core.operators.over.changelog_over import OverSpec
from rheos.core.operators.over.event_time_over import EventTimeOver, label
from rheos.sql.functions import FoldFunction
from rheos.sql.grouped_plans import (
    Aggregate,
    Dedup,
    Distinct,
    MatchPlan,
    OverPlan,
    TopN,
    WindowedRows,
)
from rheos.sql.inserted_rows import InsertedPlan
from rheos.sql.join_streams import joined
from rheos.sql.joined_plans import AsOfArrival, JoinPlan, LookupPlan, Versions
from rheos.sql.nullable_keys import not_null, selected, with_changes
from rheos.sql.over import is_behind_time
from rheos.sql.plan import (
    CallPlan,
    ColumnRole,
    Explode,
    PlanNode,
    Project,
    Retract,
    Scan,
    Union,
    ValueRows,
)
from rheos.sql.plan_numbers import PlanNumbers
from rheos.sql.plan_pushdown import pushed
from rheos.sql.windows import WINDOW_COLUMNS, WindowsOfRows, last_time

if TYPE_CHECKING:
    from rheos.api.environment import Environment
    from rheos.api.time_to_live import TimeToLive
    from rheos.sql.catalog import DeclaredTable


class Lowering:
    """The streams of plans in one environment. Equivalent plans share a stream."""

    def __init__(self, env: Environment, uids: dict[str, int] | None = None) -> None:
        """Create the streams of plans in an environment. `uids` counts the ids that exist already."""
        self._env = env
        self._numbers = PlanNumbers()
        self._made: dict[int, DataStream] = {}
        self._uids = {} if uids is None else uids

    def renewed(self) -> Lowering:
        """Return a lowering that creates all streams again, because rows of tables have changed."""
        return Lowering(self._env, self._uids)

    def stream(self, plan: PlanNode) -> DataStream:
        number = self._numbers.number(plan)
        if number not in self._made:
            self._made[number] = plan.lowered(self)
        return self._made[number]

    def values(self, plan: ValueRows) -> DataStream:
        return self._env.from_source(CollectionSource(plan.table, None), name="VALUES")

    def inserted(self, plan: InsertedPlan) -> DataStream:
        """Return the rows of a table without a connector, as all statements so far leave them."""
        table, rows = plan.table, plan.rows
        rows.is_lowered = True
        time = None if table.watermark is None else table.watermark.on
        watermark = table.watermark if time in table.schema.names else None
        given = self._env.from_source(
            CollectionSource(rows.changelog(), None),
            watermark=None if rows.queries else watermark,
            name=table.name,
        )
        if rows.queries:
            op = [] if rows.changes is None else [pl.lit(INSERT).alias(OP)]
            streams = [_untimed(self.stream(each)) for each in pushed(rows.queries)]
            given = given.union(*(each.with_columns(*op) if op else each for each in streams))
            given = given if watermark is None else given.with_event_time(watermark)
        if table.key:
            return given.upserts(table.key)
        return given if rows.changes is None else with_changes(given, rows.changes)

    def exploded(self, plan: Explode) -> DataStream:
        rows = self.stream(plan.input)
        rows = rows if plan.changes is None else rows.as_rows()
        return with_changes(rows.explode(plan.column), plan.changes)

    def retracted(self, plan: Retract) -> DataStream:
        of = not_null(self.stream(plan.input), plan.changes.key)
        return of.restored(of.stream.retractions(), plan.changes)

    def united(self, plan: Union) -> DataStream:
        first, *others = _timed_alike([self.stream(each) for each in plan.inputs])
        return first.union(*others)

    def distinct(self, plan: Distinct) -> DataStream:
        names = [column.name for column in plan.columns]
        of = not_null(self.stream(plan.input), names)
        once = self.known(of.keyed().dedup(), plan, "distinct", *names)
        return of.restored(once, None)

    def joined(self, plan: JoinPlan) -> DataStream:
        sides = self.stream(plan.left), self.stream(plan.right)
        if isinstance(plan.meeting, AsOfArrival):
            sides = _without_time(sides[0]), _without_time(sides[1])
        return joined(plan, *sides, lambda made, *of: self.known(made, plan, *of))

    def versions(self, plan: Versions) -> DataStream:
        rows = self.stream(plan.input).as_rows()
        given = [pl.col(column.name) for column in plan.input.columns]
        return rows.select(*given, pl.col(OP).is_in([DELETE, UPDATE_BEFORE]).alias(plan.deleted))

    def looked_up(self, plan: LookupPlan) -> DataStream:
        rows = self.stream(plan.input)
        calls = plan.calls
        found = rows.lookup(
            plan.lookup,
            plan.on,
            dict(plan.added),
            plan.how,  # type: ignore[arg-type]
            cache_for=calls.cache_for,
            cache_keys=calls.cache_keys,
            retry_for=calls.retry_for,
        )
        return found.select(*(column.name for column in plan.columns))

    def matched(self, plan: MatchPlan) -> DataStream:
        of = not_null(self.stream(plan.input), plan.keys)
        found = self.known(of.keyed().detect_tree(plan.pattern), plan, "match", *plan.keys)
        if plan.number is not None:
            counted = found.key_by(*of.keys).running(**{plan.number: agg.count()})
            found = self.known(counted, plan, "number", *plan.keys)
        found = of.restored(found, None)
        return _untimed(found) if plan.pattern.following else found

    def projected(self, plan: Project) -> DataStream:
        stream = self.stream(plan.input)
        exprs = [
            _called(expr, column.name) for expr, column in zip(plan.exprs, plan.columns, strict=True)
        ]
        rows = selected(stream, exprs, plan.changes)
        times = [column.name for column in plan.columns if column.role is ColumnRole.EVENT_TIME]
        type = rows.transformation.type
        if times and type.event_time and type.time_column is None and type.time_changed is None:
            return DataStream.at(rows.transformation.with_type(replace(type, time_column=times[0])))
        return rows

    def called(self, plan: CallPlan) -> DataStream:
        stream = self.stream(plan.input)
        made = from_polars(pl.Schema({column.name: column.type for column in plan.columns}))
        result = made.field(plan.spec.column)
        schema = stream.schema.append(result)
        name = f"call({function_name(plan.spec.fn)})"
        spec = plan.spec
        if spec.form.is_by_row and not isinstance(spec.fn, FoldFunction):
            many = spec.form is CallForm.MANY
            typing = column_typing(stream.schema, spec.arguments, spec.takes_null, result, many=many)
            automatic = automatic_form(stream.transformation.program, spec.fn, typing)
            spec = replace(spec, automatic=automatic)
        made = stream.transformation.then(spec, name, schema)
        return DataStream.at(made.with_changes(plan.changes))

    def windowed(self, plan: WindowedRows) -> DataStream:
        """Return a row for each window of a row. It is not used if the rows are grouped by the
        windows."""
        stream, window = self.stream(plan.input), plan.window
        if window.time != "event_time":
            raise ProgramError(
                "windows in processing time must be aggregated with GROUP BY",
                hint="group by window_start, window_end and keys",
            )
        ms = pl.col(plan.time).cast(pl.Datetime("ms", "UTC")).dt.epoch("ms")
        match window:
            case Tumbling() | Sliding() | Cumulating() if window.calendar is not None:
                found = WindowsOfRows(window, plan.time, "windows")
                spec = MapBatchesSpec(found, "arrow")
                schema = found.schema(stream.schema)
                listed = stream.transformation.then(spec, "windows of rows", schema)
                return DataStream.at(listed).explode("windows")
            case Tumbling() | Sliding():
                size, slide, offset = window.size_ms, window.slide_ms, window.offset_ms
                last = ms - (ms - offset) % slide
                starts = [last - slide * n for n in range(-(-size // slide))]
                spans = [(start, start + size) for start in starts]
            case Cumulating():
                size, step, offset = window.size_ms, window.step_ms, window.offset_ms
                begin = ms - (ms - offset) % size
                spans = [(begin, begin + step * n) for n in range(1, size // step + 1)]
            case _:
                assert isinstance(window, Session)
                raise ProgramError(
                    "sessions are known only when they end: SESSION needs GROUP BY",
                    hint="group by window_start, window_end and the keys of the sessions",
                )
        names = [column.name for column in WINDOW_COLUMNS]
        bounds = [
            pl.struct(
                at.cast(pl.Datetime("ms")).dt.replace_time_zone("UTC").alias(name)
                for at, name in zip((start, end, end - 1), names, strict=True)
            )
            for start, end in spans
        ]
        in_each = stream.with_columns(pl.concat_list(bounds).alias("windows")).explode("windows")
        return in_each.filter(pl.col(names[1]).dt.epoch("ms") > ms)

    def aggregated(self, plan: Aggregate) -> DataStream:
        of = not_null(self.stream(plan.input), plan.keys)
        aggregates = dict(plan.aggregates)
        if plan.window is None:
            only = None if plan.only_key is None else (*plan.only_key, *(False for _ in of.of))
            table = added_table(of.keyed().transformation, aggregates, only).stream
            return of.restored(self.known(table, plan, "table", *plan.keys), plan.changes)
        windows = of.keyed().window(plan.window) if plan.keys else of.stream.window_all(plan.window)
        made = windows.aggregate(**aggregates)  # type: ignore[arg-type]
        clock = [] if plan.window.time == "event_time" else [plan.window.time]
        made = self.known(made, plan, "window", repr(plan.window), *clock, *plan.keys)
        return of.restored(made, None)

    def first(self, plan: TopN) -> DataStream:
        rows = self.stream(plan.input)
        if plan.window is not None:
            return self._first_in_window(plan, plan.window, rows)
        kept = [pl.col(column.name) for column in plan.columns if column.name != plan.rank]
        if plan.dedup is not None:
            rank = pl.lit(1, dtype=pl.Int64).alias(plan.rank)
            return selected(self._deduplicated(plan, plan.dedup, rows), [*kept, rank], plan.changes)
        keyed = not_null(rows, plan.keys).keyed()
        first = keyed.top_n(plan.n, by=plan.by, smallest=plan.smallest, with_ties=plan.with_ties)
        ties = ["with ties"] if plan.with_ties else []
        first = self.known(first, plan, "top", str(plan.n), *ties, *plan.keys)
        rank = pl.col(RANK).alias(plan.rank)
        return selected(first, [*kept, rank], plan.changes)

    def _deduplicated(self, plan: TopN, by: Dedup, rows: DataStream) -> DataStream:
        if by == Dedup("last", "arrival") and rows.transformation.type.event_time:
            rows = _untimed(rows)
        # The last row by event time replaces earlier ones at once.
        order: Order = by.order if by.keep == "first" else "arrival"
        found = not_null(rows, plan.keys).keyed().dedup(by.keep, order=order)
        what = "newest" if by.keep == "last" else "oldest"
        arrival = [by.order] if by.order == "arrival" else []
        return self.known(found, plan, what, *arrival, *plan.keys)

    def _first_in_window(self, plan: TopN, window: Window, rows: DataStream) -> DataStream:
        names = [column.name for column in plan.input.columns]
        # Columns of windows that are over have names other than those of this one.
        bounds = {column.name: f"of {column.name}" for column in WINDOW_COLUMNS if column.name in names}
        if bounds:
            rows = rows.select(*(pl.col(name).alias(bounds.get(name, name)) for name in names))
        others = [bounds.get(name, name) for name in names if name not in plan.keys]
        top = agg.top_k(plan.by, plan.n, of=others, smallest=plan.smallest)
        keys = [bounds.get(key, key) for key in plan.keys]
        nullable = not_null(rows, keys)
        windows = nullable.keyed().window(window) if keys else rows.window_all(window)
        found = self.known(windows.aggregate(top=top), plan, "top", str(plan.n), *keys)
        found = nullable.restored(found, None)
        rank = "number of the row"
        numbered = found.explode("top", rank=rank)
        ends = {column.name for column in WINDOW_COLUMNS} - {*bounds}
        exprs = []
        for column in plan.columns:
            if column.name == plan.rank:
                exprs.append(pl.col(rank).alias(plan.rank))
            elif column.name == "window_time" and column.name in ends:
                exprs.append(last_time(pl.col("window_end")).alias(column.name))
            else:
                exprs.append(pl.col(bounds.get(column.name, column.name)).alias(column.name))
        return numbered.select(*exprs)

    def framed(self, plan: OverPlan) -> DataStream:
        of = not_null(self.stream(plan.input), plan.keys)
        keyed, over = of.keyed(), plan.over
        kinds = from_polars(pl.Schema({column.name: column.type for column in plan.columns}))
        rows = table_columns(keyed.schema)
        schema = pa.schema([*rows, *(kinds.field(name) for name in over.results)])
        changes = keyed.transformation.type.changes
        if changes is None:
            fn = EventTimeOver(over, plan.frame, pa.schema([*rows]))
            made = keyed.process(fn, order="event_time", returns=schema)
        else:
            key = (*dict.fromkeys((*keyed.keys, *changes.key)),)
            schema = schema.append(pa.field(OP, pa.string()))
            timed = keyed.transformation.type.event_time
            table = StreamType(schema, timed, changes=Changes(key, retracts=True))
            spec = OverSpec(over, plan.frame, changes.key)
            made = DataStream.at(keyed.transformation.add(spec, "over", {MAIN: table}))
        what = [str(plan.frame), *map(label, over.functions), *plan.keys]
        found = of.restored(self.known(made, plan, "over", *what), plan.changes)
        return _untimed(found) if is_behind_time(plan) else found

    def by_key(self, plan: PlanNode, table: DeclaredTable, ttl: TimeToLive) -> DataStream:
        """Return the rows for a table. If they are changes with another key than its PRIMARY KEY, fold
        them by that key.
        """
        return self.folded(self.stream(plan), plan, table.name, table.key, ttl)

    def folded(
        self,
        rows: DataStream,
        plan: PlanNode,
        name: str,
        key: tuple[str, ...],
        ttl: TimeToLive,
    ) -> DataStream:
        """Return the rows of a plan. If they are changes with another key than this, fold them by it.
        `name` is that of the table to which they belong."""
        changes = rows.transformation.type.changes
        if changes is None or not key:
            return rows
        if {*changes.key} == {*key} and not changes.filtered:
            return rows
        return self.known(rows.upserts(key, ttl=ttl), plan, "fold", name, *key)

    def known(self, stream: DataStream, plan: PlanNode, *what: str) -> DataStream:
        """Set an id of the stream's state, derived from its tables, kind, keys and windows.

        So the state is found again after other parts of the query have changed.
        """
        known = "\0".join([*what, *sorted(_tables(plan))])
        uid = f"sql {what[0]} {hashlib.sha256(known.encode()).hexdigest()[:12]}"
        self._uids[uid] = count = self._uids.get(uid, 0) + 1
        return stream.uid(uid if count == 1 else f"{uid} {count}")


def _timed_alike(streams: list[DataStream]) -> list[DataStream]:
    """Return the streams, all without event time if one of them lacks it."""
    if all(stream.transformation.type.event_time for stream in streams):
        return streams
    return [*map(_without_time, streams)]


def _without_time(stream: DataStream) -> DataStream:
    return _untimed(stream) if stream.transformation.type.event_time else stream


def _untimed(stream: DataStream) -> DataStream:
    changes = stream.transformation.type.changes
    names = [name for name in stream.schema.names if changes is None or name != OP]
    rows = selected(stream, [pl.col(name) for name in names], changes)
    return DataStream.at(rows.transformation.without_event_time())


def _called(expr: pl.Expr, name: str) -> pl.Expr:
    """Return an expression under a name. A column of that name is unchanged."""
    plain = expr.meta.is_column() and expr.meta.output_name() == name
    return expr if plain else expr.alias(name)


def _tables(plan: PlanNode) -> set[str]:
    if isinstance(plan, Scan):
        return {plan.name.casefold()}
    return {name for each in plan.upstream() for name in _tables(each)}
