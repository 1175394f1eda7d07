"""The rows that a job's collect sinks have gathered."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.connectors.sink_capabilities import CollectsRows
from rheos.core.errors import ConfigurationError
from rheos.core.known_names import NamedItems, unknown_key
from rheos.core.operators.sink import SinkSpec
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import visible
from rheos.core.protocol.ids import JobId, OperatorId

NO_RESULT = "the job has no collected result"
"""Start of the error for an unknown name."""


class CollectedResults:
    """The rows of collect sinks, from the committables that completed checkpoints list, each once."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._sinks: Mapping[OperatorId, tuple[PlannedOperator, CollectsRows]] = {
            planned.id: (planned, planned.spec.sink)
            for planned in plan.operators()
            if isinstance(planned.spec, SinkSpec) and isinstance(planned.spec.sink, CollectsRows)
        }
        self._payloads: dict[OperatorId, dict[bytes, None]] = {id: {} for id in self._sinks}
        self._listed: set[tuple[OperatorId, bytes]] = set()
        """Committables that the last checkpoint lists."""
        self._lock = threading.Lock()

    def add(self, checkpoint: CheckpointCompleted) -> None:
        listed = {
            (handle.operator, handle.payload): None
            for handle in checkpoint.committables
            if handle.operator in self._payloads
        }
        with self._lock:
            for operator, payload in listed:
                # Until its commit is known, each later checkpoint lists the same committable again.
                if (operator, payload) not in self._listed:
                    self._payloads[operator][payload] = None
            self._listed = {*listed}

    def take(self) -> NamedItems[pa.Table]:
        """Return the rows since the last call. Any thread may call it."""
        with self._lock:
            tables = self.tables()
            self._payloads = {id: {} for id in self._sinks}
        return tables

    def names(self) -> list[str]:
        return [planned.name for planned, _ in self._sinks.values()]

    def tables(self) -> NamedItems[pa.Table]:
        tables = {}
        for id, (planned, sink) in self._sinks.items():
            table = sink.collected(self._payloads[id])
            tables[planned.name] = (
                visible(planned.ports[0].schema).empty_table() if table is None else table
            )
        return NamedItems(NO_RESULT, tables)


class EarlierResults(Mapping[str, pa.Table]):
    """The results of a job that had already finished when this run started: an earlier run received the
    rows. An empty table would suggest that there were none, so access raises an error."""

    def __init__(self, job: JobId, names: Sequence[str]) -> None:
        self._job = job
        self._names = names

    def __getitem__(self, name: str) -> pa.Table:
        """Raise ConfigurationError, or UnknownKeyError if there is no such sink."""
        if name not in self._names:
            raise unknown_key(NO_RESULT, name, self._names)
        raise ConfigurationError(
            f"the job {self._job!r} has already finished, and its earlier run received the rows "
            f"collected as {name!r}",
            hint="check `status.finished_before` first; to run the job again, use another name or "
            "checkpoint directory, or write to files",
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
