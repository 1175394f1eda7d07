"""What the collect sinks of a job have gathered."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rheos.checkpoint.log_entries import CheckpointCompleted
from rheos.connectors.collect import CollectSink, collected
from rheos.graph.nodes import SinkSpec
from rheos.plan.physical import PhysicalPlan, PlannedOperator
from rheos.protocol.elements import visible
from rheos.protocol.ids import OperatorId


class Collected:
    """The rows of collect sinks: what the completed checkpoints have listed, each once."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._sinks: Mapping[OperatorId, PlannedOperator] = {
            planned.id: planned
            for planned in plan.operators()
            if isinstance(planned.spec, SinkSpec) and isinstance(planned.spec.sink, CollectSink)
        }
        self._payloads: dict[OperatorId, dict[bytes, None]] = {id: {} for id in self._sinks}

    def add(self, checkpoint: CheckpointCompleted) -> None:
        for handle in checkpoint.committables:
            if handle.operator in self._payloads:
                # Until its commit is known, a checkpoint lists again what one before it listed.
                self._payloads[handle.operator][handle.payload] = None

    def tables(self) -> dict[str, pa.Table]:
        tables = {}
        for id, planned in self._sinks.items():
            table = collected(self._payloads[id])
            tables[planned.name] = (
                visible(planned.ports[0].schema).empty_table() if table is None else table
            )
        return tables
