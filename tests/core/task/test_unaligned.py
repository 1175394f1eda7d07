"""Checkpoints whose barriers overtake the rows before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl
import pytest

from rheos.api.streams import DataStream
from rheos.core import aggregates as agg
from rheos.core.errors import InputError, RheosError
from rheos.core.operators.running import RunningOperator
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.snapshots import IN_FLIGHT, Snapshot
from rheos.core.task.config import TaskConfig
from tests.core.task.cluster import AT_ONCE, Job, planned
from tests.core.task.programs import (
    JOINED,
    LATE_WINDOWS,
    RUNNING_IN_ORDER,
    TWICE_KEYED,
    WINDOWS,
    build,
    made,
)
from tests.worlds.programs import ORDERED, CheckedProgram

_PROGRAMS = [TWICE_KEYED, JOINED, WINDOWS, LATE_WINDOWS, ORDERED]


def test_an_aligned_checkpoint_waits_for_rows_under_back_pressure() -> None:
    job = Job(planned(build(TWICE_KEYED, made())), replace(AT_ONCE, unaligned_after_us=None))
    job.under_back_pressure(150)
    checkpoint = job.trigger()
    job.cluster.run(3000)
    assert not job.cluster.is_acknowledged(checkpoint)
    job.cluster.network.held = False
    job.cluster.run_until(lambda: job.cluster.is_acknowledged(checkpoint))
    cost = job.cluster.cost(checkpoint)
    assert not cost.unaligned
    assert cost.in_flight_bytes == 0
    assert cost.align_us > 0


@pytest.mark.parametrize("patience_us", [0, 50_000])
def test_an_unaligned_checkpoint_stores_the_overtaken_rows(patience_us: int) -> None:
    task = replace(AT_ONCE, unaligned_after_us=patience_us)
    job = Job(planned(build(TWICE_KEYED, made())), task)
    job.under_back_pressure(150)
    began_us = job.clock.monotonic_us()
    checkpoint = job.trigger()
    job.cluster.run_until(lambda: job.cluster.is_acknowledged(checkpoint))
    assert job.clock.monotonic_us() - began_us >= patience_us
    cost = job.cluster.cost(checkpoint)
    assert cost.unaligned
    assert cost.in_flight_bytes > 0


def test_an_overtaken_null_key_is_an_error_of_the_row() -> None:
    """Check rows that a subtask sent without reading their keys, so that the checkpoint reads them
    first."""

    def keyed(rows: DataStream) -> Mapping[str, DataStream]:
        k = pl.when(pl.col("i") < 20).then(pl.col("k"))
        return {"out": rows.with_columns(k=k).key_by("k").running(n=agg.count())}

    program = CheckedProgram("null keys", keyed, lambda rows, outputs: None)
    job = Job(planned(build(program, made())), AT_ONCE, parallelism=1)
    job.cluster.network.held = True
    job.cluster.run(100)
    with pytest.raises(InputError, match="the key column 'k' is null") as raised:
        job.take()
    assert raised.value.operator == "key_by"
    assert raised.value.site is not None
    assert raised.value.site.file.endswith("test_unaligned.py")
    assert "'i': 22" in (raised.value.record or "")


def test_a_barrier_that_arrives_in_time_overtakes_nothing() -> None:
    task = replace(AT_ONCE, unaligned_after_us=10_000_000)
    job = Job(planned(build(TWICE_KEYED, made())), task)
    job.cluster.run(100)
    cost = job.take()
    assert not cost.unaligned
    assert cost.in_flight_bytes == 0


@pytest.mark.parametrize("patience_us", [None, 0])
def test_an_error_within_a_snapshot_names_its_operator(
    patience_us: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: RunningOperator, checkpoint: CheckpointId) -> Snapshot:
        raise ValueError("cannot be told")

    monkeypatch.setattr(RunningOperator, "snapshot", fails)
    task = replace(AT_ONCE, unaligned_after_us=patience_us)
    job = Job(planned(build(TWICE_KEYED, made())), task)
    with pytest.raises(RheosError, match="cannot be told") as raised:
        job.take()
    assert raised.value.operator == "running"
    assert raised.value.site is not None


def test_a_sender_that_waits_for_credit_for_a_barrier_does_nothing_else() -> None:
    """Check a sender whose buffers are not full: it could continue, but nothing may precede the
    barrier."""
    task = TaskConfig(batch_rows=640, credits=1, buffer_timeout_us=0)
    job = Job(planned(build(TWICE_KEYED, made(rate_per_s=2000))), task)
    job.cluster.run(60)
    job.cluster.network.held = True
    job.cluster.run(100)
    checkpoint = job.trigger()
    job.cluster.run(100)
    assert not any(job.cluster.turn() for _ in range(300))
    job.cluster.network.held = False
    job.cluster.run_until(lambda: job.cluster.is_acknowledged(checkpoint))


def test_a_savepoint_never_overtakes() -> None:
    job = Job(planned(build(TWICE_KEYED, made())), AT_ONCE)
    job.under_back_pressure(150)
    checkpoint = job.trigger("savepoints/1")
    job.cluster.run(3000)
    assert not job.cluster.is_acknowledged(checkpoint)
    job.cluster.network.held = False
    job.cluster.run_until(lambda: job.cluster.is_acknowledged(checkpoint))
    handles = job.cluster.entry(checkpoint).handles
    assert not any(handle.state.startswith(IN_FLIGHT) for handle in handles)


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda p: p.name)
@pytest.mark.parametrize("parallelism", [3, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_rows_in_flight_are_neither_lost_nor_duplicated(
    program: CheckedProgram, parallelism: int
) -> None:
    of = made()
    for seed in range(2):
        job = Job(planned(build(program, of)), AT_ONCE, seed=seed)
        job.under_back_pressure(150)
        job.take()
        assert job.newest is not None
        assert any(handle.state.startswith(IN_FLIGHT) for handle in job.newest.handles)
        job.restart(parallelism)
        program.check(of.arrived(), job.finish())


@pytest.mark.parametrize("program", [WINDOWS, LATE_WINDOWS, ORDERED], ids=lambda p: p.name)
def test_buffered_rows_of_a_slow_subtask_wait_for_its_rows_in_flight(program: CheckedProgram) -> None:
    """Check key groups with a lower watermark than those they are merged with: their rows are not
    late."""
    of = made(rows=300)
    for seed in range(2):
        task = replace(AT_ONCE, credits=2)
        job = Job(planned(build(program, of)), task, parallelism=2 + seed, seed=seed)
        for parallelism in (1 + seed, 3):
            job.cluster.run(60)
            slow = seed % len(job.cluster.slots)
            for turn in range(300):
                number = turn % len(job.cluster.slots)
                if number != slow:
                    job.cluster.turn(number)
            job.take()
            job.restart(parallelism)
        program.check(of.arrived(), job.finish())


def test_a_checkpoint_before_restored_rows_are_processed_contains_them() -> None:
    of = made()
    job = Job(planned(build(TWICE_KEYED, of)), AT_ONCE)
    job.under_back_pressure(150)
    stored = job.take().in_flight_bytes
    for parallelism in (3, 2, 1, 2):
        job.restart(parallelism)
        job.cluster.network.held = True
        assert job.take().in_flight_bytes >= stored // 2
    job.restart(3)
    TWICE_KEYED.check(of.arrived(), job.finish())


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_one_key_stay_in_order(seed: int) -> None:
    """Check rows of one key in the sender's buffers, in flight, and restored but not processed."""
    of = made(splits=1)
    job = Job(planned(build(RUNNING_IN_ORDER, of)), replace(AT_ONCE, credits=2), seed=seed)
    job.cluster.run(50)
    for parallelism in (3, 1, 2, 3, 2):
        job.cluster.network.held = True
        for _ in range(60):
            job.cluster.turn(0)
        checkpoint = job.trigger()
        for _ in range(60):
            job.cluster.turn(0)
        job.cluster.run_until(lambda: job.cluster.is_acknowledged(checkpoint))  # noqa: B023
        job.enter(checkpoint)
        job.restart(parallelism)
    RUNNING_IN_ORDER.check(of.arrived(), job.finish())


def test_an_aborted_checkpoint_that_has_overtaken_leaves_nothing_behind() -> None:
    of = made()
    job = Job(planned(build(TWICE_KEYED, of)), AT_ONCE)
    job.under_back_pressure(150)
    for _ in range(3):
        # One subtask never hears of it in time: the others record what it sends.
        checkpoint = job.trigger()
        for _ in range(30):
            job.cluster.turn(0)
        job.cluster.abort(checkpoint)
        job.cluster.run(100)
    assert not job.cluster.declined
    job.cluster.network.held = False
    job.take()
    job.restart(3)
    TWICE_KEYED.check(of.arrived(), job.finish())


def test_an_ended_source_ends_the_recording() -> None:
    """Check an end that is behind rows at the receivers: no barrier will follow on its channels."""
    of = made(rows=60)
    job = Job(planned(build(TWICE_KEYED, of)), replace(AT_ONCE, credits=4))
    job.cluster.run(40)
    job.cluster.network.held = True
    job.cluster.run(400)
    checkpoint = job.trigger()
    job.cluster.run_until(lambda: job.cluster.is_acknowledged(checkpoint))
    job.enter(checkpoint)
    job.restart(1)
    TWICE_KEYED.check(of.arrived(), job.finish())
