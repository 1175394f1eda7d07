"""Methods of `DataStream` that compute rows by expressions, without a function of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from rheos.api.changelogs import check_expressions
from rheos.api.compiled_checks import automatic_form
from rheos.api.expressions import ExprLike, Op, compile_expressions
from rheos.api.function_checks import operator_name
from rheos.api.function_typing import input_record
from rheos.api.lookups import How, looked_up
from rheos.api.stream_base import Stream
from rheos.api.transformations import Transformation
from rheos.core.callables import check_callable, function_name
from rheos.core.connectors.lookup import Lookup
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.nodes import StreamType
from rheos.core.graph.types import empty_frame
from rheos.core.graph.validate import check_columns, unknown_column
from rheos.core.operators.automatic_rows import predicate_typing
from rheos.core.operators.explode import ExplodeSpec, exploded
from rheos.core.operators.expressions import ExpressionSpec
from rheos.core.operators.filter_function import FilterFunctionSpec
from rheos.core.site import call_site, located

if TYPE_CHECKING:
    from rheos.api.streams import DataStream


class ExpressionMethods(Stream):
    """Methods that compute new rows by expressions."""

    def filter(self, *conditions: ExprLike | Callable[[Any], bool]) -> DataStream:
        """Keep the rows that fulfil all conditions.

        Expressions are many times as fast as functions.

        ```python
        events.filter(col("status") < 400, col("user").is_not_null())
        events.filter("status < 400 AND user IS NOT NULL")
        events.filter(lambda event: event.user in VIPS)
        ```

        Args:
            conditions: Boolean expressions, or SQL strings; or a single function of a record.

        Returns:
            The stream of these rows.

        Raises:
            ProgramError: A function is not alone, or cannot be called with a record.
            SchemaError: A condition names an unknown column, or is not boolean.
        """
        if any(map(callable, conditions)):
            return self._filter_function(conditions)
        return self._expressions("filter", conditions, {})

    def _filter_function(self, given: Sequence[Any]) -> DataStream:
        fn: Any = next(filter(callable, given))
        name = operator_name("filter", fn)
        with located(call_site(), name):
            if len(given) > 1:
                raise ProgramError(
                    "filter() takes conditions, or a single function",
                    hint=f"call it twice: .filter({function_name(fn)}).filter(...)",
                )
            check_callable(fn, "filter", ["a record"])
            record = input_record(fn, self.schema)
            typing = predicate_typing(self.schema, record)
            automatic = automatic_form(self._at.program, fn, typing)
            spec = FilterFunctionSpec(fn, record, automatic)
            return self._at.then(spec, name, self.schema, self._type.record).stream

    def select(self, *columns: ExprLike, **named: Any) -> DataStream:
        """Compute new rows that have only the given columns.

        ```python
        events.select("user", col("at").dt.truncate("1h"), total=col("price") * col("n"))
        ```

        Args:
            columns: Names of columns, or expressions.
            named: Expressions by the names of their columns.

        Returns:
            The stream of the new rows.

        Raises:
            SchemaError: An expression does not fit the columns.
        """
        return self._expressions("select", columns, named)

    def with_columns(self, *columns: ExprLike, **named: Any) -> DataStream:
        """Add columns to the rows, or replace columns of the same name.

        ```python
        events.with_columns(total=col("price") * col("n"))
        ```

        Args:
            columns: Expressions; each has the name of its column.
            named: Expressions by the names of their columns.

        Returns:
            The stream of the extended rows.

        Raises:
            SchemaError: An expression does not fit the columns.
        """
        return self._expressions("with_columns", columns, named)

    def _expressions(self, op: Op, given: tuple[Any, ...], named: Mapping[str, Any]) -> DataStream:
        with located(call_site(), op):
            exprs, schema = compile_expressions(op, given, named, self.schema)
            changes = self._type.changes
            if changes is not None:
                changes = check_expressions(op, exprs, self.schema, schema, changes)
            kept = self._type.record if op == "filter" else None
            made = self._at.then(ExpressionSpec(op, exprs), op, schema, kept)
            if changes is not self._type.changes:
                made.with_changes(changes)
            if op != "filter":
                _note_event_time(made, self._type, exprs)
            return made.stream

    def explode(self, column: str, rank: str | None = None) -> DataStream:
        """Emit a row for each element of a list, with the other columns of its row.

        Elements that are structs become one column for each field. Lists that are empty or null emit no
        row.

        ```python
        windows.aggregate(top=rh.agg.top_k("price", 3, of=["item", "price"])).explode("top")
        ```

        Args:
            column: The column with the lists.
            rank: Name of an additional column for the position in the list, from 1.

        Returns:
            The stream of the elements.

        Raises:
            SchemaError: The column does not exist or has no lists, or two columns would have one name.
        """
        with located(call_site(), "explode"):
            if column not in self.schema.names:
                raise unknown_column(column, self.schema, " in explode()")
            kind = self.schema.field(column).type
            if not (pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)):
                raise SchemaError(
                    f"explode() takes a list, and {column!r} is {kind}", hint="name a column of lists"
                )
            schema = exploded(self.schema, column, rank)
            check_columns(schema)
            return self._at.then(ExplodeSpec(column, rank), "explode", schema).stream

    def lookup(
        self,
        lookup: Lookup,
        on: str | Sequence[str],
        columns: Sequence[str] | Mapping[str, str] | None = None,
        how: How = "left",
        *,
        cache_for: str | None = None,
        cache_keys: int = 100_000,
        retry_for: str = "30s",
    ) -> DataStream:
        """Add columns from an external system to each row, by key, as of the row's arrival.

        ```python
        visits.lookup(rh.redis.lookup("redis://localhost:6379", key="user:{id}", schema=User), on="id")
        ```

        Rows are looked up in batches of some thousands, several batches concurrently. Rows, watermarks
        and checkpoints keep their order. After a failure, rows since the last checkpoint are looked up
        again, with the system's data at that time.

        Args:
            lookup: The lookup, such as rh.redis.lookup(...).
            on: The column with the key, or several if the lookup has several key columns. For
                rh.lancedb.nearest it is a column of vectors.
            columns: The lookup's columns to add, or their new names: `{"new": "old"}`. All by default.
            how: "left" keeps rows without a result, with nulls; "inner" drops them. If the lookup has
                several rows for a key, the input row is emitted once for each.
            cache_for: Time for which a subtask reuses a result, or the lack of one ("10m"). Without it,
                each row is looked up anew.
            cache_keys: Maximum number of cached keys; the oldest are dropped first.
            retry_for: Time for which an unavailable system is retried before the job fails and is
                restarted by its strategy. Each retry is counted (`retries`).

        Returns:
            The stream with the additional columns.

        Raises:
            ProgramError: `lookup` is not a lookup, or an argument is invalid.
            SchemaError: A column does not exist, or the key's type does not fit.
        """
        with located(call_site(), "lookup"):
            given = (lookup, on, columns, how, cache_for, cache_keys, retry_for)
            spec, schema = looked_up(self.schema, *given)
            return self._at.then(spec, "lookup", schema).stream


def _note_event_time(made: Transformation, before: StreamType, exprs: Sequence[pl.Expr]) -> None:
    """Record whether the expressions rename or change the column that event time was read from."""
    column, node = before.time_column, made.node
    if column is None:
        return
    if column not in made.type.schema.names:
        made.with_type(replace(made.type, time_column=_new_name(column, exprs)))
        return
    frame = empty_frame(before.schema).lazy()
    computed = [expr for expr in exprs if not expr.meta.is_column_selection()]
    if any(column in frame.select(expr).collect_schema().names() for expr in computed):
        changed = f"{node.name}() at {node.site} changes the values of {column!r}"
        made.with_type(replace(made.type, time_column=None, time_changed=changed))


def _new_name(column: str, exprs: Sequence[pl.Expr]) -> str | None:
    """Return the name under which the expressions pass on a column, or None."""
    for expr in exprs:
        plain = expr.meta.undo_aliases()
        if plain.meta.is_column() and plain.meta.output_name() == column:
            return expr.meta.output_name()
    return None
