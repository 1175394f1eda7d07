"""One side of a fork: a program that goes on from a checkpoint, over taped input, in a simulated world.

Its sinks are replaced before anything is opened: what they would have been given is collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rheos.connectors.collect import CollectSink
from rheos.core.checkpoint.as_savepoint import CopiedCheckpoint
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.upgrade import NOTHING_ALLOWED, Upgrade
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.core.protocol.ids import ChainId, OperatorId
from rheos.ops.forks.tape import Tape, TapedSource
from rheos.ops.forks.taped_run import state_backend
from rheos.runtimes.job import JobConfig
from rheos.runtimes.simulated.requests import Requests
from rheos.runtimes.simulated.world import World

_WINDOW = ("window_start", "window_end")


@dataclass(frozen=True)
class SinkOutput:
    """The rows that a side's sink would have received."""

    name: str
    key: tuple[str, ...]
    """The columns that identify its rows: the last key before the sink, and the ends of windows. Empty
    if its rows have no key."""
    rows: pa.Table


def run_side(
    plan: PhysicalPlan,
    checkpoint: CopiedCheckpoint,
    tapes: Mapping[OperatorId, Tape],
    upgrade: Upgrade = NOTHING_ALLOWED,
) -> dict[OperatorId, SinkOutput]:
    """The outputs, by sink. `tapes` has one for each source of the plan.

    Raises CheckpointError where the checkpoint does not fit the program, and what the program raises.
    """
    result = world_of(_taped(plan, tapes), checkpoint, upgrade).run()
    return {
        sink.id: SinkOutput(sink.name, _key(plan, chain, rows.column_names), rows)
        for chain in plan.chains
        for sink in _sinks(chain)
        for rows in [result.collected[sink.id]]
    }


def world_of(plan: PhysicalPlan, checkpoint: CopiedCheckpoint, upgrade: Upgrade) -> World:
    """A world in which the plan, whose sources are tapes, goes on from the checkpoint until they are
    read."""
    folder = checkpoint.savepoint.id
    config = JobConfig(
        job=checkpoint.savepoint.job,
        checkpoint=CheckpointConfig(interval_ms=None),
        from_savepoint=folder,
        allow_dropped=upgrade.allow_dropped,
        state=replace(state_backend(checkpoint), new_aggregates=upgrade.new_aggregates),
        history=None,
        until_now=True,
    )
    return World(
        plan,
        config,
        seed=0,
        # It stops once the tapes are read, and is not started again.
        requests=Requests(leave=1.0),
        files={f"{folder}/{path}": data for path, data in checkpoint.files.items()},
        max_turns=None,
    )


def _sinks(chain: Chain) -> list[PlannedOperator]:
    return [planned for planned in chain.operators if isinstance(planned.spec, SinkSpec)]


def _taped(plan: PhysicalPlan, tapes: Mapping[OperatorId, Tape]) -> PhysicalPlan:
    """The plan in one subtask, so that rows come in one order, between tapes and collecting sinks."""

    def changed(planned: PlannedOperator) -> PlannedOperator:
        if isinstance(planned.spec, SourceSpec):
            source = TapedSource(planned.spec.source, tapes[planned.id])
            return replace(planned, spec=replace(planned.spec, source=source))
        if isinstance(planned.spec, SinkSpec):
            # Collected rows are identified by the sink's name, and names need not be unique.
            return replace(planned, name=planned.id, spec=SinkSpec(CollectSink()))
        return planned

    chains = [
        replace(chain, operators=tuple(changed(planned) for planned in chain.operators))
        for chain in plan.chains
    ]
    return replace(plan, chains=tuple(chains), parallelism=1)


def _key(plan: PhysicalPlan, chain: Chain, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that identify the rows of a chain; empty if they have no single key."""
    found = _keys_before(plan, chain.id)
    if len(found) != 1:
        return ()
    (keys,) = found
    known = (*keys, *(name for name in _WINDOW if name not in keys and name in columns))
    return known if all(name in columns for name in known) else ()


def _keys_before(plan: PhysicalPlan, chain: ChainId) -> set[tuple[str, ...]]:
    """The keys of the last shuffles before the chain, one for each way that rows come."""
    found: set[tuple[str, ...]] = set()
    for edge in plan.edges:
        if edge.target == chain and not edge.feedback:
            found |= {edge.keys} if edge.keys else _keys_before(plan, edge.source)
    return found
