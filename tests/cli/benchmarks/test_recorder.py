"""Files that recorders write, and their evaluation by the driver."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from rheos.cli.benchmarks.recorder import (
    RELATIVE_ERROR,
    SLICE_NS,
    NewSlices,
    Recorder,
    Slice,
    first_complete,
    measured,
    memory_mib,
    read_slices,
)

START_NS = 1_700_000_000 * 10**9


class HandClock:
    """Clock that the test sets."""

    def __init__(self) -> None:
        self.ns = START_NS

    def now_ms(self) -> int:
        return self.ns // 10**6

    def now_ns(self) -> int:
        return self.ns

    def monotonic_us(self) -> int:
        return self.ns // 1000


def part(number: int, rows: int, rss_mib: float = 100.0, cpu_s: float = 0.0) -> Slice:
    return Slice(number, rows, [], [], rss_mib, cpu_s)


def test_a_recorder_writes_completed_slices(tmp_path: Path) -> None:
    clock = HandClock()
    recorder = Recorder(str(tmp_path), "sink", clock)
    for rows in range(1, 8):
        recorder.record(rows, np.full(rows, clock.ns - 5_000_000, np.int64))
        clock.ns += SLICE_NS
    first = START_NS // SLICE_NS
    # The sixth is over but not written yet, the seventh is under way.
    (early,) = read_slices(str(tmp_path), "sink")
    assert [(each.number - first, each.rows) for each in early] == [(i, i + 1) for i in range(5)]
    recorder.close()
    (slices,) = read_slices(str(tmp_path), "sink")
    assert [(each.number - first, each.rows) for each in slices] == [(i, i + 1) for i in range(7)]
    assert all(sum(each.counts) == each.rows and each.rss_mib > 1 for each in slices)


def test_a_second_read_returns_only_new_slices(tmp_path: Path) -> None:
    new, path = NewSlices(str(tmp_path), "sink"), tmp_path / "sink-1.jsonl"
    lines = [msgspec.json.encode(part(number, 1)) + b"\n" for number in range(4)]
    assert new.take() == {}
    # Half a line is left for the next look.
    path.write_bytes(b"".join(lines[:2]) + lines[2][:9])
    assert [[each.number for each in slices] for slices in new.take().values()] == [[0, 1]]
    path.write_bytes(b"".join(lines))
    (tmp_path / "sink-2.jsonl").write_bytes(lines[0])
    assert [[each.number for each in slices] for slices in new.take().values()] == [[2, 3], [0]]
    assert list(new.take().values()) == [[], []]


def test_latencies_count_from_the_passed_time(tmp_path: Path) -> None:
    clock = HandClock()
    recorder = Recorder(str(tmp_path), "sink", clock)
    for _ in range(6):
        since_ms = np.arange(1, 101)
        recorder.record(100, clock.ns - since_ms * 1_000_000)
        clock.ns += SLICE_NS
    recorder.close()
    slices = read_slices(str(tmp_path), "sink")
    first = START_NS // SLICE_NS
    window = measured(slices, slices, first, first + 5)
    assert window.latencies_ms == pytest.approx((50, 90, 99), rel=RELATIVE_ERROR)
    assert window.records_per_s == 1000


def test_an_incomplete_line_is_read_later(tmp_path: Path) -> None:
    clock = HandClock()
    recorder = Recorder(str(tmp_path), "sink", clock)
    for _ in range(6):
        recorder.record(1)
        clock.ns += SLICE_NS
    recorder.close()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    (slices,) = read_slices(str(tmp_path), "sink")
    assert len(slices) == 5


def test_recorders_are_read_by_name(tmp_path: Path) -> None:
    clock = HandClock()
    Recorder(str(tmp_path), "source", clock).close()
    assert read_slices(str(tmp_path), "sink") == []
    assert read_slices(str(tmp_path), "source") == [[]]


def test_the_first_complete_slice_follows_the_start_of_the_last_recorder() -> None:
    assert first_complete([[part(7, 1), part(8, 1)], [part(9, 1)]]) == 10
    assert first_complete([[part(7, 1)], []]) is None
    assert first_complete([]) is None


def test_a_window_contains_only_rows_of_its_slices() -> None:
    recorded = [
        [part(9, 1000), part(10, 10, 50.0), part(12, 20, 60.0), part(13, 1000)],
        [part(11, 30, 55.0), part(12, 40, 52.0)],
    ]
    window = measured(recorded, [], 10, 13)
    assert window.records_per_s == pytest.approx(100 / 0.3)
    assert window.latencies_ms == (None, None, None)
    assert (window.rss_start_mib, window.rss_end_mib) == (55.0, 60.0)


def test_the_share_of_a_core_is_that_of_the_window() -> None:
    recorded = [
        [part(9, 1, cpu_s=0.0), part(10, 1, cpu_s=5.0), part(12, 1, cpu_s=5.2)],
        [part(10, 1, cpu_s=1.0), part(11, 1, cpu_s=1.05)],
    ]
    assert measured(recorded, [], 10, 13).cpu_share == pytest.approx((1.0 + 0.5) / 2)


def test_the_memory_of_this_process_is_reported() -> None:
    assert 1 < memory_mib() < 2**20
