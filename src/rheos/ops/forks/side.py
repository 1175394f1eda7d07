"""One side of a comparison: a program that continues from a checkpoint, over taped input.

Its sinks only collect. To find where two programs begin to differ, all other operators can be observed
too: a collecting sink then reads each of their outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rheos.connectors.collect import CollectSink
from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.upgrade import NOTHING_ALLOWED, Upgrade
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import PortType
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator, ToOperator
from rheos.core.protocol.ids import ChainId, OperatorId
from rheos.ops.forks.tape import Tape, TapedSource, state_backend
from rheos.runtimes.job import JobConfig
from rheos.runtimes.simulated.faults import Requests
from rheos.runtimes.simulated.world import World

_WINDOW = ("window_start", "window_end")


@dataclass(frozen=True)
class CollectedOutput:
    """The rows of one output: those that a sink would have received, or those that an operator
    emitted."""

    of: PlannedOperator
    key: tuple[str, ...]
    """Columns that identify its rows: the last key upstream of it, and the ends of windows. Empty if
    its rows have no key."""
    rows: pa.Table


Tapes = Mapping[OperatorId, Tape]


def run_side(
    plan: PhysicalPlan, checkpoint: CopiedCheckpoint, tapes: Tapes, upgrade: Upgrade = NOTHING_ALLOWED
) -> dict[OperatorId, CollectedOutput]:
    """Return the outputs of the sinks, by sink. `tapes` has one for each source of the plan. Raise
    CheckpointError if the checkpoint does not fit the program, and the program's own errors."""
    collected = world_of(_taped(plan, tapes), checkpoint, upgrade).run().collected
    return {
        sink.id: CollectedOutput(sink, _key_of(plan, chain, rows.column_names), rows)
        for chain in plan.chains
        for sink in chain.operators
        if isinstance(sink.spec, SinkSpec)
        for rows in [collected[sink.id]]
    }


ObservedOutputs = Mapping[tuple[OperatorId, str], CollectedOutput]
"""Rows by operator and tag, each operator after those whose rows it receives."""


def observe_side(
    plan: PhysicalPlan, checkpoint: CopiedCheckpoint, tapes: Tapes, upgrade: Upgrade = NOTHING_ALLOWED
) -> ObservedOutputs:
    """Return the rows that operators emit and sinks receive. The arguments and errors are those of
    `run_side`."""
    collected = world_of(_observed(_taped(plan, tapes)), checkpoint, upgrade).run().collected
    return {
        (planned.id, tag): CollectedOutput(planned, _key_of(plan, chain, rows.column_names), rows)
        for chain in plan.chains
        for planned in chain.operators
        for tag, by in _collectors(planned).items()
        for rows in [collected[by]]
    }


def _collectors(planned: PlannedOperator) -> dict[str, OperatorId]:
    """Return the ids of the sinks that collect the operator's rows, by tag."""
    if isinstance(planned.spec, SinkSpec):
        return {MAIN: planned.id}
    return {tag: _observer_id(planned, tag) for tag in planned.outputs}


def world_of(plan: PhysicalPlan, checkpoint: CopiedCheckpoint, upgrade: Upgrade) -> World:
    """Return a world in which the plan, whose sources are tapes, continues from the checkpoint until
    the tapes are read."""
    folder = checkpoint.savepoint.id
    config = JobConfig(
        job=checkpoint.savepoint.job,
        checkpoint=CheckpointConfig(interval_ms=None),
        from_savepoint=folder,
        allow_dropped=upgrade.allow_dropped,
        renamed={str(old): str(new) for old, new in upgrade.renamed.items()},
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


def _taped(plan: PhysicalPlan, tapes: Tapes) -> PhysicalPlan:
    """Return the plan with tapes and collecting sinks, in one subtask, so that rows have one order."""

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


def _observed(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan with a collecting sink at each output of each operator."""
    chains = []
    for chain in plan.chains:
        operators: list[PlannedOperator] = []
        observers: list[PlannedOperator] = []
        for planned in chain.operators:
            routes = dict(planned.routes)
            for observer, tag in _observers(planned):
                at = ToOperator(len(chain.operators) + len(observers))
                routes[tag] = (*routes.get(tag, ()), at)
                observers.append(observer)
            operators.append(replace(planned, routes=routes))
        chains.append(replace(chain, operators=(*operators, *observers)))
    return replace(plan, chains=tuple(chains))


def _observers(planned: PlannedOperator) -> Iterator[tuple[PlannedOperator, str]]:
    for tag, output in planned.outputs.items():
        id = _observer_id(planned, tag)
        port = PortType(output.type, (), output.schema)
        spec = SinkSpec(CollectSink())
        yield PlannedOperator(id, id, planned.site, spec, (port,), {}, {}), tag


def _observer_id(planned: PlannedOperator, tag: str) -> OperatorId:
    return OperatorId(f"{planned.id}.{tag}.observed")


def _key_of(plan: PhysicalPlan, chain: Chain, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that identify the rows of a chain; empty if they have no single key."""
    found = _keys_before(plan, chain.id)
    if len(found) != 1:
        return ()
    (keys,) = found
    known = (*keys, *(name for name in _WINDOW if name not in keys and name in columns))
    return known if all(name in columns for name in known) else ()


def _keys_before(plan: PhysicalPlan, chain: ChainId) -> set[tuple[str, ...]]:
    """Return the keys of the last shuffles upstream of the chain, one for each path."""
    found: set[tuple[str, ...]] = set()
    for edge in plan.edges:
        if edge.target == chain and not edge.feedback:
            found |= {edge.keys} if edge.keys else _keys_before(plan, edge.source)
    return found
