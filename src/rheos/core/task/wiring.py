"""Builds the chains of one subtask, and connects them to its channels.

Each host of a whole plan uses it: the engine of a slot, and the driver that runs a plan in one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from rheos.core.operators.contract import Restored
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, Edge, PhysicalPlan, PlannedOperator
from rheos.core.protocol.ids import Attempt, ChainId, ChannelId, OperatorId
from rheos.core.protocol.ports import Clock, Transport
from rheos.core.protocol.snapshots import IN_FLIGHT_INPUT, IN_FLIGHT_OUTPUT
from rheos.core.task.chain import ChainParts, ChainRunner
from rheos.core.task.config import Guarantee, TaskConfig
from rheos.core.task.in_flight_rows import InFlight, restored_batches, without_in_flight
from rheos.core.task.input_chain import AheadChain, HoldingChain, InputChain, LoopHeadChain
from rheos.core.task.inputs import InputGate
from rheos.core.task.latency import LatencyMarkers
from rheos.core.task.loop_room import LoopRoom
from rheos.core.task.outputs import OutputEdge, Outputs
from rheos.core.task.source_chain import SourceChain
from rheos.core.task.tree import OperatorTree

MakeTree: TypeAlias = Callable[[Chain, Outputs], OperatorTree[None]]
"""Function that creates the operators of a chain, not open yet, with the outputs for their rows."""


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """The parts that all chains of one subtask share."""

    plan: PhysicalPlan
    subtask: int
    attempt: Attempt
    config: TaskConfig
    buffers: TaskConfig
    """Sizes and timeouts of the output buffers."""
    transport: Transport
    clock: Clock
    make_tree: MakeTree
    _rooms: dict[ChainId, LoopRoom] = field(default_factory=dict, init=False)

    def chains(self) -> list[ChainRunner]:
        """Return the subtask of every chain, in the order of the plan. Raise the RheosError of an
        operator that cannot be created."""
        edges = {edge.id: edge for edge in self.plan.edges}
        return [self._chain(chain, edges) for chain in self.plan.chains]

    def _chain(self, chain: Chain, edges: Mapping[int, Edge]) -> ChainRunner:
        heads = {other.id: other.operators[0] for other in self.plan.chains}
        channels = [
            (ChannelId(edge.id, sender, self.subtask), edge.target_port)
            for edge in (edges[id] for id in chain.inputs)
            for sender in edge.peers(self.subtask, self.plan.parallelism)
        ]
        outputs = self._outputs(chain, heads, polls=not channels)
        sources = {id: head.id for id, head in heads.items() if isinstance(head.spec, SourceSpec)}
        markers_us = self.config.marker_interval_us or self.config.progress_interval_us
        latency = LatencyMarkers(chain, sources, self.clock, markers_us)
        tree = self.make_tree(chain, outputs)
        head = heads[chain.id]
        config = self.config
        if head.spec.aligns or outputs.aligns:
            config = replace(config, unaligned_after_us=None)
        parts = ChainParts(tree, outputs, self.clock, self.attempt, config, latency)
        if isinstance(head.spec, SourceSpec):
            return SourceChain(parts, bounded=head.spec.source.bounded)
        gate = InputGate(
            channels,
            self.clock.monotonic_us,
            blocking=self.config.guarantee is Guarantee.EXACTLY_ONCE,
            untimed=_untimed(head),
            feedback=[edge.id for edge in self.plan.edges if edge.feedback],
            cycle=[edge.id for edge in self.plan.edges if edge.loop is not None],
        )
        release = self.transport.release
        loops = [loop for id in chain.inputs if (loop := edges[id].loop) is not None]
        if tree.holder is not None:
            assert not loops, "SE6: the program was validated when it was built"
            return HoldingChain(parts, gate, release, tree.holder)
        if gate.of_loop:
            self._rooms[chain.id] = LoopRoom(head, gate, self.config.batch_rows)
            return LoopHeadChain(parts, gate, release, self._rooms[loops[0]])
        # A loop's head is built before its body.
        room = self._rooms[loops[0]] if loops else None
        return (AheadChain if tree.works_ahead else InputChain)(parts, gate, release, room)

    def _outputs(
        self, chain: Chain, heads: Mapping[ChainId, PlannedOperator], *, polls: bool
    ) -> Outputs:
        sending = {
            edge.id: OutputEdge(
                edge,
                self.subtask,
                self.plan.parallelism,
                self.plan.width(edge.source),
                self.plan.width(edge.target),
                self.plan.max_parallelism,
                self.buffers,
                self.transport,
                self.clock,
                polls=polls,
                ahead=heads[edge.target].is_asynchronous,
            )
            for edge in self.plan.edges
            if edge.source == chain.id
        }
        readers = {edge.id: heads[edge.target] for edge in self.plan.edges if edge.id in sending}
        return Outputs(sending, readers)


def _untimed(head: PlannedOperator) -> list[int]:
    """Return the ports without event time, if others have it."""
    untimed = [number for number, port in enumerate(head.ports) if not port.type.event_time]
    return untimed if len(untimed) < len(head.ports) else []


def open_chain(chain: ChainRunner, restored: Mapping[OperatorId, Restored]) -> None:
    """Open the operators of the chain with their restored state, without the rows in flight. Raise the
    RheosError of an operator that fails."""
    ids = [planned.id for planned in chain.chain.operators]
    chain.open({id: without_in_flight(restored[id]) for id in ids if id in restored})


def restore_in_flight(
    chain: ChainRunner, restored: Mapping[OperatorId, Restored], batch_rows: int
) -> None:
    """Pass the rows that were in flight to the operators of an open chain."""
    # Rows that were further downstream go first, even if a changed program has merged two chains.
    for planned in reversed(chain.chain.operators):
        for prefix in (IN_FLIGHT_INPUT, IN_FLIGHT_OUTPUT):
            chain.restore(_in_flight(planned, restored.get(planned.id, {}), prefix, batch_rows))


def _in_flight(
    planned: PlannedOperator, restored: Restored, prefix: str, batch_rows: int
) -> Iterator[InFlight]:
    for port, batch in restored_batches(planned, restored, prefix, batch_rows):
        yield InFlight.to(planned, port, [batch], sent=prefix == IN_FLIGHT_INPUT)
