"""Measurements of jobs whose costs are known, for tests of the planner."""

from __future__ import annotations

from collections.abc import Sequence

from rheos.core.task.config import TaskConfig
from rheos.ops.planning.measurement import (
    ChainLoad,
    CostedChain,
    EdgeLoad,
    ExchangedEdge,
    Measurement,
    OperatorState,
    Phase,
)

SOURCE_US, KEYED_US, REMOTE_US, BATCH_US, SEND_US = 0.5, 1.5, 0.25, 200.0, 50.0
ROW_BYTES = 24.0
CHAINS = (
    CostedChain(0, ("numbers",), "job.py:5"),
    CostedChain(1, ("count", "out"), "job.py:7", keyed=True),
)
EDGES = (ExchangedEdge(0, 0, 1, remote=True),)


def phase(slots: int, batch_rows: int, rows: float = 4_000_000.0) -> Phase:
    """A phase of a job that groups: a source, a hash exchange and a keyed chain, at full load."""
    full = max(batch_rows / slots, TaskConfig(batch_rows=batch_rows).full_rows(slots))
    elements = rows / full
    remote = rows * (slots - 1) / slots
    source_us = (
        SOURCE_US * rows + REMOTE_US * remote + BATCH_US * rows / batch_rows + SEND_US * elements
    )
    keyed_us = KEYED_US * rows + REMOTE_US * remote + BATCH_US * elements
    return Phase(
        parallelism=slots,
        batch_rows=batch_rows,
        seconds=4.0,
        source_rows=rows,
        chains=(ChainLoad(0, rows, source_us), ChainLoad(1, rows, keyed_us)),
        edges=(EdgeLoad(0, rows, elements, rows * ROW_BYTES),),
    )


def grouping(
    phases: Sequence[Phase] | None = None,
    *,
    heaviest: float | None = 0.001,
    states: Sequence[OperatorState] = (OperatorState("count", 10e6, 100_000.0),),
    chains: Sequence[CostedChain] = CHAINS,
    max_parallelism: int = 128,
    on_disk: bool = False,
) -> Measurement:
    """The measurement of that job."""
    if phases is None:
        phases = [phase(slots, rows) for slots in (1, 2, 4) for rows in (16_384, 1_024)]
    return Measurement(
        job="grouping",
        chains=tuple(chains),
        edges=EDGES,
        phases=tuple(phases),
        states=tuple(states),
        heaviest_key_share=heaviest,
        worker_memory_bytes=200e6,
        max_parallelism=max_parallelism,
        state_on_disk=on_disk,
    )
