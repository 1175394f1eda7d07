"""Methods of a stream for partitioning and chaining."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from rheos.api.expressions import ExprLike, compile_expressions
from rheos.api.stream_base import Stream
from rheos.core.callables import check_callable, function_name
from rheos.core.errors import ProgramError, SchemaError, Site
from rheos.core.graph.nodes import Input
from rheos.core.graph.row_distribution import AnyDistribution, PartitionBy, RowDistribution
from rheos.core.graph.validate import unknown_column
from rheos.core.site import call_site, located

if TYPE_CHECKING:
    from rheos.api.streams import DataStream


class PartitioningMethods(Stream):
    """Partitioning methods of `DataStream`. The last call takes effect. The output of a program does
    not depend on them, as long as its functions read only their rows."""

    def broadcast(self) -> DataStream:
        """Send every row to every subtask of the next operator.

        Use it for data that every subtask needs, such as rules for a stream.

        ```python
        events.connect(rules.broadcast()).process(Flag())
        ```

        Returns:
            The repartitioned stream.

        Raises:
            ProgramError: The rows are changes, which must stay in order.
        """
        with located(call_site(), "broadcast"):
            return self._distribute(None, broadcast=True)

    def rebalance(self) -> DataStream:
        """Send batches of rows to all subtasks of the next operator in turn.

        ```python
        lines.rebalance().map(parse)  # few files, many subtasks
        ```

        Returns:
            The repartitioned stream.

        Raises:
            ProgramError: The rows are changes, which must stay in order.
        """
        with located(call_site(), "rebalance"):
            return self._distribute(RowDistribution.REBALANCE)

    def rescale(self) -> DataStream:
        """Send batches of rows in turn to a subset of the next operator's subtasks.

        If four subtasks send to two, each of the two receives the rows of two senders. More rows stay
        local than with `rebalance`, but the load is less even.

        ```python
        lines.rescale().map(parse)
        ```

        Returns:
            The repartitioned stream.

        Raises:
            ProgramError: The rows are changes, which must stay in order.
        """
        with located(call_site(), "rescale"):
            return self._distribute(RowDistribution.RESCALE)

    def forward(self) -> DataStream:
        """Send each row to the subtask with the sender's number.

        This is the default if both operators have the same parallelism. With `forward`, a different
        parallelism is an error.

        ```python
        lines.forward().map(parse)
        ```

        Returns:
            The repartitioned stream.

        Raises:
            ProgramError: The rows are changes, which must stay in order.
        """
        with located(call_site(), "forward"):
            return self._distribute(RowDistribution.FORWARD)

    def global_(self) -> DataStream:
        """Send all rows to a single subtask of the next operator.

        ```python
        events.global_().map(number_them)
        ```

        Returns:
            The repartitioned stream.

        Raises:
            ProgramError: The rows are changes, which must stay in order.
        """
        with located(call_site(), "global_"):
            return self._distribute(RowDistribution.GLOBAL)

    def partition_by(
        self, to: ExprLike | Callable[..., Any], on: str | Sequence[str] = ()
    ) -> DataStream:
        """Send each row to the subtask with the computed number. Numbers range from 0 to one less than
        the number of the next operator's subtasks; any other number fails the job, with the record.

        The method does not partition state; use `key_by` for that. An unaligned checkpoint stores rows
        in flight; when they are restored, they may go to any subtask.

        ```python
        events.partition_by(lambda subtasks: col("shard") % subtasks)
        events.partition_by(nearest_rack, on="rack")           # nearest_rack(rack, subtasks) -> int
        ```

        Args:
            to: an integer expression, or a function that returns one for a number of subtasks; with
                `on`, a function of the values and the number of subtasks.
            on: the column, or the columns, whose values the function is called with, row by row: one
                value, or a tuple of several.

        Returns:
            The repartitioned stream.

        Raises:
            ProgramError: `to` cannot be called so, or returns no expression.
            SchemaError: A column does not exist, or the expression is not one integer.
        """
        site = call_site()
        with located(site, "partition_by"):
            columns = (on,) if isinstance(on, str) else tuple(on)
            return self._distribute(_partition_by(to, columns, self.schema, site))

    def start_new_chain(self) -> DataStream:
        """Begin a new chain with the operator that produced this stream.

        The operator then receives its rows through a buffer. It slows the upstream operators down only
        while the buffer is full.

        ```python
        lines.map(parse).start_new_chain()
        ```

        Returns:
            This stream.

        Raises:
            ProgramError: The stream is a union, which is not an operator.
        """
        with located(call_site(), self._node.name):
            return self._chained(ends=False)

    def disable_chaining(self) -> DataStream:
        """Run the operator that produced this stream in a chain of its own.

        ```python
        lines.map(parse).disable_chaining()
        ```

        Returns:
            This stream.

        Raises:
            ProgramError: The stream is a union, which is not an operator.
        """
        with located(call_site(), self._node.name):
            return self._chained(ends=True)

    def _chained(self, *, ends: bool) -> DataStream:
        node = self._node
        if node.spec.is_union:
            raise ProgramError(
                "a union is not an operator: its readers read its inputs directly",
                hint="set this on the operator after the union; that operator starts a chain in any "
                "case",
            )
        self._program.replace(replace(node, begins_chain=True, ends_chain=node.ends_chain or ends))
        return self._at.stream

    def _distribute(
        self, distribution: AnyDistribution | None, *, broadcast: bool = False
    ) -> DataStream:
        port = Input(self._port.node, self._port.tag, broadcast=broadcast, distribution=distribution)
        return replace(self._at, port=port).stream


def _partition_by(to: Any, on: tuple[str, ...], schema: pa.Schema, site: Site) -> PartitionBy:
    for column in on:
        if column not in schema.names:
            raise unknown_column(column, schema, " in partition_by()")
    if on:
        check_callable(to, "partition_by", [*(f"a value of {name!r}" for name in on), "the subtasks"])
        return PartitionBy(to, on, function_name(to), site)
    tried = to
    if callable(to) and not isinstance(to, pl.Expr | str):
        check_callable(to, "partition_by", ["the number of subtasks"])
        tried = to(1)
        if not isinstance(tried, pl.Expr):
            raise ProgramError(
                f"the function of partition_by() must return an expression, but returned {tried!r}",
                hint='write .partition_by(lambda subtasks: col("shard") % subtasks); for a '
                'function of values, name the column: .partition_by(choose, on="shard")',
            )
    exprs, made = compile_expressions("select", [tried], {}, schema)
    if len(made) != 1 or not pa.types.is_integer(made.field(0).type):
        raise SchemaError(
            f"partition_by() needs one integer, but {tried} returns "
            + ", ".join(f"{field.name}: {field.type}" for field in made),
            hint='compute it: .partition_by(lambda subtasks: col("user").hash() % subtasks)',
        )
    name = "" if callable(to) else str(tried)
    return PartitionBy(to if callable(to) else exprs[0], (), name or function_name(to), site)
