"""A physical plan as Spark DataFrames.

    source chain          a frame of splits or rows ─ mapInArrow
    forward edge          ─ mapInArrow                               in the same Spark stage
    hash edge             ─ repartition(range of hashes) ─ sortWithinPartitions ─ mapInArrow
    built-in windows      ─ repartition(key groups of their state) ─ mapInArrow
    several inputs        ─ union ─
    several ports         ─ union, with the port ─ as above: by key, by event time, by port
    broadcast edge        ─ once for each share ─ repartition_by_id(share) ─ before all other rows
    partition_by          ─ repartition_by_id(share)
    several outputs       ─ mapInArrow ─ kept ─┬─ filter ─ ...       nothing is computed twice
    collected rows        ─ mapInArrow ─ kept ─┴─ to the driver, as it knows from notes that they fit

A chain whose rows all leave by one hash edge emits keyed rows, or the state of windows; every other
chain emits packed batches (`layout.py`). Spark chooses the number of partitions of a shuffle, and may
change it while the plan runs: it moves whole ranges of hashes, and so whole keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, assert_never

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from rheos.connectors.spark import versions
from rheos.connectors.spark.spark_types import spark_schema
from rheos.core.graph.row_distribution import PartitionBy
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, Edge, Exchange, PhysicalPlan, PlannedOperator, ToEdge
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.state_config import StateConfig
from rheos.runtimes.batch.buckets import bucket_bits
from rheos.runtimes.batch.layout import (
    ANY_BUCKET,
    BROADCAST_BUCKET,
    COMBINED,
    KEYED,
    LANE_BITS,
    NOTE_BUCKET,
    NOTE_PORT,
    PACKED,
    SEED_BUCKET,
    SHARE,
)
from rheos.runtimes.batch.results import PlanWithHandedRows
from rheos.runtimes.batch.sources import shippable, source_frame
from rheos.runtimes.batch.tasks import (
    ChainTask,
    CombinedInput,
    CombinedOutput,
    FrameOutput,
    Input,
    KeyedInput,
    Output,
    PackedInput,
    PackedOutput,
    RowsOutput,
    UnpackTask,
)
from rheos.runtimes.host.pickling import pack
from rheos.runtimes.spark.job_files import brought
from rheos.runtimes.spark.session import single_threaded_workers
from rheos.runtimes.spark.shipping import worker_task

_HOST = "rheos.runtimes.batch.partition_host"

_PARTITIONS = (
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum",
    "spark.sql.shuffle.partitions",
)
"""Spark's settings for the initial number of partitions of a shuffle, the preferred one first."""

FRAME_EDGE = -1
"""Number of the edge to the user's own DataFrame. The plan has no such edge."""


@dataclass(frozen=True)
class _ChainOutput:
    """The output of a chain: its rows, and the position of each edge's rows in them."""

    frame: DataFrame
    single: bool
    """Whether all rows leave by one edge, together with the notes."""


@dataclass
class Translation:
    """A translator that builds the DataFrames of a plan. It runs nothing; only `keep` may."""

    session: SparkSession
    handed: PlanWithHandedRows
    job: JobId
    first_attempt: int
    batch_rows: int
    keep: Callable[[Chain, DataFrame], DataFrame]
    """Function that returns a DataFrame with the same packed rows, which is computed once for all its
    readers."""
    most_bytes: int = 0
    """Maximum size in bytes of the rows that a job can collect."""
    readable_errors: bool = False
    """Whether errors begin with their own text, for readers of Spark's exceptions."""
    limits: StateConfig = field(default_factory=StateConfig)
    """Limits of the state of one key."""

    @property
    def plan(self) -> PhysicalPlan:
        return self.handed.plan

    def ends(self) -> list[tuple[Chain, DataFrame]]:
        """Return the outputs that no other chain reads. They contain packed notes with the rows that
        the driver collects, or the rows of a frame."""
        left: dict[int, _ChainOutput] = {}
        ends: list[tuple[Chain, DataFrame]] = []
        for chain in self.plan.chains:
            frame = self._chain(chain, left)
            exits = self._exits(chain)
            if not exits:
                ends.append((chain, frame))
            elif self._only_exit(chain) is not None:
                left[chain.id] = _ChainOutput(frame, single=True)
            else:
                left[chain.id] = _ChainOutput(self.keep(chain, frame), single=False)
        return ends

    # --- one chain --------------------------------------------------------------------------------

    def _chain(self, chain: Chain, left: dict[int, _ChainOutput]) -> DataFrame:
        frame, feed = self._input_of(chain, left)
        task = ChainTask(
            **self._common, output=self._output_of(chain), chain=self._sending(chain), input=feed
        )
        return self._map(frame, "run_chain", task)

    def _input_of(self, chain: Chain, left: dict[int, _ChainOutput]) -> tuple[DataFrame, Input]:
        head = chain.operators[0]
        if isinstance(head.spec, SourceSpec):
            source = source_frame(self.session, self.plan, chain)
            return source.frame, source.feed
        edges = [edge for edge in self.plan.edges if edge.target == chain.id]
        exchanges = {edge.exchange for edge in edges}
        if _combines(head):
            return _united(self._shuffleable(edge, left) for edge in edges).repartition(
                "bucket"
            ).sortWithinPartitions("state"), CombinedInput()
        keyed = KeyedInput(
            {n: port.schema for n, port in enumerate(head.ports) if port.keys},
            in_turns=not head.spec.any_order,
        )
        if exchanges == {Exchange.HASH}:
            of_port = self._shuffleable if len(head.ports) == 1 else self._keyed_of
            rows = _united(of_port(edge, left) for edge in edges)
            if head.spec.emits_without_rows:
                shuffled = rows.union(self._seed()).repartition(1)
            else:
                shuffled = rows.repartition("bucket")
            return shuffled.sortWithinPartitions("bucket", "arrival"), keyed
        if not exchanges & {Exchange.HASH, Exchange.BROADCAST, Exchange.CUSTOM}:
            return _united(self._packed_of(edge, left) for edge in edges), PackedInput()
        shares = self.plan.width(chain.id)
        rows = _united(self._shared_out(edge, left, shares) for edge in edges)
        rows = versions.repartition_by_id(rows, shares, SHARE).sortWithinPartitions("bucket", "arrival")
        return rows, keyed if keyed.schemas else PackedInput()

    def _seed(self) -> DataFrame:
        """Return one keyed row without content."""
        return self.session.range(0, 1, 1, 1).selectExpr(
            f"CAST({SEED_BUCKET} AS INT) AS bucket",
            "CAST(0 AS BIGINT) AS arrival",
            "CAST('' AS BINARY) AS payload",
        )

    @cached_property
    def _common(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "first_attempt": self.first_attempt,
            "parallelism": self.plan.parallelism,
            "max_parallelism": self.plan.max_parallelism,
            "batch_rows": self.batch_rows,
            "limits": self.limits,
            "context": brought(self.session.sparkContext, self.plan.context),
        }

    @cached_property
    def _partitions(self) -> int:
        """Return the initial number of partitions of a shuffle."""
        found = (self.session.conf.get(name, None) for name in _PARTITIONS)
        return next((int(number) for number in found if number is not None), 200)

    def _output_of(self, chain: Chain) -> Output:
        last = chain.operators[-1]
        if any(ToEdge(FRAME_EDGE) in routes for routes in last.routes.values()):
            return FrameOutput(last.ports[0].type.schema)
        exit = self._only_exit(chain)
        if exit is not None and exit.exchange is Exchange.HASH:
            return self._to_shuffle(exit)
        custom = {
            edge.id: (edge.distribution, self.plan.width(edge.target))
            for edge in self._exits(chain)
            if isinstance(edge.distribution, PartitionBy)
        }
        return PackedOutput(self.handed.of(chain), self.most_bytes, custom)

    def _to_shuffle(self, edge: Edge) -> RowsOutput | CombinedOutput:
        head = self.plan.chains[edge.target].operators[0]
        if _combines(head):
            return CombinedOutput(head)
        # The buckets of all ports must be the same.
        widest = max(len(port.schema) for port in head.ports if port.keys)
        bits = bucket_bits(self._partitions, widest)
        return RowsOutput(edge, head.ports[edge.target_port].schema, bits)

    def _sending(self, chain: Chain) -> Chain:
        """Return the chain for its tasks: rows for several edges leave once, by the first edge."""
        chain = shippable(chain)
        operators = tuple(
            replace(
                operator,
                routes={
                    tag: tuple(
                        route
                        for route in routes
                        if not isinstance(route, ToEdge) or self._leaves_by(route.edge) == route.edge
                    )
                    for tag, routes in operator.routes.items()
                },
            )
            for operator in chain.operators
        )
        return replace(chain, operators=operators)

    def _leaves_by(self, edge: int) -> int:
        return self._shared.get(edge, edge)

    @cached_property
    def _shared(self) -> dict[int, int]:
        """Return the edges by which the rows of other edges leave."""
        shared: dict[int, int] = {}
        for operator in self.plan.operators():
            for routes in operator.routes.values():
                # Rows for the driver have a port of their own.
                edges = [
                    route.edge
                    for route in routes
                    if isinstance(route, ToEdge) and route.edge >= 0 and not self._is_custom(route.edge)
                ]
                shared.update(dict.fromkeys(edges, edges[0]) if edges else {})
        return shared

    def _is_custom(self, edge: int) -> bool:
        """Return whether the program distributes the edge's rows. A part of a plan may lack the
        edge."""
        return any(e.id == edge and e.exchange is Exchange.CUSTOM for e in self.plan.edges)

    def _exits(self, chain: Chain) -> list[Edge]:
        return [edge for edge in self.plan.edges if edge.source == chain.id]

    def _only_exit(self, chain: Chain) -> Edge | None:
        """Return the edge by which all rows of the chain leave; None if there are several."""
        exits = self._exits(chain)
        return exits[0] if len(exits) == 1 and not self.handed.of(chain) else None

    def _map(self, frame: DataFrame, entry: str, task: ChainTask | UnpackTask) -> DataFrame:
        payload = pack(task, self.plan.operators())
        run = worker_task(f"{_HOST}:{entry}", payload, readable=self.readable_errors)
        with single_threaded_workers(self.session.sparkContext):
            return frame.mapInArrow(run, _spark_schema(task.output))

    # --- edges ------------------------------------------------------------------------------------

    def _packed_of(self, edge: Edge, left: dict[int, _ChainOutput]) -> DataFrame:
        """Return the edge's packed batches, with the target's port."""
        output = left[edge.source]
        notes = f.col("port") == NOTE_PORT
        frame = output.frame if output.single else output.frame.filter(self._leaves_along(edge))
        port = f.when(notes, f.lit(NOTE_PORT)).otherwise(f.lit(edge.target_port))
        packed = frame.select(port.cast("int").alias("port"), "payload")
        match edge.exchange:
            case Exchange.FORWARD | Exchange.RESCALE:
                return packed
            case Exchange.REBALANCE:
                widest = self.plan.chains[edge.target].widest
                if widest is None and edge.distribution is not None:
                    widest = self.plan.parallelism
                return packed if widest is None else packed.repartition(widest)
            case Exchange.CUSTOM:
                lane = f.when(notes, f.lit(0)).otherwise(f.shiftright("port", LANE_BITS))
                return frame.select(port.cast("int").alias("port"), "payload", lane.alias(SHARE))
            case Exchange.BROADCAST:
                return packed
            case Exchange.HASH:
                raise AssertionError("keyed rows do not travel packed")
            case _:
                assert_never(edge.exchange)

    def _shuffleable(self, edge: Edge, left: dict[int, _ChainOutput]) -> DataFrame:
        """Return the edge's rows, or the state of their windows, ready to be shuffled."""
        output = left[edge.source]
        if output.single:
            return output.frame
        task = UnpackTask(**self._common, output=self._to_shuffle(edge), sender=self._sender(edge))
        return self._map(output.frame.filter(self._leaves_along(edge)), "run_unpack", task)

    def _keyed_of(self, edge: Edge, left: dict[int, _ChainOutput]) -> DataFrame:
        """Return the edge's shuffleable rows, with their port."""
        port = f.lit(edge.target_port).alias("port")
        return self._shuffleable(edge, left).select("bucket", "arrival", port, "payload")

    def _shared_out(self, edge: Edge, left: dict[int, _ChainOutput], shares: int) -> DataFrame:
        """Return the edge's rows, repeated for each share of the target to which they belong."""
        if edge.exchange is Exchange.HASH:
            rows = self._keyed_of(edge, left)
            share = f.pmod("bucket", f.lit(shares))
        else:
            rows = self._packed_of(edge, left)
            note = f.col("port") == NOTE_PORT
            broadcast = edge.exchange is Exchange.BROADCAST
            bucket = f.lit(BROADCAST_BUCKET if broadcast else ANY_BUCKET)
            custom = edge.exchange is Exchange.CUSTOM
            rows = rows.select(
                f.when(note, f.lit(NOTE_BUCKET)).otherwise(bucket).alias("bucket"),
                f.monotonically_increasing_id().alias("arrival"),
                "port",
                "payload",
                *([SHARE] if custom else []),
            )
            if custom:
                return rows.select(SHARE, "bucket", "arrival", "port", "payload")
            share = f.pmod("arrival", f.lit(shares)).cast("int")
            if broadcast:
                every = f.array(*map(f.lit, range(shares)))
                share = f.explode(f.when(note, f.array(f.lit(0))).otherwise(every))
        return rows.select(share.alias(SHARE), "*")

    def _leaves_along(self, edge: Edge) -> Column:
        if edge.exchange is Exchange.CUSTOM:
            of_edge = f.col("port").bitwiseAND(f.lit((1 << LANE_BITS) - 1)) == edge.id
            return (f.col("port") >= 0) & of_edge
        return f.col("port") == self._leaves_by(edge.id)

    def _sender(self, edge: Edge) -> PlannedOperator:
        return next(
            operator
            for operator in shippable(self.plan.chains[edge.source]).operators
            for routes in operator.routes.values()
            if ToEdge(edge.id) in routes
        )


def _united(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)


def _spark_schema(output: Output) -> StructType:
    if isinstance(output, FrameOutput):
        return spark_schema(output.schema)
    if isinstance(output, RowsOutput):
        return from_arrow_schema(KEYED)
    return from_arrow_schema(COMBINED if isinstance(output, CombinedOutput) else PACKED)


def _combines(head: PlannedOperator) -> bool:
    """Return whether the shuffle carries the operator's state instead of its rows: windows that only
    add up. Late rows can be output only where all rows are."""
    return head.spec.combines_in_batch(head.outputs)
