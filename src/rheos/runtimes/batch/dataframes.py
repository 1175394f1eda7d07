"""A physical plan as Spark DataFrames.

    source chain          range(splits) ─ mapInArrow                 one partition per split
    forward edge          ─ mapInArrow                               in the same Spark stage
    hash edge             ─ repartitionById(P) ─ sortWithinPartitions ─ mapInArrow
    several inputs        ─ union ─
    several outputs       ─ mapInArrow ─ persist ─┬─ filter ─ ...     nothing is computed twice

A chain whose rows all leave by one hash edge hands Spark rows; any other hands on packed batches
(`layout.py`). Partition i behind a shuffle is subtask i: it gets the key groups that subtask owns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.storagelevel import StorageLevel

from rheos.graph.nodes import ProcessSpec, SourceSpec, WindowSpec
from rheos.plan.physical import Chain, Edge, Exchange, PhysicalPlan, PlannedOperator, ToEdge
from rheos.protocol.elements import TS
from rheos.protocol.ids import JobId
from rheos.runtimes.batch.layout import NOTE_PORT, PACKED, RowLayout
from rheos.runtimes.batch.partition_host import (
    ChainTask,
    PackedInput,
    PackedOutput,
    Placement,
    RowsInput,
    RowsOutput,
    UnpackTask,
)
from rheos.runtimes.batch.source_input import SourceInput
from rheos.runtimes.batch.sources import source_frame
from rheos.runtimes.spark_session import single_threaded_workers
from rheos.runtimes.spark_shipping import arrow_task, pack

_HOST = "rheos.runtimes.batch.partition_host"

_SETTINGS = {
    # A partition is a subtask: Spark may neither merge nor split them.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.execution.arrow.maxBytesPerBatch": "64MB",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
    "spark.sql.session.timeZone": "UTC",
}


@dataclass(frozen=True)
class _Output:
    """What a chain has left: its rows, and where each edge's rows are in them."""

    frame: DataFrame
    single: bool
    """All rows leave by one edge, and the notes ride with them."""


@dataclass
class Translation:
    """Builds the DataFrames of a plan, chain by chain, and runs what must be run on the way.

    `on_notes` is called with the notes of each Spark job that ends.
    """

    session: SparkSession
    plan: PhysicalPlan
    job: JobId
    first_attempt: int
    batch_rows: int
    on_notes: Callable[[list[bytes]], None]
    _persisted: list[DataFrame] = field(default_factory=list)

    def run(self) -> None:
        """Runs the whole plan. Raises what Spark raises."""
        self.session = self.session.newSession()
        for name, value in _SETTINGS.items():
            self.session.conf.set(name, value)
        outputs: dict[int, _Output] = {}
        ends: list[DataFrame] = []
        try:
            for chain in self.plan.chains:
                frame = self._chain(chain, outputs)
                exits = self._exits(chain)
                if not exits:
                    ends.append(frame)
                elif len(exits) == 1:
                    outputs[chain.id] = _Output(frame, single=True)
                else:
                    outputs[chain.id] = _Output(self._materialised(frame), single=False)
            if ends:
                self._collect_notes(reduce(DataFrame.unionAll, ends))
        finally:
            for frame in self._persisted:
                frame.unpersist()

    def _materialised(self, frame: DataFrame) -> DataFrame:
        frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._persisted.append(frame)
        self._collect_notes(frame)
        return frame

    def _collect_notes(self, packed: DataFrame) -> None:
        rows = packed.filter(f.col("port") == NOTE_PORT).select("payload").collect()
        self.on_notes([bytes(row.payload) for row in rows])

    # --- one chain --------------------------------------------------------------------------------

    def _chain(self, chain: Chain, outputs: dict[int, _Output]) -> DataFrame:
        head = chain.operators[0]
        edges = [edge for edge in self.plan.edges if edge.target == chain.id]
        feed: SourceInput | PackedInput | RowsInput
        if isinstance(head.spec, SourceSpec):
            source = source_frame(self.session, self.plan, chain)
            frame, feed = source.frame, source.feed
        elif all(edge.exchange is Exchange.HASH for edge in edges):
            feed = RowsInput(head.ports[0].schema, by_event_time=_follows_time(head))
            frame = self._shuffled([self._rows_of(edge, outputs) for edge in edges], feed)
        else:
            assert not any(edge.exchange is Exchange.HASH for edge in edges), "edges of one kind"
            feed = PackedInput()
            frame = reduce(DataFrame.unionAll, [self._packed_of(edge, outputs) for edge in edges])
        task = ChainTask(
            job=self.job,
            first_attempt=self.first_attempt,
            chain=chain,
            placement=self._placement(),
            batch_rows=self.batch_rows,
            input=feed,
            output=self._output_of(chain),
        )
        return self._map(frame, "run_chain", task)

    def _output_of(self, chain: Chain) -> PackedOutput | RowsOutput:
        exits = self._exits(chain)
        if len(exits) == 1 and exits[0].exchange is Exchange.HASH:
            return self._rows_output(exits[0])
        return PackedOutput()

    def _rows_output(self, edge: Edge) -> RowsOutput:
        return RowsOutput(edge, self._port_schema(edge))

    def _port_schema(self, edge: Edge) -> pa.Schema:
        return self.plan.chains[edge.target].operators[0].ports[edge.target_port].schema

    def _exits(self, chain: Chain) -> list[Edge]:
        return [edge for edge in self.plan.edges if edge.source == chain.id]

    def _map(self, frame: DataFrame, entry: str, task: ChainTask | UnpackTask) -> DataFrame:
        output = task.output
        schema = RowLayout(output.schema).wire if isinstance(output, RowsOutput) else PACKED
        with single_threaded_workers(self.session):
            return frame.mapInArrow(
                arrow_task(f"{_HOST}:{entry}", pack(task)), from_arrow_schema(schema)
            )

    def _placement(self) -> Placement:
        return Placement(self.plan.parallelism, self.plan.max_parallelism)

    # --- edges ------------------------------------------------------------------------------------

    def _packed_of(self, edge: Edge, outputs: dict[int, _Output]) -> DataFrame:
        """The edge's packed batches, by the port of the target."""
        output = outputs[edge.source]
        notes = f.col("port") == NOTE_PORT
        frame = output.frame if output.single else output.frame.filter(f.col("port") == edge.id)
        port = f.when(notes, f.lit(NOTE_PORT)).otherwise(f.lit(edge.target_port))
        return frame.select(port.cast("int").alias("port"), "payload")

    def _rows_of(self, edge: Edge, outputs: dict[int, _Output]) -> DataFrame:
        """The edge's rows, ready to be shuffled."""
        output = outputs[edge.source]
        if output.single:
            return output.frame
        task = UnpackTask(self._sender(edge), self._placement(), self._rows_output(edge))
        return self._map(output.frame.filter(f.col("port") == edge.id), "run_unpack", task)

    def _sender(self, edge: Edge) -> PlannedOperator:
        return next(
            operator
            for operator in self.plan.chains[edge.source].operators
            for routes in operator.routes.values()
            if ToEdge(edge.id) in routes
        )

    def _shuffled(self, frames: list[DataFrame], feed: RowsInput) -> DataFrame:
        layout = RowLayout(feed.schema)
        frame = reduce(DataFrame.unionAll, frames).repartitionById(self.plan.parallelism, "target")
        if feed.by_event_time:
            # Ties go by the whole row, so that the order is that of the data alone.
            rest = [name for name in _sortable(layout) if name != layout.column(TS)]
            return frame.sortWithinPartitions(layout.column(TS), *rest)
        return frame.sortWithinPartitions("partition", "position")


def _follows_time(head: PlannedOperator) -> bool:
    """Whether rows come to it by event time, and the watermark with them: where its results depend on
    the data alone. What sees the order of arrival gets that, and then the end of time."""
    spec = head.spec
    return isinstance(spec, WindowSpec) or (
        isinstance(spec, ProcessSpec) and spec.order == "event_time"
    )


def _sortable(layout: RowLayout) -> list[str]:
    return [name for name in layout.columns if not pa.types.is_nested(layout.wire.field(name).type)]
