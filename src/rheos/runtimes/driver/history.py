"""The driver's side of the history of metrics: samples moments, writes them, and reads those of earlier
drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from rheos.core.checkpoint.names import safe_name
from rheos.core.metrics.history import HistoryConfig, MetricsHistory, MetricsMoment, MomentMaker
from rheos.core.metrics.history_files import (
    SEGMENT_MOMENTS,
    Grain,
    HistorySegment,
    HistoryView,
    encode_segment,
    history_folder,
    read_segments,
    segment_path,
    stale_segments,
)
from rheos.core.metrics.model import MetricsReport
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.ports import Completion, IoExecutor, Store
from rheos.runtimes.driver.driver_work import BackgroundWrite


class HistoryKeeper:
    """The history of one driver. The master calls it; any thread may call `view`. The I/O executor
    reads and writes the files. A failed read or write is tried again, and never fails the job."""

    def __init__(
        self, job: JobId, store: Store, io: IoExecutor, config: HistoryConfig, *, kept: bool
    ) -> None:
        """Begin the history. `kept` is whether the store outlives the job."""
        self._job = job
        self._store = store
        self._io = io
        self._config = config
        self._folder = history_folder(safe_name(job))
        self._maker = MomentMaker()
        self._history = MetricsHistory(config)
        self._own: dict[Grain, list[MetricsMoment]] = {Grain.FINE: [], Grain.COARSE: []}
        """Moments of the file that is being extended."""
        self._unwritten: set[Grain] = set()
        self._kept = kept
        self._next_us: int | None = None
        self._write_us = 0
        self._writing = BackgroundWrite(io)
        self._reading: Completion[tuple[list[MetricsMoment], list[MetricsMoment]]] | None = None
        self._has_read = False

    def step(self, now_us: int, metrics: Callable[[], MetricsReport]) -> None:
        """Take a moment if one is due, and only then call `metrics`. Called often."""
        if self._next_us is None:
            self._next_us = now_us + self._config.fine_ms * 1000
        if now_us < self._next_us:
            return
        self._next_us = now_us + self._config.fine_ms * 1000
        shown = metrics()
        self._take(self._maker.moment(shown, now_us))
        if self._kept:
            self._read_before()
            if now_us >= self._write_us and self._writing.has_ended(self._write_again):
                self._write_us = now_us + self._config.write_ms * 1000
                self._writing.begin(partial(self._write, self._files(), shown.at_ms))

    def close(self) -> None:
        """Write the remaining moments, and wait for that. Called when the job has ended."""
        if self._kept and self._unwritten:
            self._write(self._files(), None)

    def view(self) -> HistoryView:
        return _view(self._job, self._config, self._history.fine, self._history.coarse)

    def _take(self, moment: MetricsMoment) -> None:
        finished = self._history.add(moment)
        self._grow(Grain.FINE, moment)
        if finished is not None:
            self._grow(Grain.COARSE, finished)

    def _grow(self, grain: Grain, moment: MetricsMoment) -> None:
        own = self._own[grain]
        if len(own) >= SEGMENT_MOMENTS and grain not in self._unwritten:
            own.clear()
        own.append(moment)
        self._unwritten.add(grain)
        # If the store fails for long, drop the oldest moments: memory stays bounded.
        del own[: max(len(own) - 2 * SEGMENT_MOMENTS, 0)]

    # --- files ------------------------------------------------------------------------------------

    def _write_again(self) -> None:
        self._unwritten |= {grain for grain, own in self._own.items() if own}

    def _files(self) -> list[tuple[str, HistorySegment]]:
        """Return the files to write, and mark them as written."""
        periods = {Grain.FINE: self._config.fine_ms, Grain.COARSE: self._config.coarse_ms}
        files = []
        for grain in sorted(self._unwritten, key=lambda grain: grain.value):
            own = self._own[grain]
            path = segment_path(self._folder, grain, own[0].at_ms)
            files.append((path, HistorySegment.of(self._job, grain, periods[grain], list(own))))
        self._unwritten = set()
        return files

    def _write(self, files: Iterable[tuple[str, HistorySegment]], sweep_at_ms: int | None) -> None:
        """Write files, on the I/O executor. Then delete too old files if `sweep_at_ms` is passed."""
        for path, segment in files:
            self._store.put(path, encode_segment(path, segment))
        if sweep_at_ms is not None and any("/coarse-" in path for path, _ in files):
            for stale in stale_segments(self._store.list(self._folder), self._config, sweep_at_ms):
                self._store.delete(stale)

    def _read_before(self) -> None:
        """Read the moments of earlier drivers and put them before those of this one."""
        if self._reading is None:
            first_ms = self._own[Grain.FINE][0].at_ms
            self._reading = self._io.submit(partial(self._read, first_ms))
        elif self._reading.done() and not self._has_read:
            self._has_read = True
            try:
                self._history.precede(*self._reading.result())
            except OSError:
                return

    def _read(self, before_ms: int) -> tuple[list[MetricsMoment], list[MetricsMoment]]:
        fine, coarse = _stored(self._store, self._job, self._config)
        return [m for m in fine if m.at_ms < before_ms], [m for m in coarse if m.at_ms < before_ms]


def stored_history(store: Store, job: JobId) -> HistoryView:
    """Return the history that drivers have stored next to the log. Raise OSError."""
    config = HistoryConfig()
    return _view(job, config, *_stored(store, job, config))


def _view(
    job: JobId, config: HistoryConfig, fine: Iterable[MetricsMoment], coarse: Iterable[MetricsMoment]
) -> HistoryView:
    return HistoryView(
        HistorySegment.of(job, Grain.FINE, config.fine_ms, list(fine)),
        HistorySegment.of(job, Grain.COARSE, config.coarse_ms, list(coarse)),
    )


def _stored(
    store: Store, job: JobId, config: HistoryConfig
) -> tuple[list[MetricsMoment], list[MetricsMoment]]:
    folder = history_folder(safe_name(job))
    return (
        read_segments(store, folder, job, Grain.FINE, config.fine_moments),
        read_segments(store, folder, job, Grain.COARSE, config.coarse_moments),
    )
