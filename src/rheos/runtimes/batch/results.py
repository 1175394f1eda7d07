"""The transfer of the rows that a job collects to the driver.

Collected rows leave their chain in pieces, by a port of their own. The chain's output is cached. The
driver first reads its notes, which contain the number of collected rows and their size. Only if they
fit, it requests the pieces, and checks them against the notes.

    chain ─ notes, collected rows ─ kept ─┬─ notes: pieces, rows, bytes
                                          └─ the pieces
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import SparkSession

from rheos.core.connectors.sink_capabilities import CollectsRows
from rheos.core.errors import ConfigurationError, JobFailedError
from rheos.core.formats.arrow_bytes import table_of
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import OutputType
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.union import UnionSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator, ToEdge
from rheos.core.protocol.elements import visible
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.state_config import MIB
from rheos.runtimes.batch.layout import FIRST_RESULT_PORT
from rheos.runtimes.batch.task_notes import Handed

_SHARE_OF_HEAP = 8
"""Divisor: share of the heap for collected rows. Spark's driver holds them sent, decoded and
pickled."""

_LEAST_BYTES = 16 * MIB


def passing(planned: PlannedOperator, edge: int) -> PlannedOperator:
    """Return an operator that replaces a sink, and lets the sink's rows leave by the edge."""
    port = planned.ports[0]
    return PlannedOperator(
        id=planned.id,
        name=planned.name,
        site=planned.site,
        spec=UnionSpec(),
        ports=planned.ports,
        outputs={MAIN: OutputType(port.type, port.schema)},
        routes={MAIN: (ToEdge(edge),)},
    )


@dataclasses.dataclass(frozen=True)
class PlanWithHandedRows:
    """A plan whose collected rows leave it, and the sinks for which they were."""

    plan: PhysicalPlan
    sinks: Mapping[int, PlannedOperator]
    """Sinks by port."""

    def of(self, chain: Chain) -> dict[int, PlannedOperator]:
        """Return the chain's operators that replace sinks, by the ports of their rows."""
        found = {operator.id: operator for operator in chain.operators}
        return {port: found[sink.id] for port, sink in self.sinks.items() if sink.id in found}


def handed_over(plan: PhysicalPlan) -> PlanWithHandedRows:
    """Return the plan without its collecting sinks."""
    sinks: dict[int, PlannedOperator] = {}

    def without(operator: PlannedOperator) -> PlannedOperator:
        spec = operator.spec
        if not isinstance(spec, SinkSpec) or not isinstance(spec.sink, CollectsRows):
            return operator
        port = FIRST_RESULT_PORT - len(sinks)
        sinks[port] = operator
        return passing(operator, port)

    chains = tuple(
        dataclasses.replace(chain, operators=tuple(map(without, chain.operators)))
        for chain in plan.chains
    )
    return PlanWithHandedRows(dataclasses.replace(plan, chains=chains), sinks)


def most_bytes(session: SparkSession) -> int:
    """Return the number of bytes that a job can collect through this session's driver."""
    heap: int = session._jvm.java.lang.Runtime.getRuntime().maxMemory()
    return max(heap // _SHARE_OF_HEAP, _LEAST_BYTES)


def too_large(size_bytes: int, limit_bytes: int) -> ConfigurationError:
    return ConfigurationError(
        f"the collected rows are too large for the driver: {size_bytes / MIB:.0f} MiB, but its "
        f"JVM accepts {limit_bytes / MIB:.0f} MiB",
        hint="write them to files, as with .sink_to(rh.files.sink(...)), or collect fewer; or give "
        "Spark's driver more memory, since an eighth of it may be collected: "
        "spark.driver.memory, through PYSPARK_SUBMIT_ARGS='--driver-memory 8g pyspark-shell' "
        "for a session that Rheos creates",
    )


class Results:
    """The driver's side: compares the promised pieces with those that have arrived."""

    def __init__(self, handed: PlanWithHandedRows, limit_bytes: int) -> None:
        self._handed = handed
        self._sinks = handed.sinks
        self._limit_bytes = limit_bytes
        self._promised: dict[OperatorId, Handed] = {}

    def collects(self, chain: Chain) -> bool:
        return bool(self._handed.of(chain))

    def promised(self, note: Handed) -> None:
        """Add a task's report of collected rows. Raise ConfigurationError if the total is too large."""
        before = self._promised.get(note.operator)
        self._promised[note.operator] = note if before is None else before.plus(note)
        total_bytes = sum(each.size_bytes for each in self._promised.values())
        if total_bytes > self._limit_bytes:
            largest = max(self._promised.values(), key=lambda each: each.size_bytes).operator
            at = next(sink for sink in self._sinks.values() if sink.id == largest)
            raise too_large(total_bytes, self._limit_bytes).located(site=at.site, operator=at.name)

    def ports(self) -> list[int]:
        """Return the ports by which rows are still to arrive."""
        return [port for port, sink in self._sinks.items() if sink.id in self._promised]

    def tables(self, rows: Iterable[tuple[int, bytes]]) -> dict[OperatorId, pa.Table]:
        """Return the rows of every sink, from pieces with their ports. Raise JobFailedError if they
        differ from those that were promised."""
        batches: dict[OperatorId, list[pa.RecordBatch]] = {sink.id: [] for sink in self._sinks.values()}
        came: dict[OperatorId, Handed] = {}
        for port, payload in rows:
            sink = self._sinks[port].id
            piece = table_of(payload)
            batches[sink] += piece.to_batches()
            handed = Handed(operator=sink, pieces=1, rows=piece.num_rows, size_bytes=len(payload))
            came[sink] = came[sink].plus(handed) if sink in came else handed
        if came != self._promised:
            raise JobFailedError(
                f"the driver did not receive all collected rows: {_counts_text(came)} of "
                f"{_counts_text(self._promised)} arrived",
                hint="Spark recomputed tasks after their input had changed: run the job again",
            )
        return {
            sink.id: pa.Table.from_batches(batches[sink.id], schema=visible(sink.ports[0].schema))
            for sink in self._sinks.values()
        }


def _counts_text(handed: Mapping[OperatorId, Handed]) -> str:
    counts = [f"{each.rows} rows ({each.size_bytes} bytes) of {id}" for id, each in handed.items()]
    return ", ".join(counts) or "nothing"
