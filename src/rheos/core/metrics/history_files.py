"""The history of a job's metrics as files next to its log, so that it survives a crash.

    <job>/figures/fine-0001700000000000.json      up to 30 moments, from that time on
    <job>/figures/coarse-0001700000000000.json

Each file is sealed and written whole, and is rewritten as it grows. Each driver begins its own files.
Files that are too old are deleted, but only if they have such a name. Nothing else in the job depends
on them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from rheos.core.errors import UnrestorableError
from rheos.core.metrics.history import HistoryConfig, MetricsMoment, columns, moments_of
from rheos.core.metrics.job_files import decode_file, sealed_file
from rheos.core.protocol.ports import Store
from rheos.core.protocol.sealed_files import SealedFileKind

FORMAT = 1
SEGMENT_MOMENTS = 30
MAX_FILES = 256
"""Maximum number of files of each grain. A job that restarts all the time creates many."""
MAX_BYTES = 16 * 1024 * 1024
_NAME = re.compile(r"(fine|coarse)-([0-9]{16})\.json")


class Grain(Enum):
    FINE = "fine"
    COARSE = "coarse"


class HistorySegment(msgspec.Struct, frozen=True):
    """Moments of one grain, in columns."""

    job: str
    grain: str
    period_ms: int
    series: list[str]
    at_ms: list[int]
    values: list[list[float | None]]
    """One list per moment, with a number for each series."""

    @classmethod
    def of(
        cls, job: str, grain: Grain, period_ms: int, moments: Sequence[MetricsMoment]
    ) -> HistorySegment:
        series, rows = columns(moments)
        return cls(job, grain.value, period_ms, series, [m.at_ms for m in moments], rows)

    def moments(self) -> list[MetricsMoment]:
        return moments_of(self.series, self.at_ms, self.values)


class HistoryView(msgspec.Struct, frozen=True):
    """The known history of a job, oldest moment first."""

    fine: HistorySegment
    coarse: HistorySegment

    @classmethod
    def nothing(cls) -> HistoryView:
        return cls(*(HistorySegment("", grain.value, 0, [], [], []) for grain in Grain))


_decoder = msgspec.json.Decoder(HistorySegment)


def history_folder(job_folder: str) -> str:
    # Earlier versions used this name for stored files, too, so it must not change.
    return f"{job_folder}/figures"


def segment_path(folder: str, grain: Grain, first_ms: int) -> str:
    return f"{folder}/{grain.value}-{max(first_ms, 0):016d}.json"


def encode_segment(path: str, segment: HistorySegment) -> bytes:
    return _sealed(path).seal(msgspec.json.encode(segment), FORMAT)


def decode_segment(path: str, data: bytes, job: str) -> HistorySegment:
    """Decode a file. Raise UnrestorableError, which names the file, if it is damaged."""
    sealed = _sealed(path)
    segment = decode_file(sealed, data, _decoder, job, MAX_BYTES)
    if len(segment.at_ms) != len(segment.values):
        raise sealed.damaged("the numbers of times and moments differ")
    if any(len(row) != len(segment.series) for row in segment.values):
        raise sealed.damaged("a moment and the list of series differ in length")
    return segment


def read_segments(store: Store, folder: str, job: str, grain: Grain, most: int) -> list[MetricsMoment]:
    """Return the newest moments of the grain, at most `most`, in the order of time. Skip files that
    cannot be read. Raise OSError if the folder cannot be listed."""
    moments: list[MetricsMoment] = []
    paths = [path for path in store.list(folder) if _grain(path) is grain]
    for path in reversed(paths):
        if len(moments) >= most:
            break
        try:
            moments += decode_segment(path, store.get(path), job).moments()
        except (OSError, UnrestorableError):
            continue
    return sorted(moments, key=lambda moment: moment.at_ms)[-most:]


def stale_segments(paths: Iterable[str], config: HistoryConfig, now_ms: int) -> list[str]:
    """Return the files that will not be read: too old according to their names, or too many."""
    stale = []
    listed = sorted(paths)
    for grain, keep_ms in (
        (Grain.FINE, config.fine_moments * config.fine_ms),
        (Grain.COARSE, config.coarse_moments * config.coarse_ms),
    ):
        period_ms = config.fine_ms if grain is Grain.FINE else config.coarse_ms
        since_ms = now_ms - keep_ms - SEGMENT_MOMENTS * period_ms
        own = [path for path in listed if _grain(path) is grain]
        old = [path for path in own if _first_ms(path) < since_ms]
        left = own[len(old) :]
        stale += old + left[: max(len(left) - MAX_FILES, 0)]
    return stale


def _grain(path: str) -> Grain | None:
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return None if found is None else Grain(found[1])


def _first_ms(path: str) -> int:
    found = _NAME.fullmatch(path.rpartition("/")[2])
    return 0 if found is None else int(found[2])


def _sealed(path: str) -> SealedFileKind:
    return sealed_file(f"the history {path}", "figures", FORMAT)
