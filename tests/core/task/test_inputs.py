"""Alignment and merging of watermarks at a chain's input, as timelines."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.protocol.elements import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    SWM,
    Active,
    Barrier,
    BarrierKind,
    Element,
    End,
    Idle,
    WatermarkMark,
)
from rheos.core.protocol.ids import Attempt, ChannelId, CheckpointId
from rheos.core.task.inputs import GateEvent, InputGate, RecordedRows

A, B, C = (ChannelId(0, sender, 0) for sender in range(3))


def barrier(checkpoint: int, kind: BarrierKind = BarrierKind.CHECKPOINT) -> Barrier:
    return Barrier(CheckpointId(checkpoint), Attempt(1), kind)


def row(value: int) -> pa.RecordBatch:
    return pa.record_batch({"v": [value]})


class DecisionLog:
    """Passes events to a gate and records its output: rows as numbers, marks as their events."""

    def __init__(self, *, blocking: bool = True) -> None:
        self.now_us = 0
        self.gate = InputGate([(A, 0), (B, 0)], lambda: self.now_us, blocking=blocking)
        self.taken: list[int] = []

    def offer(self, channel: ChannelId, *elements: Element) -> None:
        for element in elements:
            self.gate.offer(channel, element)

    def drain(self) -> list[object]:
        seen: list[object] = []
        while (taken := self.gate.take()) is not None:
            channel, element = taken
            if isinstance(element, pa.RecordBatch):
                seen.append(element.column(0)[0].as_py())
                continue
            for event in self.gate.interpret(channel, element):
                seen.append(event)
                if event is GateEvent.ALIGNED:
                    while (arrival := self.gate.aligned()) is not None:
                        self.taken.append(arrival.barrier.checkpoint)
                        self.gate.finish_alignment(arrival.barrier.checkpoint)
        return seen


def test_a_channel_after_its_barrier_waits_for_the_others() -> None:
    decisions = DecisionLog()
    decisions.offer(A, row(1), barrier(1), row(2))
    decisions.offer(B, row(10))
    assert decisions.drain() == [1, 10]
    decisions.offer(B, row(11), barrier(1), row(12))
    assert decisions.drain() == [11, GateEvent.ALIGNED, 2, 12]


def stepping(gate: InputGate, channel: ChannelId, *steps: int) -> None:
    """Offer a row for each step, and then a watermark."""
    for step in steps:
        gate.offer(channel, row(step))
        gate.offer(channel, WatermarkMark(step))


def taken_rows(gate: InputGate, elements: int) -> list[int]:
    """Take this number of elements, and return the rows among them."""
    rows = []
    for _ in range(elements):
        taken = gate.take()
        assert taken is not None
        channel, element = taken
        if isinstance(element, pa.RecordBatch):
            rows.append(element.column(0)[0].as_py())
        else:
            gate.interpret(channel, element)
    return rows


def test_a_channel_that_is_ahead_in_event_time_mostly_lets_the_others_go_first() -> None:
    gate = DecisionLog().gate
    stepping(gate, A, 10, 20, 30)
    stepping(gate, B, 1)
    taken_rows(gate, 8)
    stepping(gate, A, 40, 50, 60)
    stepping(gate, B, 2, 3, 4, 5, 6, 7)
    rows = taken_rows(gate, 10)
    assert [each for each in rows if each >= 40] == [40], "it has one turn of four"
    assert [each for each in rows if each < 10] == [2, 3, 4, 5]


def test_channels_one_step_apart_take_turns() -> None:
    gate = DecisionLog().gate
    stepping(gate, A, 10, 20, 30, 40)
    stepping(gate, B, 11, 21, 31, 41)
    assert taken_rows(gate, 16) == [10, 11, 20, 21, 30, 31, 40, 41]


def test_a_channel_that_is_ahead_is_read_while_the_others_are_empty_or_idle() -> None:
    gate = DecisionLog().gate
    stepping(gate, B, 1)
    stepping(gate, A, 10, 20, 30, 40)
    assert sorted(taken_rows(gate, 10)) == [1, 10, 20, 30, 40]
    gate.offer(B, Idle())
    taken_rows(gate, 1)
    stepping(gate, A, 50)
    stepping(gate, B, 2)
    assert sorted(taken_rows(gate, 3)) == [2, 50]


def test_a_channel_that_is_ahead_takes_turns_while_a_barrier_is_awaited() -> None:
    gate = DecisionLog().gate
    stepping(gate, B, 1)
    stepping(gate, A, 10, 20)
    taken_rows(gate, 6)
    gate.offer(A, row(30))
    gate.offer(A, barrier(1))
    for number in range(8):
        gate.offer(B, row(number))
    assert 30 in taken_rows(gate, 2)


def test_an_ended_channel_counts_as_every_later_barrier() -> None:
    decisions = DecisionLog()
    decisions.offer(A, End())
    decisions.offer(B, row(1), barrier(1), row(2), barrier(2), End())
    assert decisions.drain() == [
        1,
        GateEvent.ALIGNED,
        2,
        GateEvent.ALIGNED,
        GateEvent.WATERMARK,
        GateEvent.ENDED,
    ]
    assert decisions.gate.watermark_ms == MAX_TIMESTAMP_MS


def test_the_end_of_the_last_open_channel_completes_an_alignment() -> None:
    decisions = DecisionLog()
    decisions.offer(A, barrier(3))
    decisions.offer(B, row(1), End())
    assert decisions.drain() == [1, GateEvent.ALIGNED]


def test_a_newer_barrier_abandons_the_older_alignment() -> None:
    decisions = DecisionLog()
    decisions.offer(A, barrier(1), row(1), barrier(2))
    decisions.offer(B, barrier(2))
    # B never brings barrier 1: its checkpoint was given up, and A reads on.
    assert decisions.drain() == [1, GateEvent.ALIGNED]


def test_a_waiting_barrier_is_dropped_once_a_sender_has_aborted() -> None:
    gate = InputGate([(A, 0), (B, 0), (C, 0)], lambda: 0)
    for channel, *elements in (
        (B, barrier(1), End()),
        (A, row(1), barrier(2), End()),
        (C, row(2), row(3), barrier(1), row(4)),
    ):
        for element in elements:
            gate.offer(channel, element)
    seen = []
    while (taken := gate.take()) is not None:
        channel, element = taken
        if isinstance(element, pa.RecordBatch):
            seen.append(element.column(0)[0].as_py())
        else:
            assert gate.interpret(channel, element) == []
    # Nothing is held for 1 any more: B has ended, C is read on behind its barrier.
    assert seen == [1, 2, 3, 4]
    gate.overtake(CheckpointId(2))
    assert gate.take() == (gate.channels[0], End())
    assert gate.interpret(gate.channels[0], End()) == []
    assert gate.aligned() is None


def test_an_ended_channel_among_idle_ones_does_not_end_time() -> None:
    gate = InputGate([(A, 0), (B, 0)], lambda: 0)
    a, b = gate.channels
    assert gate.interpret(a, WatermarkMark(4)) == []
    assert gate.interpret(b, Idle()) == [GateEvent.WATERMARK, GateEvent.ACTIVITY]
    # The end of time comes before the end.
    assert gate.interpret(a, WatermarkMark(MAX_TIMESTAMP_MS)) == [GateEvent.ACTIVITY]
    assert gate.interpret(a, End()) == [GateEvent.ACTIVITY]
    assert gate.idle
    assert gate.interpret(b, Active()) == [GateEvent.ACTIVITY]
    assert gate.interpret(b, WatermarkMark(9)) == [GateEvent.WATERMARK]
    assert gate.watermark_ms == 9
    gate.interpret(b, WatermarkMark(MAX_TIMESTAMP_MS))
    assert gate.watermark_ms == MAX_TIMESTAMP_MS


def test_a_port_without_event_time_does_not_hold_the_watermark() -> None:
    gate = InputGate([(A, 0), (B, 1)], lambda: 0, untimed=[1])
    a, b = gate.channels
    assert gate.interpret(a, WatermarkMark(4)) == [GateEvent.WATERMARK]
    assert gate.interpret(a, Idle()) == [GateEvent.ACTIVITY]
    assert gate.idle
    assert gate.interpret(b, Active()) == [GateEvent.ACTIVITY]
    assert gate.idle, "it has no part in that either"
    assert gate.interpret(a, WatermarkMark(9)) == [GateEvent.ACTIVITY, GateEvent.WATERMARK]
    # No row with event time is to come: time is over, the input is not.
    assert gate.interpret(a, End()) == [GateEvent.WATERMARK]
    assert gate.watermark_ms == MAX_TIMESTAMP_MS
    assert gate.interpret(b, End()) == [GateEvent.ENDED]


def test_watermarks_of_rows_are_merged_with_other_channels() -> None:
    """Check that before each row of a channel, the input has reached that channel's watermark, limited
    by the others."""
    gate = InputGate([(ChannelId(n, 0, 0), 0) for n in range(3)], lambda: 0)
    a, b, c = gate.channels

    def merged(*reached: int) -> list[int]:
        batch = gate.merged(a, pa.record_batch({"n": list(reached), SWM: list(reached)}))
        assert batch.column("n").to_pylist() == list(reached)
        return batch.column(SWM).to_pylist()

    assert merged(5, 7) == [MIN_TIMESTAMP_MS] * 2
    gate.interpret(a, WatermarkMark(4))
    gate.interpret(b, WatermarkMark(10))
    gate.interpret(c, WatermarkMark(20))
    assert merged(5, 7, 6, 12) == [5, 7, 7, 10]
    assert merged(MIN_TIMESTAMP_MS, 5) == [4, 5]
    gate.interpret(b, End())
    assert merged(12, 30) == [12, 20]
    gate.interpret(c, Idle())
    assert merged(12, 30) == [12, 30]
    plain = row(1)
    assert gate.merged(a, plain) is plain


def test_an_aborted_checkpoint_unblocks_and_its_late_barriers_are_dropped() -> None:
    decisions = DecisionLog()
    decisions.offer(A, barrier(1), row(1))
    assert decisions.drain() == []
    decisions.gate.abort(CheckpointId(1))
    assert decisions.drain() == [1]
    decisions.offer(B, barrier(1), row(2))
    assert decisions.drain() == [2]


def test_the_watermark_is_the_minimum_of_active_channels() -> None:
    decisions = DecisionLog()
    decisions.offer(A, WatermarkMark(10))
    assert decisions.drain() == []
    decisions.offer(B, Idle())
    assert decisions.drain() == [GateEvent.WATERMARK, GateEvent.ACTIVITY]
    assert decisions.gate.watermark_ms == 10
    # B comes back with an older watermark: the merged one stands.
    decisions.offer(B, Active(), WatermarkMark(4))
    decisions.drain()
    decisions.offer(A, WatermarkMark(20))
    assert decisions.drain() == []
    assert decisions.gate.watermark_ms == 10
    decisions.offer(B, WatermarkMark(15))
    assert decisions.drain() == [GateEvent.WATERMARK]
    assert decisions.gate.watermark_ms == 15


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 5)), max_size=40))
def test_alignments_rise_and_no_row_overtakes_its_barrier(steps: list[tuple[ChannelId, int]]) -> None:
    """Each channel brings rows and barriers in order; at each alignment both have delivered theirs."""
    decisions = DecisionLog()
    delivered = {A: 0, B: 0}
    aligned: list[int] = []
    for channel, what in steps:
        if what == 0:
            delivered[channel] += 1
            decisions.offer(channel, barrier(delivered[channel]))
        else:
            decisions.offer(channel, row(delivered[channel]))
        while (taken := decisions.gate.take()) is not None:
            _, element = taken
            if isinstance(element, pa.RecordBatch):
                epoch = element.column(0)[0].as_py()
                assert epoch <= len(aligned) + 1
                assert not aligned or epoch >= aligned[-1]
                continue
            for event in decisions.gate.interpret(taken[0], element):
                assert event is GateEvent.ALIGNED
                arrival = decisions.gate.aligned()
                assert arrival is not None
                aligned.append(arrival.barrier.checkpoint)
                decisions.gate.finish_alignment(arrival.barrier.checkpoint)
    assert aligned == sorted(set(aligned))
    assert (aligned[-1] if aligned else 0) == min(delivered.values())


# --- several checkpoints at a time, and without blocking ---------------------------------------------


def test_an_abort_concerns_one_checkpoint_only() -> None:
    decisions = DecisionLog()
    decisions.offer(A, barrier(1), row(1), barrier(2), row(2))
    assert decisions.drain() == []
    # The later one is aborted first: the earlier one is still aligned for.
    decisions.gate.abort(CheckpointId(2))
    decisions.offer(B, barrier(1), row(10), barrier(2))
    assert decisions.drain() == [GateEvent.ALIGNED, 1, 10, 2]


def test_without_blocking_barriers_are_only_counted() -> None:
    decisions = DecisionLog(blocking=False)
    decisions.offer(A, barrier(1), row(1), barrier(2), row(2), barrier(3))
    assert decisions.drain() == [1, 2]
    decisions.offer(B, row(10), barrier(1), row(11))
    assert decisions.drain() == [10, GateEvent.ALIGNED, 11]
    # The end counts as every later barrier: both are taken, the earlier one first.
    assert decisions.taken == [1]
    decisions.offer(B, End())
    assert decisions.drain() == [GateEvent.ALIGNED]
    assert decisions.taken == [1, 2, 3]


def test_savepoint_barriers_always_block() -> None:
    decisions = DecisionLog(blocking=False)
    decisions.offer(A, barrier(1), barrier(2, BarrierKind.SAVEPOINT), row(1))
    decisions.offer(B, row(10))
    assert decisions.drain() == [10]
    decisions.offer(B, barrier(1), row(11))
    assert decisions.drain() == [GateEvent.ALIGNED, 11]
    decisions.offer(B, barrier(2, BarrierKind.SAVEPOINT))
    assert decisions.drain() == [GateEvent.ALIGNED, 1]


# --- barriers that overtake --------------------------------------------------------------------------


def recorded(recording: RecordedRows) -> list[object]:
    return [batch.column(0)[0].as_py() for _, batch in recording.batches]


def test_a_barrier_is_noticed_when_it_arrives_after_rows() -> None:
    decisions = DecisionLog()
    decisions.now_us = 5
    decisions.offer(A, row(1), barrier(1))
    decisions.now_us = 9
    decisions.offer(B, barrier(1))
    arrival = decisions.gate.earliest()
    assert arrival is not None
    assert (arrival.barrier.checkpoint, arrival.at_us) == (1, 5)


def test_only_rows_before_the_barrier_are_recorded() -> None:
    decisions = DecisionLog()
    decisions.offer(A, row(1), barrier(1), row(2))
    decisions.offer(B, row(10))
    recording = decisions.gate.overtake(CheckpointId(1))
    assert recorded(recording) == [1, 10]
    # Nothing is held: what is recorded is processed as well.
    assert decisions.drain() == [1, 10, 2]
    decisions.offer(B, row(11))
    assert not recording.complete
    decisions.now_us = 7
    decisions.offer(B, barrier(1), row(12))
    assert recording.complete
    assert recording.ended_us == 7
    assert recorded(recording) == [1, 10, 11]
    assert decisions.drain() == [11, 12]


def test_a_channel_that_was_held_for_the_barrier_has_nothing_before_it() -> None:
    decisions = DecisionLog()
    decisions.offer(A, row(1), barrier(1), row(2))
    assert decisions.drain() == [1]
    decisions.offer(B, row(10))
    recording = decisions.gate.overtake(CheckpointId(1))
    assert recorded(recording) == [10]
    assert decisions.drain() == [10, 2]


def test_the_end_of_a_channel_ends_its_recording() -> None:
    decisions = DecisionLog()
    decisions.offer(A, barrier(1))
    decisions.offer(B, row(10))
    recording = decisions.gate.overtake(CheckpointId(1))
    decisions.offer(B, row(11), End())
    assert recording.complete
    assert recorded(recording) == [10, 11]


def test_a_waiting_or_processed_end_ends_the_recording_at_once() -> None:
    decisions = DecisionLog()
    decisions.offer(A, End())
    decisions.drain()
    decisions.offer(B, row(10), End())
    recording = decisions.gate.overtake(CheckpointId(1))
    assert recording.complete
    assert recorded(recording) == [10]


def test_an_aborted_recording_releases_its_rows() -> None:
    decisions = DecisionLog()
    decisions.offer(A, barrier(1))
    decisions.offer(B, row(10))
    recording = decisions.gate.overtake(CheckpointId(1))
    decisions.gate.abort(CheckpointId(1))
    decisions.offer(B, row(11), barrier(1), row(12))
    assert not recording.complete
    assert recorded(recording) == []
    assert decisions.drain() == [10, 11, 12]


def test_a_newer_barrier_means_that_an_older_one_never_comes() -> None:
    decisions = DecisionLog()
    decisions.offer(A, barrier(1))
    first = decisions.gate.overtake(CheckpointId(1))
    decisions.offer(B, row(10), barrier(2), row(11))
    assert not first.complete
    assert first.abandoned
    second = decisions.gate.overtake(CheckpointId(2))
    decisions.offer(A, row(1), barrier(2))
    assert recorded(second) == [10, 1]
    assert second.complete


def test_two_checkpoints_are_recorded_at_a_time() -> None:
    decisions = DecisionLog()
    decisions.offer(A, barrier(1))
    first = decisions.gate.overtake(CheckpointId(1))
    decisions.offer(A, row(1), barrier(2))
    second = decisions.gate.overtake(CheckpointId(2))
    decisions.offer(B, row(10), barrier(1), row(11), barrier(2), row(12))
    assert recorded(first) == [10]
    assert recorded(second) == [1, 10, 11]
    assert first.complete
    assert second.complete


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 4)), max_size=40), st.data())
def test_the_snapshot_and_what_is_recorded_are_all_rows_before_the_barrier(
    steps: list[tuple[ChannelId, int]], data: st.DataObject
) -> None:
    """Rows are numbered; each is read, recorded, or behind the barrier, whenever it overtakes."""
    decisions = DecisionLog()
    before: list[object] = []
    behind: set[ChannelId] = set()
    read: list[object] = []
    recording: RecordedRows | None = None
    for number, (channel, what) in enumerate([*steps, (A, 0), (B, 0)]):
        if what == 0 and channel not in behind:
            behind.add(channel)
            decisions.offer(channel, barrier(1))
        elif what > 0:
            decisions.offer(channel, row(number))
            if channel not in behind:
                before.append(number)
        if recording is None:
            if behind and data.draw(st.booleans(), label="overtakes"):
                recording = decisions.gate.overtake(CheckpointId(1))
            elif (
                data.draw(st.booleans(), label="reads") and (taken := decisions.gate.take()) is not None
            ):
                if isinstance(taken[1], pa.RecordBatch):
                    read.append(taken[1].column(0)[0].as_py())
                else:
                    decisions.gate.interpret(taken[0], taken[1])
    if recording is None:
        recording = decisions.gate.overtake(CheckpointId(1))
    assert recording.complete
    assert sorted([*read, *recorded(recording)]) == sorted(before)  # type: ignore[type-var]
