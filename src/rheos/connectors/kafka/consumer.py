"""Consumer for all partitions of a subtask: a thread that reads ahead and decodes.

    mailbox                                    thread
    open a reader  ── new feeds ──────────>    checks that the topic is still the same, and assigns it
    poll a reader  <── chunks of the feed ──   consumes, decodes, cuts by partition, wakes the mailbox
    a chunk taken  ── its bytes ──────────>    continues if it had stopped at the limit

A limit over all partitions bounds the rows that are read ahead. If a partition is not polled and fills
the buffer, it is paused, and the others are read. Messages come from librdkafka's own queue, which is
bounded, too (`queued.max.messages.kbytes`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rheos.connectors.calls.outside_calls import OutsideCall, thread
from rheos.connectors.kafka.bounds import Offsets, Partition
from rheos.connectors.kafka.client_options import ClientOptions, client
from rheos.connectors.kafka.cluster import KafkaCluster
from rheos.connectors.kafka.decoding import MessageDecoder, MessageDecoding, MessageRun
from rheos.connectors.kafka.errors import is_refusal, kafka_error, may_pass
from rheos.connectors.kafka.messages import numbers
from rheos.connectors.kafka.partition import (
    PartitionFeed,
    PartitionReader,
    PartitionSplit,
    Position,
    RecordChunk,
)
from rheos.connectors.kafka.topic_watch import AGAIN_S, TopicWatch
from rheos.connectors.unreachable_servers import SERVERS_AWAY
from rheos.core.connectors.contract import ReaderContext, SourceClient
from rheos.core.errors import RheosError, UnavailableError, unexpected

AHEAD_BYTES = 1 << 25
"""Maximum size of decoded rows that wait to be read, over all partitions."""
MESSAGES = 16_384
"""Maximum number of messages that are decoded together."""
AWAY = "brokers_away"
"""Counter of the times at which no broker was reachable, or a broker refused requests temporarily."""
_WAIT_S = 0.1
_STALLED_S = 1.0
"""Time without any read after which full partitions are paused, even if no other partition is known to
have more: the client's own queue may be full of their messages and block other partitions."""
_ENDS_EVERY_S = 0.5
"""Interval at which the partitions' ends, as known to the client, are recorded."""
_FEW_BYTES = 1 << 18
_GATHER_S = 0.02
"""Time for which the client gathers messages while fewer than `_FEW_BYTES` wait to be read."""
POLL = OutsideCall(
    server="Kafka",
    call="source: the consumer polls, commits to its group, and closes",
    limit_s=180.0,
    limit="a separate thread waits, and no rows arrive meanwhile; 180 s if a call does not return",
    then="the source resumes within about a second of the brokers' return. If a call does not "
    "return, the attempt restarts with a new consumer, from the offsets of its checkpoint",
)
_END_WITHIN_S = 1.0
"""Maximum time that `close` waits for the thread. The client waits for offsets that the group has not
confirmed, for minutes if no broker is up. These offsets are only for monitoring, and the next attempt
does not need them. The thread then closes the client by itself, or ends with the process."""
_FETCHING: Mapping[str, Any] = {
    "fetch.wait.max.ms": 100,
    # Time for which a partition is not fetched once the queue is full. With the default of a second, a
    # fast job empties the queue and then waits.
    "fetch.queue.backoff.ms": 10,
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 32_768,
}
"""Defaults for options that the user does not set."""
_LOOKED_WITHIN_S = 5.0
"""Seconds that a check of the topics may take while they are read; nothing is polled meanwhile. If an
answer is lost with a connection, reading resumes this long after the connection is restored."""
_NO_GROUP = "rheos"
"""Value of `group.id` if the user sets none. The client requires one, but uses it only to commit. So a
missing permission for this group is not an error."""


class TopicConsumer(SourceClient):
    """Consumer that the readers of one subtask share."""

    def __init__(
        self,
        options: ClientOptions,
        decoding: MessageDecoding,
        *,
        group: str | None,
        read_committed: bool,
        bounded: bool,
        now: Offsets | None,
        ctx: ReaderContext,
    ) -> None:
        """Create the consumer. `now` is the offset per partition at which a run as of now stops."""
        self._options = options
        self._decoding = decoding
        self._group = group
        self._read_committed = read_committed
        self._stops = bounded or now is not None
        self._now = now
        self._ctx = ctx
        self._failed: RheosError | None = None
        self._lock = threading.Condition()
        # Attributes guarded by the lock:
        self._closing = False
        self._ahead_bytes = 0
        self._taken_at_s = 0.0
        self._turned_at_s = 0.0
        """Time at which the thread began its latest iteration, by the monotonic clock."""
        self._new: deque[PartitionFeed] = deque()
        self._left: deque[PartitionFeed] = deque()
        self._counts: Counter[str] = Counter()
        self._to_commit: list[Any] = []
        # Attributes that only the thread uses:
        self._feeds: dict[Partition, PartitionFeed] = {}
        self._assigned_again_at_s = 0.0
        self._ends_at_s = 0.0
        self._refused: Any = None
        self._consumer: Any = None
        self._watch: TopicWatch | None = None
        self._thread: threading.Thread | None = None

    # --- calls from readers, in the mailbox
    # ---------------------------------------------------------------

    def open(self, split: PartitionSplit, position: bytes | None) -> PartitionReader:
        """Return a reader of one partition."""
        begin = Position(split.start) if position is None else Position.decode(position)
        # The next run reads partitions that were created since then.
        now = None if self._now is None else self._now.get((split.topic, split.partition), 0)
        feed = PartitionFeed(split, begin.offset, now)
        with self._lock:
            self._new.append(feed)
        if self._thread is None:
            self._turned_at_s = time.monotonic()
            self._thread = thread(self._run, "rheos-kafka")
            self._thread.start()
        return PartitionReader(feed, begin, self._ctx, self)

    def report(self) -> None:
        """Add the thread's counts to the operator's counters, and raise the thread's error."""
        if self._counts:
            with self._lock:
                counted, self._counts = self._counts, Counter()
            for name, times in counted.items():
                self._ctx.count(name, times)
        if self._failed is not None:
            raise self._failed
        if self._thread is not None and time.monotonic() - self._turned_at_s > POLL.limit_s:
            raise UnavailableError(
                f"the consumer of {self._options.brokers} has not returned for {POLL.limit_s:g} s",
                hint="the attempt restarts with a new consumer, from the offsets of its checkpoint",
            )

    def leave(self, feed: PartitionFeed) -> None:
        """Stop reading a partition whose reader is closed."""
        with self._lock:
            self._left.append(feed)

    def taken(self, chunk: RecordChunk) -> None:
        """Release the buffer space of a chunk that a reader has returned."""
        with self._lock:
            self._ahead_bytes -= chunk.size_bytes
            self._taken_at_s = time.monotonic()
            self._lock.notify()

    # --- calls from the subtask
    # ---------------------------------------------------------------------------

    def completed(self, positions: Mapping[str, bytes]) -> None:
        """Let the thread commit the offsets to the group, for monitoring. A commit from the calling
        thread would block while the thread has nothing to poll."""
        if self._group is None:
            return
        offsets = []
        for id, position in positions.items():
            topic, _, partition = id.rpartition("/")
            offset = Position.decode(position).offset
            offsets.append(client().TopicPartition(topic, int(partition), offset))
        with self._lock:
            self._to_commit = offsets
            self._lock.notify()

    def close(self) -> None:
        with self._lock:
            self._closing = True
            self._lock.notify()
        if self._thread is not None:
            self._thread.join(_END_WITHIN_S)

    # --- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            cluster = KafkaCluster(
                self._options,
                read_committed=self._read_committed,
                given_up=lambda: self._closing,
                within_s=_LOOKED_WITHIN_S,
            )
            self._watch = TopicWatch(cluster, time.monotonic)
            self._consumer = self._make_client()
            self._decoder = MessageDecoder(self._decoding)
            self._read()
        except RheosError as error:
            self._failed = error
        except client().KafkaException as error:
            self._failed = self._error(error)
        except Exception as error:
            self._failed = unexpected(error)
        finally:
            if self._consumer is not None:
                with contextlib.suppress(Exception):
                    self._consumer.close()
            self._ctx.wake()

    def _make_client(self) -> Any:
        own: dict[str, Any] = {
            "group_id": self._group or _NO_GROUP,
            # the client reports an invalid offset, and never skips records
            "auto_offset_reset": "error",
            "enable_auto_commit": False,
            "enable_auto_offset_store": False,
            "enable_partition_eof": self._stops,
            "allow_auto_create_topics": False,
            "isolation_level": "read_committed" if self._read_committed else "read_uncommitted",
        }
        config = self._options.config("rheos-source", **own)
        calls = {"error_cb": self._on_error, "on_commit": self._on_commit}
        return client().Consumer({**_FETCHING, **config, **calls})

    def _read(self) -> None:
        while not self._closing:
            self._turned_at_s = time.monotonic()
            self._forget_the_left()
            self._assign_the_new()
            self._commit_to_the_group()
            self._watch_topics()
            if self._reads_on():
                self._gather()
                messages = self._consumed()
                self._note_ends()
                if not self._closing:  # `close` waits for this thread, and decoding is slow.
                    self._take(messages)
            else:
                with self._lock:
                    if self._ahead_bytes >= AHEAD_BYTES and not self._closing:
                        self._lock.wait(_WAIT_S)
            if self._refused is not None:
                raise self._error(self._refused)
        self._commit_to_the_group()

    def _gather(self) -> None:
        """Wait while a small chunk is buffered, so that the next chunk becomes larger. The mailbox is
        busy at that time, and a chunk costs as much as hundreds of rows."""
        with self._lock:
            if 0 < self._ahead_bytes < _FEW_BYTES and not self._closing:
                self._lock.wait(_GATHER_S)

    def _commit_to_the_group(self) -> None:
        with self._lock:
            offsets, self._to_commit = self._to_commit, []
        if offsets:
            # `_on_commit` counts the result.
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def _consumed(self) -> list[Any]:
        """Return the messages that are available; if there are none, wait for the first."""
        first = self._consumer.poll(_WAIT_S)
        return [] if first is None else [first, *self._consumer.consume(MESSAGES - 1, 0)]

    # --- partitions ----------------------------------------------------------------------------------

    def _assign_the_new(self) -> None:
        if not self._new or time.monotonic() < self._assigned_again_at_s:
            return
        new = list(self._new)
        if not self._topics_exist(new):
            self._assigned_again_at_s = time.monotonic() + AGAIN_S
            return
        for feed in new:
            self._new.popleft()
            if not feed.finished:
                self._feeds[feed.partition] = feed
                self._consumer.incremental_assign([self._place(feed)])
        self._ctx.wake()

    def _forget_the_left(self) -> None:
        while self._left:
            feed = self._left.popleft()
            with self._lock:
                self._ahead_bytes -= sum(chunk.size_bytes for chunk in feed.chunks)
                feed.chunks.clear()
            self._unassign(feed)

    def _unassign(self, feed: PartitionFeed) -> None:
        if self._feeds.pop(feed.partition, None) is not None:
            self._consumer.incremental_unassign([self._place(feed)])

    def _finish(self, feed: PartitionFeed) -> None:
        self._unassign(feed)
        feed.finished = True

    def _place(self, feed: PartitionFeed) -> Any:
        return client().TopicPartition(*feed.partition, feed.next)

    def _reads_on(self) -> bool:
        """Return whether to consume. Pauses partitions with full buffers, and resumes empty ones."""
        for feed in self._feeds.values():
            if feed.paused and not feed.chunks:
                feed.paused = False
                self._consumer.resume([self._place(feed)])
        if self._ahead_bytes < AHEAD_BYTES:
            return True
        stalled = time.monotonic() > self._taken_at_s + _STALLED_S
        hungry = [feed for feed in self._feeds.values() if not feed.chunks]
        if not any(stalled or self._has_more(feed) for feed in hungry):
            return False
        full = [feed for feed in self._feeds.values() if feed.chunks and not feed.paused]
        if full:
            self._consumer.pause([self._place(feed) for feed in full])
            for feed in full:
                feed.paused = True
        return True

    def _has_more(self, feed: PartitionFeed) -> bool:
        """Return whether the broker has unread records of the partition, as far as the client knows."""
        high = self._heard_end(feed)
        return bool(high < 0 or high > feed.next)

    def _heard_end(self, feed: PartitionFeed) -> int:
        """Return the offset after the last known record of the partition; below 0 if it is unknown."""
        _, high = self._consumer.get_watermark_offsets(self._place(feed), cached=True)
        return int(high)

    def _note_ends(self) -> None:
        """Record the ends of partitions for the metrics, at intervals."""
        if time.monotonic() < self._ends_at_s:
            return
        self._ends_at_s = time.monotonic() + _ENDS_EVERY_S
        for feed in self._feeds.values():
            if (high := self._heard_end(feed)) >= 0:
                feed.high = high

    # --- messages ------------------------------------------------------------------------------------

    def _take(self, messages: Sequence[Any]) -> None:
        events: Sequence[Any] = ()
        if any(map(client().Message.error, messages)):
            events = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
        if messages:
            SERVERS_AWAY.answered(self)
            self._decode(messages)
        for event in events:
            self._on_event(event)
        if messages or events:
            self._ctx.wake()

    def _decode(self, messages: Sequence[Any]) -> None:
        kept: list[Any] = []
        kept_offsets, runs, ended = [], [], []
        for feed, own in self._by_partition(messages):
            offsets = numbers(client().Message.offset, own)
            # A partition that was paused may deliver records again.
            begin, end = int(np.searchsorted(offsets, feed.next)), len(own)
            if feed.end is not None and offsets[-1] + 1 >= feed.end:
                end = int(np.searchsorted(offsets, feed.end))
                ended.append(feed)
            if begin < end:
                runs.append(MessageRun(feed, len(kept), len(kept) + end - begin))
                kept += own[begin:end]
                kept_offsets.append(offsets[begin:end])
        if kept:
            chunks = self._decoder.chunks(kept, np.concatenate(kept_offsets), runs)
            for run, chunk in zip(runs, chunks, strict=True):
                run.feed.next = chunk.after
                with self._lock:
                    self._ahead_bytes += chunk.size_bytes
                    run.feed.chunks.append(chunk)
        for feed in ended:
            self._finish(feed)

    def _by_partition(self, messages: Sequence[Any]) -> list[tuple[PartitionFeed, list[Any]]]:
        """Return the messages of each feed, in their order."""
        changes = np.diff(numbers(client().Message.partition, messages)) != 0
        if len({topic for topic, _ in self._feeds}) > 1:
            names = [message.topic() for message in messages]
            changes |= np.array([one != other for one, other in pairwise(names)], bool)
        cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(messages)]
        found: dict[Partition, list[Any]] = {}
        for begin, end in pairwise(cuts):
            first = messages[begin]
            found.setdefault((first.topic(), first.partition()), []).extend(messages[begin:end])
        return [(self._feeds[of], own) for of, own in found.items() if of in self._feeds]

    # --- events that are not records ------------------------------------------------------------------

    def _on_event(self, event: Any) -> None:
        assert self._watch is not None
        codes, error = client().KafkaError, event.error()
        feed = self._feeds.get((event.topic(), event.partition()))
        if error.code() == codes._PARTITION_EOF:
            # The partition may end in transaction markers; only this event shows that its end is
            # reached.
            end = None if feed is None else feed.end
            if feed is not None and end is not None and event.offset() >= end:
                self._finish(feed)
        elif error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            if feed is not None:
                raise self._watch.out_of_range(feed.split, feed.next)
        elif error.code() in (
            codes.UNKNOWN_TOPIC_OR_PART,
            codes._UNKNOWN_TOPIC,
            codes._UNKNOWN_PARTITION,
        ):
            self._watch.look_soon()
        elif error.code() != codes.GROUP_AUTHORIZATION_FAILED or self._group is not None:
            self._note(error)

    def _on_error(self, error: Any) -> None:
        """Handle an error that the client reports by itself, such as that a broker is down. The client
        itself retries forever."""
        if is_refusal(error):
            self._refused = error
        elif error.code() == client().KafkaError._ALL_BROKERS_DOWN:
            self._note_failure(error)

    def _on_commit(self, error: Any, _offsets: Any) -> None:
        if error is not None:
            self._count("commits_failed")

    def _note(self, error: Any) -> None:
        """Count an error that may be temporary; raise any other."""
        found = self._error(error)
        if not may_pass(found):
            raise found
        self._note_failure(error)

    def _note_failure(self, error: Any) -> None:
        self._count(AWAY)
        SERVERS_AWAY.failed(self, self._error(error).what)
        if self._watch is not None:
            self._watch.look_soon()  # The answer shows that the brokers are back.

    def _watch_topics(self) -> None:
        assert self._watch is not None
        if self._watch.is_due():
            self._topics_exist(list(self._feeds.values()))

    def _topics_exist(self, feeds: Sequence[PartitionFeed]) -> bool:
        """Return whether the topics are still the same; False if that is unknown at the moment."""
        assert self._watch is not None
        try:
            there = self._watch.topics_exist([feed.split for feed in feeds])
        except UnavailableError as error:
            self._count(AWAY)
            SERVERS_AWAY.failed(self, error.what)
            self._watch.look_soon()
            return False
        SERVERS_AWAY.answered(self)
        return there

    # --- helpers
    # -----------------------------------------------------------------------------------------

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1
        self._ctx.wake()

    def _error(self, error: Any) -> RheosError:
        topics = ", ".join(sorted({topic for topic, _ in self._feeds})) or "topics"
        return kafka_error(error, f"{topics} cannot be read", self._options)
