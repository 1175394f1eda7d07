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
"""Bucket of the value 1, before buckets are shifted to begin at 0."""

_LARGEST = 2**62
BUCKETS = (62 << _CUTS_BITS) + 1

RELATIVE_ERROR = 0.5 / (1 << _CUTS_BITS)
"""Maximum relative error of a quantile."""


class Histogram:
    """Histogram of integers from 1 to 2**62. Smaller ones, which occur if a clock was set back, count
    as 1, and larger ones as the largest."""

    def __init__(self) -> None:
        self._counts = np.zeros(BUCKETS, np.int64)

    def record(self, values: npt.NDArray[np.int64]) -> None:
        """Count each value."""
        if len(values) == 0:
            return
        buckets = np.clip(values, 1, _LARGEST).astype(np.float64).view(np.int64)
        buckets >>= _SHIFT
        buckets -= _OFFSET
        # Latencies are close together: count only in the range from the minimum to the maximum.
        first = int(buckets.min())
        counts = np.bincount(buckets - first)
        self._counts[first : first + len(counts)] += counts

    def add(self, buckets: Iterable[int], counts: Iterable[int]) -> None:
        """Add the counts that `sparse` of another histogram returned."""
        np.add.at(self._counts, np.array(list(buckets), np.int64), np.array(list(counts), np.int64))

    def sparse(self) -> tuple[list[int], list[int]]:
        """Return the buckets that are not empty, in ascending order, and their counts."""
        buckets = np.flatnonzero(self._counts)
        return buckets.tolist(), self._counts[buckets].tolist()

    def clear(self) -> None:
        self._counts[:] = 0

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def quantile(self, share: float) -> float | None:
        """Return the value below which `share` of all values are (0 < share <= 1): the middle of its
        bucket. None if nothing was counted."""
        total = self.count
        if total == 0:
            return None
        rank = max(int(np.ceil(share * total)), 1)
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        return (_lower(bucket) + _lower(bucket + 1)) / 2


def _lower(bucket: int) -> float:
    """Return the smallest value of a bucket."""
    power, cut = divmod(bucket, 1 << _CUTS_BITS)
    return float(2**power) * (1 + cut / (1 << _CUTS_BITS))


SLICE_NS = 100_000_000
_WRITE_EVERY = 5
"""Number of slices that are written at once."""


class Slice(msgspec.Struct, frozen=True):
    """Measurements of one recorder in one slice of wall-clock time."""

    number: int
    """Time since the epoch, in slices."""
    rows: int
    buckets: list[int]
    """Latencies as `Histogram.sparse` returns them."""
    counts: list[int]
    rss_mib: float
    """Resident memory of the recorder's process at the end of the slice, in MiB."""
    cpu_s: float
    """Total processor time of the recorder's process by that time, in seconds."""


class Recorder:
    """Counter of rows and latencies, for one subtask.

    The current slice is reported at the end only: the driver's window ends before it.
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
        """Count rows that pass now. Latencies are measured from the wall-clock times `since_ns`."""
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
            self._write_lines()

    def _write_lines(self) -> None:
        # A single write, so that a reader sees only whole lines, except possibly the last.
        self._file.write(b"".join(self._lines))
        self._lines.clear()

    def close(self) -> None:
        """Write the slices that are not written yet, and the current one if it has rows."""
        if self._rows:
            self._next_slice(self._number + 1)
        self._write_lines()
        self._file.close()


def memory_mib() -> float:
    """Return the resident memory of this process; its peak if the system does not report the current
    value."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def read_slices(folder: str, name: str) -> list[list[Slice]]:
    """Return the slices of each recorder with this name, in the order of time."""
    return [list(_slices(path.read_bytes())) for path in sorted(Path(folder).glob(f"{name}-*.jsonl"))]


class NewSlices:
    """Reads what recorders have written since the last call, so that each file is read only once."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = Path(folder)
        self._name = name
        self._read: dict[Path, int] = {}
        """Bytes read from each file, up to the end of a line."""

    def take(self) -> dict[str, list[Slice]]:
        """Return the new slices by recorder."""
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
    """Median, 90th and 99th percentile in ms; None if no latency was recorded."""
    rss_start_mib: float
    """Memory of the largest process at the beginning."""
    rss_end_mib: float
    cpu_share: float
    """Average share of a core that the processes used. If it is well below 1 at full load, something
    else slowed them down, usually other programs on the machine."""
    begins_ns: int = 0
    """Begin of the window in ns since the epoch."""
    ends_ns: int = 0


def first_complete(recorded: Iterable[list[Slice]]) -> int | None:
    """Return the first slice in which every recorder was active; None if one has no data yet."""
    firsts = [slices[0].number if slices else None for slices in recorded]
    if not firsts or any(first is None for first in firsts):
        return None
    return max(first for first in firsts if first is not None) + 1


def measured(
    rows: Iterable[list[Slice]], latencies: Iterable[list[Slice]], first: int, end: int
) -> MeasuredWindow:
    """Combine the slices of a window: the rows of some recorders, and the latencies of some."""
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
    """Return the average share of a core that the processes of some recorders used."""
    spans = [(slices[0], slices[-1]) for slices in seen if len(slices) > 1]
    shares = [
        (last.cpu_s - first.cpu_s) / ((last.number - first.number) * SLICE_NS / 1e9)
        for first, last in spans
    ]
    return sum(shares) / len(shares) if shares else 0.0
