"""The query of Structured Streaming that runs on the driver alongside a job and stages its
micro-batches.

Spark passes each batch to `foreachBatch`, and records it as done when that returns. Here it returns
when the batch is staged. After a failure in between, Spark passes the batch again under its number: if
that number is staged already, nothing is written again.

The query pauses while too many staged batches wait for readers. If the query dies, it is restarted from
Spark's checkpoint; if it dies repeatedly without completing a batch, the attempt fails with its error.
The next attempt, if any, starts the query again.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import pyarrow as pa

from rheos.connectors.spark.collecting import reason_of
from rheos.connectors.spark.staging import check_same, stage
from rheos.connectors.spark.stream import StreamSettings
from rheos.connectors.spark.stream_folder import StreamFolder, StreamNote
from rheos.connectors.spark.stream_lanes import StagedStream, lane_of
from rheos.core.errors import (
    CheckpointError,
    ConfigurationError,
    InputError,
    JobFailedError,
    RheosError,
    UnavailableError,
    UnrestorableError,
    unexpected,
)
from rheos.core.protocol.splits import LISTING_TRIES

_MAX_DEATHS = 3
"""Maximum number of restarts without a batch in between; after that the attempt does not restart the
query."""
_LOOK_S = 0.1
_REMOVED_AT_ONCE = 100
_NOTED_WITHIN_S = 10


class StreamQuery:
    """Query that `started` starts. Any thread may call `check` and `end`."""

    def __init__(
        self,
        frame: Any,
        schema: pa.Schema,
        event_time: str | None,
        settings: StreamSettings,
        folder: str,
    ) -> None:
        self._frame = frame
        self._schema = schema
        self._event_time = event_time
        self._settings = settings
        self._folder = StreamFolder(folder)
        self._query: Any = None
        self._error: RheosError | None = None
        """Error that staging has raised in the current or last query, or the reason why no query was
        started."""
        self._first = 0
        """Number of the oldest batch that exists."""
        self._next = 0
        """Number of the next batch."""
        self._deaths = 0
        self._died_at = -1
        """Number of the next batch when the query died last."""
        self._failures = 0
        """Number of consecutive failures of `check`."""
        self._known = threading.Event()
        """Set once the query is known to be the one whose batches are stored here."""
        self._ended = threading.Event()

    # --- calls from the owner
    # -------------------------------------------------------------------------------

    def started(self) -> StagedStream:
        """Start the query and return the stream to read; with `available_now`, return after everything
        is staged. Raises RheosError."""
        try:
            return self._started()
        except OSError as error:
            self.end()
            raise CheckpointError(
                f"the stream cannot be staged in {self._folder.url}: {error}",
                hint="the job's checkpoint directory must be writable for the driver and every worker",
            ) from error
        except BaseException:
            self.end()
            raise

    def check(self) -> None:
        """Restart a query that has died, and raise the reason as a RheosError.

        When it has raised `LISTING_TRIES` times in a row, the attempt has failed. The next call is that
        of another attempt, and restarts the query even if this attempt had given up.
        """
        if self._ended.is_set():
            return
        if self._query.isActive:
            self._failures = 0
            return
        self._failures += 1
        if self._deaths <= _MAX_DEATHS:
            self._deaths = self._deaths + 1 if self._died_at == self._next else 1
            self._died_at = self._next
        is_last = self._failures == LISTING_TRIES
        is_given_up = is_last or self._deaths > _MAX_DEATHS
        error = self._failure(is_given_up)
        if is_last:
            self._failures = self._deaths = 0
        elif not is_given_up:
            self._start()
        raise error

    def end(self) -> None:
        self._ended.set()
        self._known.set()
        self._stop()

    def _stop(self) -> None:
        if self._query is not None:
            # The session, and the query with it, may not exist any more.
            with suppress(Exception):
                self._query.stop()

    def __reduce__(self) -> Any:
        raise AssertionError("the query is not sent to workers")

    # --- starting -------------------------------------------------------------------------------------

    def _started(self) -> StagedStream:
        folder, settings = self._folder, self._settings
        note = folder.note()
        if note is not None:
            self._check_same(note)
            batches = folder.whole(note.query)
            if batches is not None:
                return self._source(note.query, batches)
        self._find_next()
        # The job may start from a savepoint, later than the end of its last run.
        folder.unmark("completed", settings.lanes)
        self._start()
        query = str(self._query.id)
        self._settle(query)
        if not settings.available_now:
            return self._source(query, None)
        self._run_out()
        folder.put_whole(query, self._next)
        return self._source(query, self._next)

    def _source(self, query: str, batches: int | None) -> StagedStream:
        return StagedStream(
            self._folder.url,
            query,
            self._schema,
            self._event_time,
            self._settings.lanes,
            batches,
            self if batches is None else None,
        )

    def _check_same(self, note: StreamNote) -> None:
        settings = self._settings
        found = pa.ipc.read_schema(pa.py_buffer(note.schema))
        check_same(found, note.event_time, self._schema, self._event_time, self._folder.url)
        for name, was, now in (
            ("lanes", note.lanes, settings.lanes),
            ("available_now", note.available_now, settings.available_now),
        ):
            if was != now:
                raise ConfigurationError(
                    f"this job started reading the stream with {name}={was}, but {name} is now {now}",
                    hint=f"write {name}={was}, or start a job with another name",
                )

    def _find_next(self) -> None:
        numbers = self._folder.numbers()
        whole = [number for number in numbers[-2:] if self._folder.batch(number) is not None]
        self._first = numbers[0] if numbers else 0
        self._next = whole[-1] + 1 if whole else self._first

    def _settle(self, query: str) -> None:
        """Check that the batches in the folder are those of this query."""
        note = self._folder.note()
        if note is None:
            schema = self._schema.serialize().to_pybytes()
            settings = self._settings
            self._folder.put_note(
                StreamNote(
                    of=self._folder.identity,
                    query=query,
                    schema=schema,
                    event_time=self._event_time,
                    lanes=settings.lanes,
                    available_now=settings.available_now,
                )
            )
            note = self._folder.note()
        assert note is not None
        if note.query != query:
            raise UnrestorableError(
                f"Spark's progress in the stream was stored in {self._folder.query_url}, which no "
                f"longer exists: Spark would read the stream from its beginning and repeat rows that "
                f"are already staged",
                hint="restore that folder from a copy; or start a job with another name, which reads "
                "the whole stream",
            )
        self._known.set()

    def _start(self) -> None:
        from rheos.connectors.spark.versions import QUERY_ERRORS

        if self._query is not None:
            # Spark keeps the name of an inactive query until it has recorded its end.
            with suppress(*QUERY_ERRORS):
                self._query.awaitTermination(_NOTED_WITHIN_S)
        settings = self._settings
        writer = (
            self._frame.writeStream.foreachBatch(self._take)
            .queryName(f"rheos {self._folder.identity}")
            .option("checkpointLocation", self._folder.query_url)
        )
        if settings.available_now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{settings.trigger_ms} milliseconds")
        self._error = None
        try:
            self._query = writer.start()
        except QUERY_ERRORS as error:
            # If the query ran before, the program is correct, and something that it needs is
            # unavailable.
            kind = UnavailableError if self._known.is_set() else InputError
            self._error = kind(
                f"Spark cannot start the stream: {reason_of(error)}",
                hint="check that it runs without Rheos: df.writeStream.format('noop').start()",
            )
            raise self._error from error
        if self._ended.is_set():
            # `end` may have run before the query existed.
            self._stop()

    def _run_out(self) -> None:
        from rheos.connectors.spark.versions import QUERY_ERRORS

        try:
            while not self._query.awaitTermination(1):
                pass
        except QUERY_ERRORS:
            raise self._failure(is_given_up=True) from None

    def _failure(self, is_given_up: bool) -> RheosError:
        """Return the error of a query that has died. A failure in Spark may be temporary."""
        if self._error is not None:
            return self._error
        cause = self._query.exception()
        what = "something else stopped the query of the stream"
        if cause is not None:
            what = f"the query of the stream failed: {reason_of(cause)}"
        hint = "see Spark's log for details"
        if not is_given_up:
            hint = f"the query is restarted; {hint}"
        return UnavailableError(what, hint=hint, detail=None if cause is None else str(cause))

    # --- in the query's thread ------------------------------------------------------------------------

    def _take(self, frame: Any, number: int) -> None:
        """Stage a batch. Spark calls it for one batch after the other."""
        try:
            self._take_next(frame, number)
        except BaseException as error:
            self._error = self._known_error(error, number)
            # Spark searches the message of this error, and its search fails on a long one.
            raise JobFailedError(f"batch {number} of the stream was not staged") from None

    def _take_next(self, frame: Any, number: int) -> None:
        self._known.wait()
        self._hold()
        if number > self._next:
            raise UnrestorableError(
                f"Spark continues with batch {number} of the stream, but batch {self._next} is "
                f"not staged in {self._folder.url}",
                hint="if it was removed, restore the folder from a copy; or start a job with "
                "another name, which reads the stream anew",
            )
        if number == self._next:
            self._stage(frame, number)
            self._remove_read()

    def _known_error(self, error: BaseException, number: int) -> RheosError:
        if isinstance(error, RheosError):
            return error
        if isinstance(error, OSError):
            return CheckpointError(
                f"batch {number} of the stream cannot be staged in {self._folder.url}: {error}",
                hint="the job's checkpoint directory must be writable for the driver and every worker",
            )
        return unexpected(error)

    def _stage(self, frame: Any, number: int) -> None:
        manifest = stage(
            frame,
            self._schema,
            self._event_time,
            self._folder.batch_url(number),
            files=self._settings.lanes,
            what=f"batch {number} of the stream",
            now_ms=time.time_ns() // 1_000_000,
        )
        assert all(lane_of(file) < self._settings.lanes for file in manifest.files), manifest.files
        self._folder.clear(number, manifest)
        self._next = number + 1

    def _hold(self) -> None:
        """Wait until the number of unread batches is below the limit."""
        while not self._ended.is_set():
            if self._settings.available_now or self._unread() < self._settings.max_unread:
                return
            self._ended.wait(_LOOK_S)
        raise ConfigurationError("the job has ended, and so has the query of the stream")

    def _unread(self) -> int:
        if self._next - self._first < self._settings.max_unread:
            return 0
        lanes = self._settings.lanes
        reached = self._folder.marks("reached", lanes)
        return self._next - min(reached.get(lane, self._first) for lane in range(lanes))

    def _remove_read(self) -> None:
        """Remove batches that every lane has read by the newest checkpoint and that are old enough."""
        lanes = self._settings.lanes
        completed = self._folder.marks("completed", lanes)
        if len(completed) < lanes:
            return
        end = min(*completed.values(), self._next - 1, self._first + _REMOVED_AT_ONCE)
        old_ms = time.time_ns() // 1_000_000 - self._settings.retain_ms
        while self._first < end:
            manifest = self._folder.batch(self._first)
            if manifest is not None:
                if manifest.staged_ms is None or manifest.staged_ms > old_ms:
                    return
                self._folder.remove(self._first, manifest)
            self._first += 1
