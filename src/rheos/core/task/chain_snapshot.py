"""One chain's share of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rheos.core.protocol.control import Cost, Totals
from rheos.core.protocol.elements import BarrierKind
from rheos.core.protocol.ids import ChainId, CheckpointId, OperatorId
from rheos.core.protocol.snapshots import PartMode, Snapshot, SnapshotPart
from rheos.core.task.in_flight_rows import InFlight
from rheos.core.task.inputs import RecordedRows


@dataclass(slots=True)
class ChainSnapshot:
    """One chain's share of a checkpoint. The engine receives it when the snapshot is taken. It is
    complete when the barrier has been forwarded and all rows that the barrier overtook are known."""

    chain: ChainId
    checkpoint: CheckpointId
    kind: BarrierKind
    snapshots: Sequence[tuple[OperatorId, Snapshot]]
    savepoint: Sequence[tuple[OperatorId, Sequence[SnapshotPart]]]
    """Whole state, if the checkpoint is a savepoint."""
    totals: Totals
    """Totals of the operators at the barrier."""
    sync_us: int
    """Duration of the synchronous part."""
    since_us: int
    """Time at which the first barrier arrived."""
    aligned_us: int
    """Time at which the snapshot was taken."""
    forwarded: bool = False
    """Whether the barrier has been forwarded."""
    overtaken: Sequence[InFlight] = ()
    """Rows in the outputs that the barrier has overtaken, and unprocessed restored rows."""
    recording: RecordedRows | None = None
    """RecordedRows of the rows at the chain's input that the barrier has overtaken."""
    ports: Sequence[InFlight] = ()
    """Receivers of the recorded rows, by port; without the rows."""

    @property
    def complete(self) -> bool:
        return self.forwarded and (self.recording is None or self.recording.complete)

    @property
    def has_deltas(self) -> bool:
        """Return whether it contains only the changes since the chain's previous snapshot."""
        return any(
            part.mode is PartMode.DELTA for _, snapshot in self.snapshots for part in snapshot.parts
        )

    def in_flight(self) -> list[InFlight]:
        """Return all rows that the barrier has overtaken, in order per channel. Valid once complete."""
        found = list(self.overtaken)
        if self.recording is not None:
            by_port: list[list[pa.RecordBatch]] = [[] for _ in self.ports]
            for port, batch in self.recording.batches:
                by_port[port].append(batch)
            found += [
                replace(port, batches=rows)
                for port, rows in zip(self.ports, by_port, strict=True)
                if rows
            ]
        return found

    def cost(self, in_flight: Sequence[InFlight]) -> Cost:
        ended_us = self.aligned_us
        if self.recording is not None and self.recording.ended_us is not None:
            ended_us = self.recording.ended_us
        return Cost(
            sync_us=self.sync_us,
            align_us=max(ended_us - self.since_us, 0),
            in_flight_bytes=sum(rows.size_bytes for rows in in_flight),
            unaligned=self.recording is not None or bool(self.overtaken),
        )
