"""Records a source's input from its position in a checkpoint. It ends now, after a length of event
time, or at the position in another checkpoint.

The source operator itself reads, so the splits and their initial positions are those of the job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from rheos.connectors.source_wrapper import WrappedReader, WrappedSource
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    Polled,
    ReaderContext,
    Source,
    Split,
    SplitReader,
    TimeReached,
)
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.graph.watermark import Watermark
from rheos.core.operators.contract import Restored
from rheos.core.operators.event_times import event_times
from rheos.core.operators.source import EndOfInput, SourceOperator, SourceSpec
from rheos.core.operators.source_split import SPLITS
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, Batch
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.task.contexts import OperatorContexts
from rheos.ops.forks.bounded_reading import PositionedReader, Positions
from rheos.ops.forks.tape import SplitTape, Tape, TapedSplit, TapeEnd
from rheos.runtimes.host.io import SystemClock, ThreadedIo

_ROWS = 8192
_LOOK_S = 0.05
_SILENT_S = 60.0
_THREADS = 4


@dataclass(frozen=True)
class Extent:
    """The length of an unbounded input."""

    from_ms: int | None
    """Event time that the job has reached; None if it has not reached any."""
    length_ms: int
    """Length in event time. Each split is read up to its first row that is this far beyond `from_ms`,
    or beyond its own progress if it is ahead of the job. After the same length of processing time, the
    recording waits for no more rows. Without event time, only that limits it."""

    def until(self, watermark: Watermark | None, restored: Restored) -> _Until | None:
        """Return the end of each split, for a source with that state; None if its rows, or the job,
        have no event time."""
        begin_ms = self.from_ms
        if begin_ms is None or watermark is None or watermark.on is None:
            return None
        own = {
            str(row["split"]): max(int(row["max_ts"]), begin_ms) + self.length_ms
            for table in restored.get(SPLITS, ())
            for row in table.to_pylist()
        }
        return lambda split: own.get(split, begin_ms + self.length_ms)


@dataclass(frozen=True)
class FirstRows:
    """The first rows of an input, which may have no end of its own."""

    rows: int
    """Maximum number of rows of one source, greater than 0."""


_Until = Callable[[str], int]
"""Function that returns the end of a split in event time, by the split's id."""


def reached_ms(restored: Restored) -> int | None:
    """Return the event time that a source has reached in its slowest split: the minimum of the splits
    that have begun and not ended; the maximum of the begun splits if all have ended. None if no split
    has begun."""
    rows = [row for table in restored.get(SPLITS, ()) for row in table.to_pylist()]
    begun = [row for row in rows if row["max_ts"] > MIN_TIMESTAMP_MS]
    left = [int(row["max_ts"]) for row in begun if not row["finished"]]
    return min(left, default=max((int(row["max_ts"]) for row in begun), default=None))


def record(
    planned: PlannedOperator,
    restored: Restored,
    folder: Path,
    extent: Extent | Positions | FirstRows | None,
    max_parallelism: int,
    stop: threading.Event | None = None,
) -> Tape:
    """Record the tape of the source `planned` in the empty `folder`, up to `extent`; None reads all
    current input. `restored` is the source's state in the checkpoint. If `stop` is set, the recording
    ends where it is.

    Raise ConfigurationError if such a recording has no end, or if only one reader may use the source.
    Raise the source's own errors, with the user's line.
    """
    spec = planned.spec
    assert isinstance(spec, SourceSpec)
    tapes = _Tapes(folder, extent.rows if isinstance(extent, FirstRows) else None)
    with _located(planned):
        source = _readable(spec, extent)
        until = extent.until(spec.watermark, restored) if isinstance(extent, Extent) else None
        positions = extent if isinstance(extent, Positions) else None
        recording = _RecordingSource(source, tapes, spec.watermark, until, positions)
        splits = list(source.splits())
    news = threading.Event()
    stop = threading.Event() if stop is None else stop
    io = ThreadedIo(_THREADS, news.set)
    contexts = OperatorContexts(
        job=JobId("fork"),
        attempt=Attempt(1),
        max_parallelism=max_parallelism,
        clock=SystemClock(),
        io=io,
        batch_rows=_ROWS,
    )
    goes_on = not source.bounded and positions is None
    spec = replace(spec, source=recording, until_now=goes_on)
    operator = SourceOperator(contexts.of(planned), spec, splits)
    try:
        operator.open(restored)
        with _located(planned):
            if isinstance(extent, Extent):
                _read_up_to(operator, source, splits, tapes, news, extent, stop)
            else:
                _read_to_end(operator, tapes, news, stop)
    finally:
        operator.close()
        tapes.close()
        io.close()
    return tapes.whole(splits)


@contextmanager
def _located(planned: PlannedOperator) -> Iterator[None]:
    try:
        yield
    except RheosError as error:
        raise error.located(site=planned.site, operator=planned.name) from error.__cause__


def _readable(spec: SourceSpec, extent: Extent | Positions | FirstRows | None) -> Source:
    source = spec.source
    if (why := capabilities.reads_alone(source)) is not None:
        raise ConfigurationError(
            f"{source.describe()} cannot be read alongside the job: {why}",
            hint="a job with this source cannot be forked or debugged; start a changed program from "
            "a savepoint, with its own input and sinks",
        )
    source = capabilities.unpaced(source)
    if isinstance(extent, Positions | Extent):
        return source
    try:
        return capabilities.until_now(source)
    except ConfigurationError as error:
        if isinstance(extent, FirstRows):
            return source
        error.what = f"{source.describe()} cannot tell which input is available now"
        error.hint = (
            "limit the input: by event time, --for 10m, to fork the job or ask why; by another "
            "checkpoint, --until, to debug it"
        )
        raise


def _read_to_end(
    operator: SourceOperator, tapes: _Tapes, news: threading.Event, stop: threading.Event
) -> None:
    """Read each split to its end: its own, or that of the requested input."""
    heard_s, before = time.monotonic(), tapes.events
    while not stop.is_set():
        read = operator.poll(_ROWS)
        if isinstance(read, EndOfInput):
            return
        if tapes.events != before:
            before, heard_s = tapes.events, time.monotonic()
        if isinstance(read, Pending):
            if operator.until_now and operator.has_caught_up():
                return
            _wait(read, news)
        if time.monotonic() - heard_s > _SILENT_S:
            raise ConfigurationError(
                f"the source has returned no row for {_SILENT_S:g} s, although more input was "
                "requested",
                hint="check that the job itself can read it now: `rheos metrics`",
            )


def _read_up_to(
    operator: SourceOperator,
    source: Source,
    splits: list[Split],
    tapes: _Tapes,
    news: threading.Event,
    extent: Extent,
    stop: threading.Event,
) -> None:
    """Read until the extent is reached, and add newly discovered splits to `splits`."""
    look_s = time.monotonic()
    deadline_s = look_s + extent.length_ms / 1000
    every_ms = capabilities.discovery_ms(source)
    while not stop.is_set():
        now_s = time.monotonic()
        if every_ms is not None and now_s >= look_s:
            look_s = now_s + every_ms / 1000
            known = {split.id for split in splits}
            found = list(capabilities.discovered(source))
            splits += [split for split in found if split.id not in known]
            operator.found(found)
        read = operator.poll(_ROWS)
        if isinstance(read, EndOfInput):
            return
        if isinstance(read, Pending) and read.wake_after_us != 0:
            # The open and the waiting splits are not read, or have no rows at the moment.
            if (tapes.cut and not operator.unread(None)) or now_s >= deadline_s:
                return
            _wait(read, news)


def _wait(read: Pending, news: threading.Event) -> None:
    if read.wake_after_us != 0:
        news.wait(_LOOK_S if read.wake_after_us is None else min(read.wake_after_us / 1e6, _LOOK_S))
        news.clear()


class _Tapes:
    """The tapes that are being written, by split."""

    def __init__(self, folder: Path, rows_left: int | None) -> None:
        self._folder = folder
        self.rows_left = rows_left
        """Number of rows that may still be read; None: no limit."""
        self._open: dict[str, SplitTape] = {}
        self._closed: dict[str, TapedSplit] = {}
        self.events = 0
        """Number of times that anything arrived."""
        self.cut = False
        """Whether any split has been read as far as requested."""

    def heard(self) -> None:
        self.events += 1

    def limited(self, rows: Batch) -> Batch:
        """Return the rows that may still be read, and count them."""
        if self.rows_left is None:
            return rows
        rows = rows.slice(0, self.rows_left)
        self.rows_left -= rows.num_rows
        return rows

    def begin(self, split: Split, schema: pa.Schema) -> SplitTape:
        number = len(self._open) + len(self._closed)
        tape = self._open[split.id] = SplitTape(split, self._folder / f"{number}.arrow", schema)
        return tape

    def ended(self, split: Split) -> None:
        self._closed[split.id] = self._open.pop(split.id).closed()

    def close(self) -> None:
        for id, tape in self._open.items():
            self._closed[id] = tape.closed()
        self._open.clear()

    def whole(self, order: Sequence[Split]) -> Tape:
        """Return the tape of all splits, in the source's order. Splits that only the state contains
        come last."""
        place = {split.id: number for number, split in enumerate(order)}
        ids = sorted(self._closed, key=lambda id: (place.get(id, len(place)), id))
        return Tape(tuple(self._closed[id] for id in ids))


@dataclass(frozen=True, eq=False)
class _RecordingSource(WrappedSource):
    tapes: _Tapes
    watermark: Watermark | None
    until: _Until | None
    up_to: Positions | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.up_to is not None:
            # The splits to read are known, so the source discovers no others.
            object.__setattr__(self, "discovery_ms", None)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        tape = self.tapes.begin(split, self.schema)
        if self.up_to is not None:
            reached = self.up_to.of(split, position)
            heard, ended = self.tapes.heard, partial(self.ended, split, tape)
            return PositionedReader(
                self.source, split, position, ctx, tape, reached, self.watermark, heard, ended
            )
        reader = self.source.open(split, position, replace(ctx, reject=tape.reject))
        return _RecordingReader(self, split, reader, tape)

    def ended(self, split: Split, tape: SplitTape, end: TapeEnd) -> EndOfSplit:
        tape.end = end
        self.tapes.cut |= end is TapeEnd.CUT
        self.tapes.ended(split)
        return EndOfSplit()


class _RecordingReader(WrappedReader):
    def __init__(
        self, source: _RecordingSource, split: Split, reader: SplitReader, tape: SplitTape
    ) -> None:
        super().__init__(reader)
        self._source = source
        self._split = split
        self._tape = tape
        self._cut = False

    def poll(self, max_rows: int) -> Polled:
        left = self._source.tapes.rows_left
        if self._cut or left == 0:
            return self._ended(TapeEnd.CUT)
        polled = self._reader.poll(max_rows if left is None else min(max_rows, left))
        if isinstance(polled, Pending):
            return polled
        self._source.tapes.heard()
        if isinstance(polled, EndOfSplit):
            return self._ended(TapeEnd.READ)
        until = self._source.until
        until_ms = None if until is None else until(self._split.id)
        if isinstance(polled, TimeReached):
            if until_ms is not None and polled.event_time_ms >= until_ms:
                return self._ended(TapeEnd.CUT)
            self._tape.reached(polled)
            return polled
        rows = polled if until_ms is None else self._rows_before(polled, until_ms)
        rows = self._source.tapes.limited(rows)
        if rows.num_rows:
            self._tape.add(rows, capabilities.places(self._reader))
        return rows

    def _rows_before(self, batch: Batch, until_ms: int) -> Batch:
        """Return the rows before the split's first one with that time."""
        watermark = self._source.watermark
        assert watermark is not None, "a length of event time needs one"
        beyond = event_times(batch, watermark, first=False) >= until_ms
        if not beyond.any():
            return batch
        self._cut = True
        return batch.slice(0, int(beyond.argmax()))

    def _ended(self, end: TapeEnd) -> EndOfSplit:
        return self._source.ended(self._split, self._tape, end)
