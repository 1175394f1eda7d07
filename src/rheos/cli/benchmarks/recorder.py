"""Measurements of the workers, in slices of a tenth of a second, and their reading by the driver.

A recorder appends completed slices to its own file, one JSON line each, about twice a second. It uses
files rather than committables, because a benchmark is stopped while it runs: its measurements must
neither wait for a checkpoint nor cause one.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from rheos.core.protocol.ports import Clock

_CUTS_BITS = 7
_SHIFT = 52 - _CUTS_BITS
_OFFSET = 1023 << _CUTS_BITS
"""The bucket of the value 1 before it is moved to 0."""

_LARGEST = 2**62
BUCKETS = (62 << _CUTS_BITS) + 1

RELATIVE_ERROR = 0.5 / (1 << _CUTS_BITS)
"""A quantile is at most this share of its value away from a value that was counted there."""


class Histogram:
    """Counts integers from 1 to 2**62. Smaller ones, which a clock that was set back makes, count as 1,
    and larger ones as the largest."""

    def __init__(self) -> None:
        self._counts = np.zeros(BUCKETS, np.int64)

    def record(self, values: npt.NDArray[np.int64]) -> None:
        """Counts each value."""
        if len(values) == 0:
            return
        buckets = np.clip(values, 1, _LARGEST).astype(np.float64).view(np.int64)
        buckets >>= _SHIFT
        buckets -= _OFFSET
        # Latencies are close together: only the range between the minimum and the maximum is counted.
        first = int(buckets.min())
        counts = np.bincount(buckets - first)
        self._counts[first : first + len(counts)] += counts

    def add(self, buckets: Iterable[int], counts: Iterable[int]) -> None:
        """Adds what `sparse` of another one gave."""
        np.add.at(self._counts, np.array(list(buckets), np.int64), np.array(list(counts), np.int64))

    def sparse(self) -> tuple[list[int], list[int]]:
        """The buckets that are not empty, in rising order, and their counts."""
        buckets = np.flatnonzero(self._counts)
        return buckets.tolist(), self._counts[buckets].tolist()

    def clear(self) -> None:
        self._counts[:] = 0

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def quantile(self, share: float) -> float | None:
        """Return the value below which `share` of all values are (0 < share <= 1): the middle of its
        bucket. None if nothing was counted.
        """
        total = self.count
        if total == 0:
            return None
        rank = max(int(np.ceil(share * total)), 1)
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        return (_lower(bucket) + _lower(bucket + 1)) / 2


def _lower(bucket: int) -> float:
    """The least value of a bucket."""
    power, cut = divmod(bucket, 1 << _CUTS_BITS)
    return float(2**power) * (1 + cut / (1 << _CUTS_BITS))


SLICE_NS = 100_000_000
_WRITE_EVERY = 5
"""Slices."""


class Slice(msgspec.Struct, frozen=True):
    """Measurements of one recorder in one slice of wall-clock time."""

    number: int
    """The time since the epoch, in slices."""
    rows: int
    buckets: list[int]
    """The latencies: see `Histogram.sparse`."""
    counts: list[int]
    rss_mib: float
    """The memory of its process at the end of the slice."""
    cpu_s: float
    """The processor time that its process had used by then."""


class Recorder:
    """Counter of rows and latencies. Owned by one subtask.

    The current slice is not reported: the driver's window ends before it.
    """

    def __init__(self, folder: str, name: str, clock: Clock) -> None:
        path = Path(folder, f"{name}-{os.getpid()}-{clock.now_ns()}.jsonl")
        self._file: BinaryIO = path.open("xb", buffering=0)
        self._clock = clock
        self._number = clock.now_ns() // SLICE_NS
        self._rows = 0
        self._latencies = Histogram()
        self._lines: list[bytes] = []
        self._encode = msgspec.json.Encoder().encode

    def record(self, rows: int, since_ns: npt.NDArray[np.int64] | None = None) -> None:
        """Rows that pass now; `since_ns` are the wall-clock times from which their latencies count."""
        now = self._clock.now_ns()
        if now // SLICE_NS != self._number:
            self._next_slice(now // SLICE_NS)
        self._rows += rows
        if since_ns is not None:
            self._latencies.record(now - since_ns)

    def _next_slice(self, number: int) -> None:
        buckets, counts = self._latencies.sparse()
        memory, cpu_s = round(memory_mib(), 1), round(time.process_time(), 4)
        made = Slice(self._number, self._rows, buckets, counts, memory, cpu_s)
        self._lines.append(self._encode(made) + b"\n")
        self._latencies.clear()
        self._rows = 0
        self._number = number
        if len(self._lines) >= _WRITE_EVERY:
            # One call, so that a reader sees whole lines but for the last.
            self._file.write(b"".join(self._lines))
            self._lines.clear()

    def close(self) -> None:
        self._file.close()


def memory_mib() -> float:
    """Return the resident memory of this process; its peak if the system does not report the current
    value.
    """
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def read_slices(folder: str, name: str) -> list[list[Slice]]:
    """The slices of each recorder of that name, in the order of time."""
    return [list(_slices(path.read_bytes())) for path in sorted(Path(folder).glob(f"{name}-*.jsonl"))]


class NewSlices:
    """Reads what recorders have written since the last look, so that a long run is not read again and
    again."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = Path(folder)
        self._name = name
        self._read: dict[Path, int] = {}
        """Bytes read from each file, up to the end of a line."""

    def take(self) -> dict[str, list[Slice]]:
        """By recorder."""
        found = {}
        for path in sorted(self._folder.glob(f"{self._name}-*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            self._read[path] = self._read.get(path, 0) + data.rfind(b"\n") + 1
            found[path.name] = list(_slices(data))
        return found


def _slices(data: bytes) -> Iterator[Slice]:
    decoder = msgspec.json.Decoder(Slice)
    whole, _, _ = data.rpartition(b"\n")
    for line in whole.splitlines():
        yield decoder.decode(line)


class MeasuredWindow(msgspec.Struct, frozen=True):
    """Measurements of all recorders from slice `first` up to slice `end`."""

    records_per_s: float
    latencies_ms: tuple[float | None, float | None, float | None]
    """The median, the 90th and the 99th percentile; None where no latency was recorded."""
    rss_start_mib: float
    """Memory of the largest process at the beginning."""
    rss_end_mib: float
    cpu_share: float
    """The share of a core that the processes had, on average. Well below 1 at full load, something else
    held them up: other programs on the machine, most of all."""
    begins_ns: int = 0
    """Since the epoch."""
    ends_ns: int = 0


def first_complete(recorded: Iterable[list[Slice]]) -> int | None:
    """The first slice in which every recorder is at work. None while one has recorded nothing."""
    firsts = [slices[0].number if slices else None for slices in recorded]
    if not firsts or any(first is None for first in firsts):
        return None
    return max(first for first in firsts if first is not None) + 1


def measured(
    rows: Iterable[list[Slice]], latencies: Iterable[list[Slice]], first: int, end: int
) -> MeasuredWindow:
    """Sums up the slices of a window: the rows of some recorders, the latencies of some."""
    seen = [[part for part in slices if first <= part.number < end] for slices in rows]
    total = sum(part.rows for slices in seen for part in slices)
    histogram = Histogram()
    for slices in latencies:
        for part in slices:
            if first <= part.number < end:
                histogram.add(part.buckets, part.counts)
    quantiles = [histogram.quantile(share) for share in (0.5, 0.9, 0.99)]
    p50, p90, p99 = (None if ns is None else ns / 1e6 for ns in quantiles)
    return MeasuredWindow(
        records_per_s=total / ((end - first) * SLICE_NS / 1e9),
        latencies_ms=(p50, p90, p99),
        rss_start_mib=max((slices[0].rss_mib for slices in seen if slices), default=0.0),
        rss_end_mib=max((slices[-1].rss_mib for slices in seen if slices), default=0.0),
        cpu_share=cpu_share(seen),
        begins_ns=first * SLICE_NS,
        ends_ns=end * SLICE_NS,
    )


def cpu_share(seen: Iterable[Sequence[Slice]]) -> float:
    """The share of a core that the processes of some recorders had, on average."""
    spans = [(slices[0], slices[-1]) for slices in seen if len(slices) > 1]
    shares = [
        (last.cpu_s - first.cpu_s) / ((last.number - first.number) * SLICE_NS / 1e9)
        for first, last in spans
    ]
    return sum(shares) / len(shares) if shares else 0.0
