"""The history of metrics: points, rolled up, in ring buffers, and as files of a store that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import UnrestorableError
from rheos.core.metrics.declarations import METRICS, Kind, Merge
from rheos.core.metrics.history import (
    MAX_SERIES,
    HistoryConfig,
    MetricsHistory,
    MetricsMoment,
    MomentMaker,
    columns,
    moments_of,
    rolled_up,
)
from rheos.core.metrics.history_files import (
    MAX_FILES,
    Grain,
    HistorySegment,
    decode_segment,
    encode_segment,
    segment_path,
    stale_segments,
)
from rheos.core.metrics.model import MetricsReport
from rheos.core.operators.runtime_context import Distribution
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.ports import Content
from rheos.core.protocol.readings import Reading
from rheos.runtimes.driver.history import HistoryKeeper, stored_history
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.store import MemoryStore
from tests.cli.stand_ins import METRICS as SHOWN

CONFIG = HistoryConfig(fine_ms=100)
JOB = JobId("job")


def metrics(at_ms: int, *readings: Reading) -> MetricsReport:
    return msgspec.structs.replace(SHOWN, at_ms=at_ms, readings=list(readings))


def counted(at_ms: int, *rows: int) -> MetricsReport:
    return metrics(at_ms, *(Reading("rows_in", ("m", str(n)), r) for n, r in enumerate(rows)))


def moment_of(maker: MomentMaker, shown: MetricsReport) -> MetricsMoment:
    return maker.moment(shown, shown.at_ms * 1000)


# --- moments ----------------------------------------------------------------------------------------


def test_a_counter_is_stored_as_growth_over_all_subtasks() -> None:
    maker = MomentMaker()
    assert moment_of(maker, counted(0, 100, 5)).numbers() == {}
    assert moment_of(maker, counted(10_000, 300, 105)).numbers() == {"rows_in\tm": 30.0}


@pytest.mark.parametrize("jump_ms", [-7_200_000, 7_200_000])
def test_growth_does_not_depend_on_the_wall_clock(jump_ms: int) -> None:
    maker = MomentMaker()
    maker.moment(counted(0, 100), 0)
    assert maker.moment(counted(jump_ms, 400), 10_000_000).numbers() == {"rows_in\tm": 30.0}


def test_a_new_attempt_counts_from_zero() -> None:
    maker = MomentMaker()
    moment_of(maker, counted(0, 100))
    assert moment_of(maker, counted(1000, 20)).numbers() == {"rows_in\tm": 20.0}


def test_a_histogram_is_stored_as_growth() -> None:
    maker, took = MomentMaker(), Distribution()
    for number in [1.0] * 50:
        took.add(number)
    moment_of(maker, metrics(0, Reading("checkpoint_duration_ms", (), took.value)))
    for number in [800.0] * 5:
        took.add(number)
    later = moment_of(maker, metrics(1000, Reading("checkpoint_duration_ms", (), took.value)))
    assert later.numbers()["checkpoint_duration_ms\tp50"] == pytest.approx(800, rel=0.03)
    assert (
        moment_of(maker, metrics(2000, Reading("checkpoint_duration_ms", (), took.value))).numbers()
        == {}
    )


def test_a_point_is_bounded_and_keeps_the_metrics_declared_first() -> None:
    many = [Reading("gauge", ("o", str(n), "0"), n) for n in range(2 * MAX_SERIES)]
    moment = moment_of(MomentMaker(), metrics(0, *many, Reading("parallelism", (), 2)))
    assert len(moment.series) == MAX_SERIES
    assert "parallelism" in moment.series


# --- rolling up ---------------------------------------------------------------------------------------

GAUGES = [metric for metric in METRICS.values() if metric.kind is Kind.GAUGE]
VALUES = st.dictionaries(
    st.sampled_from([metric.name for metric in GAUGES]), st.floats(-1e6, 1e6), max_size=4
)


@given(st.lists(VALUES, min_size=1, max_size=9))
def test_moments_are_merged_as_each_metric_declares(drawn: list[dict[str, float]]) -> None:
    rolled = rolled_up([MetricsMoment.of(n, values) for n, values in enumerate(drawn)])
    assert rolled.at_ms == len(drawn) - 1
    assert rolled.numbers().keys() == {name for values in drawn for name in values}
    for name, value in rolled.numbers().items():
        found = [values[name] for values in drawn if name in values]
        match METRICS[name].over:
            case Merge.MEAN:
                assert value == pytest.approx(sum(found) / len(found))
            case Merge.MOST:
                assert value == max(found)
            case Merge.LAST:
                assert value == found[-1]
            case other:
                pytest.fail(f"no metric is merged by {other}")


@given(st.lists(st.integers(1, 3000), max_size=300), st.integers(0, 10_000))
def test_rings_are_bounded_and_a_period_is_rolled_up_once(steps: list[int], at_ms: int) -> None:
    history, taken = MetricsHistory(CONFIG), 0
    for step in steps:
        at_ms += step
        history.add(MetricsMoment.of(at_ms, {"uptime_s": 1.0}))
        taken += 1
    periods = {moment.at_ms // CONFIG.coarse_ms for moment in history.coarse}
    assert len(periods) == len(history.coarse) <= CONFIG.coarse_moments
    assert len(history.fine) == min(taken, CONFIG.fine_moments)
    assert [m.at_ms for m in history.fine] == sorted(m.at_ms for m in history.fine)
    if taken:
        assert at_ms // CONFIG.coarse_ms not in periods, "the period that runs is not rolled up"


# --- files --------------------------------------------------------------------------------------------


@given(st.lists(VALUES, max_size=5))
def test_a_written_history_is_read_back(drawn: list[dict[str, float]]) -> None:
    moments = [MetricsMoment.of(n, values) for n, values in enumerate(drawn)]
    series, rows = columns(moments)
    again = moments_of(series, [m.at_ms for m in moments], rows)
    assert [m.numbers() for m in again] == [m.numbers() for m in moments]
    path = segment_path("job/figures", Grain.FINE, 5)
    segment = HistorySegment.of("job", Grain.FINE, 100, moments)
    assert decode_segment(path, encode_segment(path, segment), "job") == segment


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"job": "other"}, "it belongs to the job 'other'"),
        ({"at_ms": [1, 2]}, "the numbers of times and moments differ"),
        ({"series": ["a"]}, "a moment and the list of series differ in length"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(fields: dict[str, Any], why: str) -> None:
    segment = HistorySegment("job", "fine", 100, ["a", "b"], [1], [[1.0, None]])
    path = segment_path("job/figures", Grain.FINE, 1)
    data = encode_segment(path, msgspec.structs.replace(segment, **fields))
    with pytest.raises(UnrestorableError, match=why):
        decode_segment(path, data, "job")


def test_only_our_files_that_are_too_old_or_too_many_are_removed() -> None:
    now_ms, folder = 10**12, "job/figures"
    fresh = [segment_path(folder, Grain.FINE, now_ms - n) for n in range(MAX_FILES + 3)]
    old = segment_path(folder, Grain.FINE, now_ms - 400 * CONFIG.fine_ms)
    week = segment_path(folder, Grain.COARSE, now_ms - 400 * CONFIG.fine_ms)
    others = [f"{folder}/notes.txt", f"{folder}/fine-1.json", "job/log/0000000001.json"]
    gone = stale_segments([*fresh, old, week, *others], CONFIG, now_ms)
    assert set(gone) == {old, *sorted(fresh)[:3]}


class Unsteady(MemoryStore):
    fails = False

    def put(self, path: str, data: Content) -> None:
        if self.fails:
            raise OSError("no space left on device")
        super().put(path, data)


class Driver:
    """Keeper of the history in virtual time, with its I/O."""

    def __init__(self, store: MemoryStore, clock: SimClock, *, kept: bool = True) -> None:
        self.clock, self.rows = clock, 0
        self.io = SimIo(clock.monotonic_us, lambda: 1000)
        self.keeper = HistoryKeeper(JOB, store, self.io, CONFIG, kept=kept)

    def run(self, ms: int, also: Callable[[], None] = lambda: None) -> None:
        for _ in range(ms // 50):
            self.clock.advance(50_000)
            self.rows += 1
            self.io.run_due()
            self.keeper.step(self.clock.monotonic_us(), lambda: counted(self.clock.now_ms(), self.rows))
            also()


def times(segment: HistorySegment) -> list[int]:
    return segment.at_ms


def test_the_history_before_a_crash_is_kept() -> None:
    store, clock = MemoryStore(), SimClock()
    Driver(store, clock).run(20_000)  # Then it is gone, without a word.
    left = stored_history(store, JOB)
    assert len(left.fine.at_ms) > 190
    assert len(left.coarse.at_ms) >= 2
    assert set(left.fine.series) == {"rows_in\tm"}

    again = Driver(store, clock)
    again.run(2_000)
    seen = again.keeper.view()
    assert times(seen.fine)[: len(times(left.fine))] == times(left.fine)
    assert times(seen.fine) == sorted(times(seen.fine))
    assert len(times(seen.fine)) > len(times(left.fine))
    again.keeper.close()
    assert times(stored_history(store, JOB).fine) == times(seen.fine)


def test_a_temporary_failure_of_the_store_loses_nothing() -> None:
    store, clock = Unsteady(), SimClock()
    driver = Driver(store, clock)
    store.fails = True
    driver.run(3_000)
    assert stored_history(store, JOB).fine.at_ms == []
    store.fails = False
    driver.run(1_000)
    assert len(stored_history(store, JOB).fine.at_ms) > 35


def test_files_stay_bounded() -> None:
    store, clock = MemoryStore(), SimClock()
    driver, most = Driver(store, clock), 0

    def look() -> None:
        nonlocal most
        most = max(most, len(store.list("job")))

    driver.run(120_000, look)
    assert most < 25


def test_without_a_checkpoint_directory_nothing_is_written() -> None:
    store = MemoryStore()
    driver = Driver(store, SimClock(), kept=False)
    driver.run(2_000)
    driver.keeper.close()
    assert store.list("job") == []
    assert len(driver.keeper.view().fine.at_ms) > 15
