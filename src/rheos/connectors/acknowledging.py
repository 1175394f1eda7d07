"""Sources whose server stores a message until it is acknowledged, which happens at a checkpoint.

reader                           the runtime                       the reader's thread
returns messages 1 to n
position(): n      ───────────>  a checkpoint contains n
                                 completed(n)     ─────────────>   acknowledges 1 to n

The server sends a message that was not acknowledged again after a failure. So no message is lost, and
those whose checkpoint was complete, but that were not acknowledged yet, are read again.
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from rheos.connectors.decoded_source import DecodedSource
from rheos.connectors.message_chunks import MessagePosition, MessageReader
from rheos.connectors.message_decoding import PayloadDecoding
from rheos.connectors.reading_thread import ReadingThread
from rheos.core.connectors.contract import (
    Polled,
    ReaderContext,
    SourceClient,
    Split,
    SplitReader,
)


@dataclass(frozen=True, kw_only=True)
class AcknowledgedRows:
    """Configuration of the rows to read. Frozen: it is sent to the workers."""

    decoding: PayloadDecoding
    retry_for_ms: int
    at_checkpoints: bool = True
    """Whether messages are acknowledged at checkpoints, not when they are read."""


@dataclass(frozen=True)
class AcknowledgingSource(DecodedSource):
    """Source whose messages are acknowledged. Subclasses list the splits, and begin to read one."""

    of: AcknowledgedRows
    bounded: ClassVar[bool] = False  # type: ignore[misc]

    @abstractmethod
    def new_reading(
        self, split: Split, position: MessagePosition | None, ctx: ReaderContext
    ) -> AcknowledgedReading:
        """Return the reading of a split, which has not begun."""

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        return AcknowledgingClient()

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        assert isinstance(ctx.client, AcknowledgingClient)
        at = None if position is None else MessagePosition.decode(position)
        reading = self.new_reading(split, at, ctx)
        ctx.client.add(split.id, reading)
        reader = AcknowledgingReader(reading, split.id, self.of, ctx, self.rejected)
        reading.run()
        return reader


class AcknowledgedReading(ReadingThread):
    """Reading of one split in a thread, which acknowledges the messages. It numbers them.

    Args:
        name: name of the thread.
        split: name of the split, for errors.
        of: the rows.
        position: position of a checkpoint; None for a new job. Numbers of messages continue after it.
        ctx: context of the reader.
        logger: receives the reason of an outage.
    """

    def __init__(
        self,
        name: str,
        split: str,
        of: AcknowledgedRows,
        position: MessagePosition | None,
        ctx: ReaderContext,
        logger: logging.Logger,
    ) -> None:
        super().__init__(name, ctx, of.retry_for_ms, logger)
        self._split = split
        self._decoding = of.decoding
        self._decoder = of.decoding.decoder()
        self.begin = MessagePosition(0 if position is None else position.after)
        """Position of the first message."""
        self.number = self.begin.after
        """Number of the last message that was received. Only the thread uses it."""
        self._complete = self.number
        self._lock = threading.Lock()
        """Lock for `_complete`."""
        self._noted = threading.Event()
        """Set while `_complete` may have risen since the thread last waited for that."""

    def acknowledge(self, number: int) -> None:
        """Let the thread acknowledge all messages up to a number. Any thread may call it."""
        with self._lock:
            self._complete = max(self._complete, number)
        self._noted.set()

    # --- in the thread
    # ------------------------------------------------------------------------------

    @property
    def complete(self) -> int:
        """Number of the last message to acknowledge."""
        return self._complete

    def wait_for_checkpoint(self, within_s: float) -> None:
        """Wait until messages are to be acknowledged, or until this time in seconds has passed."""
        self._noted.wait(within_s)
        self._noted.clear()

    def give(self, payloads: Sequence[bytes], field: Callable[[str], pa.Array]) -> None:
        """Number and decode messages, and enqueue their rows.

        Args:
            payloads: Their payloads, of which there is at least one.
            field: Returns a field of all messages by its name.

        Raises:
            InputError: One cannot be decoded, and `on_error` is "fail".
        """
        before = MessagePosition(self.number)
        self.number += len(payloads)
        numbers = np.arange(before.after + 1, self.number + 1, dtype=np.int64)
        decoding = self._decoding
        self.buffer.give(decoding.chunk(self._split, numbers, payloads, field, self._decoder, before))


class AcknowledgingReader(MessageReader):
    """Reader of one split."""

    def __init__(
        self,
        reading: AcknowledgedReading,
        split: str,
        of: AcknowledgedRows,
        ctx: ReaderContext,
        rejected: pa.Schema,
    ) -> None:
        super().__init__(reading.buffer, reading.begin, ctx, split, "message", rejected)
        self._reading = reading
        self._at_checkpoints = of.at_checkpoints

    def poll(self, max_rows: int) -> Polled:
        polled = super().poll(max_rows)
        if not self._at_checkpoints and isinstance(self._position, MessagePosition):
            self._reading.acknowledge(self._position.after)
        return polled

    def close(self) -> None:
        self._reading.close()


class AcknowledgingClient(SourceClient):
    """Client of one subtask. It passes completed checkpoints to the readings of its splits."""

    def __init__(self) -> None:
        self._readings: dict[str, AcknowledgedReading] = {}

    def add(self, split: str, reading: AcknowledgedReading) -> None:
        """Register the reading of a split, by the id of the split."""
        self._readings[split] = reading

    def completed(self, positions: Mapping[str, bytes]) -> None:
        for split, position in positions.items():
            # `completed` may run while splits are opened.
            if (reading := self._readings.get(split)) is not None:
                reading.acknowledge(MessagePosition.decode(position).after)

    def close(self) -> None:
        for reading in self._readings.values():
            reading.close()
