"""Which barrier a chain takes next, and when it must not wait any longer."""

from __future__ import annotations

import pyarrow as pa

from rheos.core.protocol.elements import Barrier, BarrierKind, End
from rheos.core.protocol.ids import Attempt, ChannelId, CheckpointId
from rheos.core.task.barriers import ArrivingBarriers, TriggeredBarriers
from rheos.core.task.config import Guarantee, TaskConfig
from rheos.core.task.inputs import Arrival, InputGate
from rheos.runtimes.simulated.clock import SimClock

A, B = ChannelId(0, 0, 0), ChannelId(0, 1, 0)


def barrier(checkpoint: int, kind: BarrierKind = BarrierKind.CHECKPOINT) -> Barrier:
    return Barrier(CheckpointId(checkpoint), Attempt(1), kind)


class _Chain:
    def __init__(
        self,
        patience_us: int | None,
        *,
        source: bool = False,
        guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
    ) -> None:
        self.clock = SimClock()
        self.gate = InputGate([(A, 0), (B, 0)], self.clock.monotonic_us)
        config = TaskConfig(unaligned_after_us=patience_us, guarantee=guarantee)
        self.barriers = (
            TriggeredBarriers(self.clock, config)
            if source
            else ArrivingBarriers(self.gate, self.clock, config)
        )

    @property
    def overdue(self) -> int | None:
        arrival = self.barriers.overdue()
        return None if arrival is None else arrival.barrier.checkpoint


def test_a_barrier_waits_up_to_the_timeout_from_its_arrival() -> None:
    chain = _Chain(100)
    chain.clock.advance(5)
    chain.gate.offer(A, barrier(1))
    assert chain.overdue is None
    assert chain.barriers.next_overdue_us() == 105
    chain.clock.advance(99)
    assert chain.overdue is None
    chain.clock.advance(1)
    assert chain.overdue == 1
    chain.barriers.taken(CheckpointId(1))
    assert chain.overdue is None
    assert chain.barriers.next_overdue_us() is None


def test_the_earliest_checkpoint_goes_first_and_aborted_ones_never() -> None:
    chain = _Chain(0)
    chain.gate.offer(A, barrier(1))
    chain.gate.offer(A, barrier(2))
    assert chain.overdue == 1
    chain.barriers.abort(CheckpointId(1))
    assert chain.overdue == 2


def test_a_source_follows_the_masters_message() -> None:
    chain = _Chain(100, source=True)
    chain.barriers.trigger(barrier(1))
    chain.barriers.trigger(barrier(2))
    triggered = chain.barriers.next_triggered()
    assert triggered is not None
    assert triggered.barrier.checkpoint == 1
    chain.clock.advance(100)
    assert chain.overdue == 1
    chain.barriers.taken(CheckpointId(1))
    assert chain.overdue == 2


def test_a_chain_with_inputs_waits_for_barriers_unless_none_can_come() -> None:
    chain = _Chain(0)
    chain.barriers.trigger(barrier(1))
    assert chain.barriers.next_triggered() is None
    chain.gate.offer(A, pa.record_batch({"v": [1]}))
    chain.gate.offer(A, End())
    assert chain.overdue is None
    # Both Ends lie in the queues, behind rows: no barrier will come.
    chain.gate.offer(B, End())
    assert chain.overdue == 1


def test_a_savepoint_does_not_overtake_and_is_not_overtaken() -> None:
    chain = _Chain(0)
    chain.gate.offer(A, barrier(1, BarrierKind.SAVEPOINT))
    chain.gate.offer(A, barrier(2))
    assert chain.overdue is None
    # No one is to be woken for it.
    assert chain.barriers.next_overdue_us() is None
    chain.barriers.taken(CheckpointId(1))
    chain.barriers.forwarding = Arrival(barrier(1, BarrierKind.SAVEPOINT), 0)
    assert chain.overdue is None
    assert chain.barriers.next_overdue_us() is None
    chain.barriers.forwarding = None
    assert chain.overdue == 2


def test_a_barrier_that_waits_to_be_sent_is_overdue_by_its_own_time() -> None:
    chain = _Chain(100)
    chain.gate.offer(A, barrier(1))
    arrival = chain.gate.earliest()
    assert arrival is not None
    chain.barriers.taken(CheckpointId(1))
    chain.barriers.forwarding = arrival
    assert chain.barriers.next_overdue_us() == 100
    assert not chain.barriers.is_overdue(arrival)
    chain.clock.advance(100)
    assert chain.barriers.is_overdue(arrival)


def test_without_timeout_or_guarantee_nothing_overtakes() -> None:
    for chain in (_Chain(None), _Chain(0, guarantee=Guarantee.AT_LEAST_ONCE)):
        chain.gate.offer(A, barrier(1))
        chain.clock.advance(10_000_000)
        assert chain.overdue is None
        assert chain.barriers.next_overdue_us() is None
