"""Sources whose server stores a message until it is acknowledged, which happens at a checkpoint.

reader                           the runtime                       the reader's thread
returns messages 1 to n
position(): n      ───────────>  a checkpoint contains n
                                 completed(n)     ─────────────>   acknowledges 1 to n

The server sends a message that was not acknowledged again after a failure. So no message is lost, and
those whose checkpoint was complete, but that were not acknowledged yet, are read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rheos.connectors.message_chunks import MessagePosition
from rheos.core.connectors.contract import SourceClient


class AcknowledgedReading(Protocol):
    """Reading of one split. Its thread acknowledges messages."""

    def acknowledge(self, number: int) -> None:
        """Let the thread acknowledge all messages up to a number. Any thread may call it."""

    def close(self) -> None:
        """End the thread."""


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
