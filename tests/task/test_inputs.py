"""Alignment and watermark merge at a chain's input, as timelines."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rheos.protocol.elements import (
    MAX_TIMESTAMP_MS,
    Active,
    Barrier,
    Element,
    End,
    Idle,
    Watermark,
)
from rheos.protocol.ids import Attempt, ChannelId, CheckpointId
from rheos.task.inputs import Event, InputGate

A, B = ChannelId(0, 0, 0), ChannelId(0, 1, 0)


def barrier(checkpoint: int) -> Barrier:
    return Barrier(CheckpointId(checkpoint), Attempt(1))


def row(value: int) -> pa.RecordBatch:
    return pa.record_batch({"v": [value]})


class Story:
    """Feeds a gate and writes down what it gives: rows as numbers, marks as their events."""

    def __init__(self) -> None:
        self.now_us = 0
        self.gate = InputGate([(A, 0), (B, 0)], lambda: self.now_us)

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
                if event is Event.ALIGNED:
                    arrival = self.gate.aligned()
                    assert arrival is not None
                    self.gate.finish_alignment(arrival.barrier.checkpoint)
        return seen


def test_a_channel_behind_its_barrier_waits_for_the_others() -> None:
    story = Story()
    story.offer(A, row(1), barrier(1), row(2))
    story.offer(B, row(10))
    assert story.drain() == [1, 10]
    story.offer(B, row(11), barrier(1), row(12))
    assert story.drain() == [11, Event.ALIGNED, 2, 12]


def test_an_ended_channel_counts_as_every_later_barrier() -> None:
    story = Story()
    story.offer(A, End())
    story.offer(B, row(1), barrier(1), row(2), barrier(2), End())
    assert story.drain() == [1, Event.ALIGNED, 2, Event.ALIGNED, Event.WATERMARK, Event.ENDED]
    assert story.gate.watermark_ms == MAX_TIMESTAMP_MS


def test_the_end_of_the_last_open_channel_completes_an_alignment() -> None:
    story = Story()
    story.offer(A, barrier(3))
    story.offer(B, row(1), End())
    assert story.drain() == [1, Event.ALIGNED]


def test_a_newer_barrier_abandons_the_older_alignment() -> None:
    story = Story()
    story.offer(A, barrier(1), row(1), barrier(2))
    story.offer(B, barrier(2))
    # B never brings barrier 1: its checkpoint was given up, and A reads on.
    assert story.drain() == [1, Event.ALIGNED]


def test_an_aborted_checkpoint_unblocks_and_its_late_barriers_are_dropped() -> None:
    story = Story()
    story.offer(A, barrier(1), row(1))
    assert story.drain() == []
    story.gate.abort(CheckpointId(1))
    assert story.drain() == [1]
    story.offer(B, barrier(1), row(2))
    assert story.drain() == [2]


def test_the_watermark_is_the_least_of_the_channels_that_are_active() -> None:
    story = Story()
    story.offer(A, Watermark(10))
    assert story.drain() == []
    story.offer(B, Idle())
    assert story.drain() == [Event.WATERMARK, Event.ACTIVITY]
    assert story.gate.watermark_ms == 10
    # B comes back with an older watermark: the merged one stands.
    story.offer(B, Active(), Watermark(4))
    story.drain()
    story.offer(A, Watermark(20))
    assert story.drain() == []
    assert story.gate.watermark_ms == 10
    story.offer(B, Watermark(15))
    assert story.drain() == [Event.WATERMARK]
    assert story.gate.watermark_ms == 15


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 5)), max_size=40))
def test_alignments_rise_and_no_row_overtakes_its_barrier(steps: list[tuple[ChannelId, int]]) -> None:
    """Each channel brings rows and barriers in order; at each alignment both have delivered theirs."""
    story = Story()
    delivered = {A: 0, B: 0}
    aligned: list[int] = []
    for channel, what in steps:
        if what == 0:
            delivered[channel] += 1
            story.offer(channel, barrier(delivered[channel]))
        else:
            story.offer(channel, row(delivered[channel]))
        while (taken := story.gate.take()) is not None:
            _, element = taken
            if isinstance(element, pa.RecordBatch):
                epoch = element.column(0)[0].as_py()
                assert epoch <= len(aligned) + 1
                assert not aligned or epoch >= aligned[-1]
                continue
            for event in story.gate.interpret(taken[0], element):
                assert event is Event.ALIGNED
                arrival = story.gate.aligned()
                assert arrival is not None
                aligned.append(arrival.barrier.checkpoint)
                story.gate.finish_alignment(arrival.barrier.checkpoint)
    assert aligned == sorted(set(aligned))
    assert (aligned[-1] if aligned else 0) == min(delivered.values())
