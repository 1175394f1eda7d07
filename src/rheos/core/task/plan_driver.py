"""Runs a whole plan in the calling thread, one element at a time: for harnesses, replays and replicas.

The chains are the same as in a job: the same classes choose the next element, merge watermarks, mark
idle inputs, run loops and end. Only three things differ. Each operator has one subtask. Elements pass
through one queue, in the order in which they were sent, and each is processed before the next is
delivered. And the caller decides when a source reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from rheos.core.operators.contract import Restored
from rheos.core.plan.physical import Chain, Exchange, PhysicalPlan
from rheos.core.protocol.elements import Batch, Element, Mark
from rheos.core.protocol.ids import Attempt, ChainId, ChannelId, CheckpointId, OperatorId
from rheos.core.protocol.ports import Clock
from rheos.core.protocol.snapshots import Snapshot
from rheos.core.task.chain import ChainRunner
from rheos.core.task.closing import close_each
from rheos.core.task.config import TaskConfig
from rheos.core.task.input_chain import InputChain
from rheos.core.task.outputs import Outputs
from rheos.core.task.source_chain import SourceChain
from rheos.core.task.traffic import RunOutcome
from rheos.core.task.tree import OperatorTree
from rheos.core.task.wiring import MakeTree, Wiring, open_chain, restore_in_flight

_UNBUFFERED = TaskConfig(batch_rows=1, buffer_timeout_us=0)
"""Configuration of buffers that are full with their first row, so that each batch is sent as it was
written."""


class PlanDriver:
    """One subtask of every chain of a plan. The caller must close it."""

    def __init__(
        self,
        plan: PhysicalPlan,
        *,
        attempt: Attempt,
        clock: Clock,
        make_tree: MakeTree,
        batch_rows: int,
        delivers: Callable[[Batch], None] | None = None,
    ) -> None:
        """Create the chains. Raise the RheosError of an operator that cannot be created.

        Args:
            plan: the plan; its parallelism does not matter.
            attempt: number of the attempt in barriers.
            clock: clock that decides which processing-time timers are due.
            make_tree: function that creates the operators of a chain. An asynchronous operator only
                works in a tree that may wait (`wait_for`).
            batch_rows: maximum number of rows per poll of a source.
            delivers: function that is called with each batch before another chain processes it.
        """
        self._delivers = delivers
        self._clock = clock
        self._batch_rows = batch_rows
        self._queue = _Queue()
        self._make_tree = make_tree
        self._trees: dict[ChainId, OperatorTree[None]] = {}
        wiring = Wiring(
            plan=_in_one_subtask(plan),
            subtask=0,
            attempt=attempt,
            config=TaskConfig(batch_rows=batch_rows, rests=False),
            buffers=_UNBUFFERED,
            transport=self._queue,
            clock=clock,
            make_tree=self._tree,
        )
        self._chains = wiring.chains()
        inputs = [chain for chain in self._chains if isinstance(chain, InputChain)]
        self._receivers = {edge: chain for chain in inputs for edge in chain.chain.inputs}
        self.sources = {
            chain.chain.id: chain for chain in self._chains if isinstance(chain, SourceChain)
        }
        """Chains that begin with a source."""

    def _tree(self, chain: Chain, outputs: Outputs) -> OperatorTree[None]:
        tree = self._trees[chain.id] = self._make_tree(chain, outputs)
        return tree

    def open(self, restored: Mapping[OperatorId, Restored]) -> None:
        """Open every operator with its restored state, and process the rows that were in flight. Called
        once, first. Raise the RheosError of an operator that fails."""
        for chain in self._chains:
            open_chain(chain, restored)
        for chain in self._chains:
            restore_in_flight(chain, restored, self._batch_rows)
            while chain.restoring:
                self._run(chain)
            self._deliver()

    # --- progress ---------------------------------------------------------------------------------

    def poll(self, source: ChainId) -> bool:
        """Let a source read once, and process what it returned. Return whether it returned rows,
        announced event time or ended."""
        worked = self._run(self.sources[source]).worked
        self._deliver()
        return worked

    def next_timer_ms(self) -> int | None:
        """Return when the next processing-time timer is due."""
        times = (chain.next_timer_ms() for chain in self._chains)
        return min((time for time in times if time is not None), default=None)

    def fire_timers(self) -> None:
        """Fire the processing-time timers that are due, and process what they emit."""
        for chain in self._chains:
            while (due_ms := chain.next_timer_ms()) is not None and due_ms <= self._clock.now_ms():
                self._run(chain)
            self._deliver()

    def _deliver(self) -> None:
        """Deliver all sent elements, until none is left."""
        while self._queue.sent:
            channel, element = self._queue.sent.popleft()
            chain = self._receivers[channel.edge]
            if self._delivers is not None and isinstance(element, pa.RecordBatch):
                self._delivers(element)
            chain.gate.offer(channel, element)
            while self._run(chain) is RunOutcome.WORKED:
                pass

    @staticmethod
    def _run(chain: ChainRunner) -> RunOutcome:
        ran = chain.run()
        assert not ran.blocked, "a chain waits for credit, and the queue has no bound"
        return ran

    # --- state ------------------------------------------------------------------------------------

    def snapshot(self, checkpoint: CheckpointId) -> list[tuple[OperatorId, Snapshot]]:
        """Return a snapshot of every operator."""
        trees = self._trees.values()
        return [each for tree in trees for each in tree.snapshot(checkpoint, savepoint=False).snapshots]

    def close(self) -> None:
        """Close every operator, even if another one fails. Raise the first error."""
        close_each(chain.close for chain in self._chains)


def _in_one_subtask(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan at parallelism 1, where all rows of an edge go to the same subtask."""
    edges = tuple(replace(edge, exchange=Exchange.FORWARD) for edge in plan.edges)
    return replace(plan, parallelism=1, edges=edges)


class _Queue:
    """A transport within one thread: sent elements wait in one queue."""

    def __init__(self) -> None:
        self.sent: deque[tuple[ChannelId, Element]] = deque()

    def credits(self, channel: ChannelId) -> int:
        return 1

    def send(self, channel: ChannelId, batch: Batch) -> None:
        self.sent.append((channel, batch))

    def send_mark(self, channel: ChannelId, mark: Mark) -> None:
        self.sent.append((channel, mark))

    def receive(self, max_elements: int) -> Sequence[tuple[ChannelId, Element]]:
        return ()

    def strangers(self) -> int:
        return 0

    def release(self, channel: ChannelId) -> None:
        pass
