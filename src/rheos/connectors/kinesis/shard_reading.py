"""Thread that reads a shard into the buffer of its reader."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rheos.connectors.aws.client_options import AwsOptions
from rheos.connectors.aws.session import answered_at_ms
from rheos.connectors.chunk_buffer import ChunkBuffer
from rheos.connectors.kinesis.aggregates import HashRange
from rheos.connectors.kinesis.positions import ShardPosition, timed_chunk
from rheos.connectors.kinesis.records import REJECTED, ShardRecord, decoded_chunk
from rheos.connectors.kinesis.session import LOGGER, kinesis_session, named_stream
from rheos.connectors.kinesis.shards import ShardSplit
from rheos.connectors.message_chunks import MessagePosition, MessageReader
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.reading_thread import ReadingThread
from rheos.core.connectors.contract import ReaderContext
from rheos.core.errors import InputError

_MOST_RECORDS = 10_000
_HOUR_MS = 3_600_000
_CHECKED_MS = 23 * _HOUR_MS
"""Age of unread records above which the retention is checked. It is a day at least."""


@dataclass(frozen=True)
class ShardRows:
    """Configuration of the rows to read. Frozen: it is sent to the workers."""

    options: AwsOptions
    stream: str
    decoding: PayloadDecoding
    poll_ms: int
    """Time between two requests for records of one shard."""
    retry_for_ms: int
    continues: bool
    """Whether to continue after records were dropped."""


class ShardReading(ReadingThread):
    """Reading of one shard in a thread.

    Args:
        of: the rows.
        split: what to read.
        position: position of a checkpoint; None for a new job.
    """

    def __init__(
        self,
        of: ShardRows,
        split: ShardSplit,
        position: ShardPosition | None,
        ctx: ReaderContext,
    ) -> None:
        super().__init__("rheos-kinesis", ctx, of.retry_for_ms, LOGGER)
        self._of = of
        self._split = split
        self._from = ShardPosition(MessagePosition()) if position is None else position
        self._at = self._from.at
        self.progress = self._from
        """Position after the last record that was read. It is replaced, never changed."""
        self._own = HashRange(int(split.first_hash), int(split.last_hash))
        self._decoder = of.decoding.decoder()
        self._is_finished = False
        doing = f"{split.shard} of the stream {of.stream!r} cannot be read"
        self._session = kinesis_session(of.options, doing)
        self._ctx = ctx

    def start(self) -> ShardReader:
        """Start the thread, and return the reader of its rows."""
        reader = ShardReader(self, self.buffer, self._from, self._ctx, self._split.shard)
        self.run()
        return reader

    # --- in the thread
    # ------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        return self._is_finished

    def disconnect(self) -> None:
        self._session.close()

    def read(self) -> None:
        """Read until the end of the shard, or until the buffer is closed."""
        begin = {"ShardId": self._split.shard, **self._begin(), **named_stream(self._of.stream)}
        begun = self._session.ask(lambda client: client.get_shard_iterator(**begin))
        iterator = begun["ShardIterator"]
        self._check_retention(answered_at_ms(begun))
        while iterator is not None and not self._is_finished and self.buffer.wait_until_room():
            asked_s = time.monotonic()
            answer = self._records(iterator)
            self.patience.restore()
            now_ms = answered_at_ms(answer)
            self._check_retention(now_ms)
            read_ms = now_ms - int(answer.get("MillisBehindLatest") or 0)
            self._give([ShardRecord.of(each) for each in answer["Records"]], read_ms)
            iterator = answer.get("NextShardIterator")
            self._is_finished |= iterator is None or self._has_ended(answer)
            if not self._is_finished:
                self.buffer.pause(self._of.poll_ms / 1000 - (time.monotonic() - asked_s))
        self._is_finished |= iterator is None

    def _records(self, iterator: str) -> Any:
        request = {"ShardIterator": iterator, "Limit": _MOST_RECORDS}
        return self._session.ask(lambda client: client.get_records(**request))

    def _begin(self) -> dict[str, Any]:
        """Return where the next request begins."""
        at, since_ms = self._at, self._split.since_ms
        if at.partly is not None:
            return {
                "ShardIteratorType": "AT_SEQUENCE_NUMBER",
                "StartingSequenceNumber": str(at.partly),
            }
        if at.after:
            return {
                "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
                "StartingSequenceNumber": str(at.after),
            }
        if since_ms is not None:
            since = datetime.fromtimestamp(since_ms / 1000, UTC)
            return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": since}
        return {"ShardIteratorType": "TRIM_HORIZON"}

    def _check_retention(self, now_ms: int) -> None:
        """Raise InputError if records that were not read may have been dropped."""
        read_ms = self.progress.read_ms
        if not read_ms or now_ms - read_ms < _CHECKED_MS:
            return
        named = named_stream(self._of.stream)
        found = self._session.ask(lambda client: client.describe_stream_summary(**named))
        hours = int(found["StreamDescriptionSummary"]["RetentionPeriodHours"])
        if now_ms - read_ms < hours * _HOUR_MS:
            return
        self.buffer.count("removed")
        if not self._of.continues:
            since = datetime.fromtimestamp(read_ms / 1000, UTC).isoformat(timespec="seconds")
            raise InputError(
                f"{self._split.shard} of {self._of.stream!r} was read up to {since}, and the "
                f"stream keeps records for {hours} hours: records may be lost",
                hint="raise the retention of the stream above the longest outage of the job. To "
                'continue with the first record that exists, write on_removed="continue"',
            )
        self.progress = ShardPosition(self._at)

    def _give(self, records: list[ShardRecord], read_ms: int) -> None:
        end_ms = self._split.end_ms
        if end_ms is not None:
            later = (at for at, each in enumerate(records) if each.time_us // 1000 > end_ms)
            end = next(later, len(records))
            self._is_finished = end < len(records)
            records = records[:end]
        if records:
            decoding, shard = self._of.decoding, self._split.shard
            chunk = decoded_chunk(decoding, shard, self._own, records, self._decoder, self._at)
            self.buffer.give(timed_chunk(chunk, self.progress.read_ms, read_ms))
            self._at = MessagePosition(records[-1].number)
        self.progress = ShardPosition(self._at, read_ms)

    def _has_ended(self, answer: Any) -> bool:
        """Return whether an answer has the last records, and is later than the end of the source."""
        end_ms = self._split.end_ms
        is_last = not answer.get("MillisBehindLatest")
        return end_ms is not None and is_last and answered_at_ms(answer) > end_ms


class ShardReader(MessageReader):
    """Reader of one shard."""

    def __init__(
        self,
        reading: ShardReading,
        buffer: ChunkBuffer,
        position: ShardPosition,
        ctx: ReaderContext,
        shard: str,
    ) -> None:
        super().__init__(buffer, position, ctx, shard, "sequence_number", REJECTED, str)
        self._reading = reading

    def position(self) -> bytes:
        # While no record arrives, the time advances without a chunk, which would end the idleness.
        progress = self._reading.progress
        at = self._position
        is_last = isinstance(at, ShardPosition) and at.at == progress.at
        return (progress if is_last else at).encode()

    def close(self) -> None:
        self._reading.close()
