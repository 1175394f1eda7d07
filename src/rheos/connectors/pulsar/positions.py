"""Numbers of messages in a partition.

The broker identifies a message by its ledger, its entry, and its index in a batch. One long number
has all three, in their order.
"""

from __future__ import annotations

from typing import Any

from rheos.connectors.pulsar.client_options import client

_ENTRY_BITS = 64
_BATCH_BITS = 32
_NO_BATCH = 2
"""Added to the index in a batch, which is -1 without a batch: 0 is before the first message."""


class MessageNumber(int):
    """Number of a message, shown in the notation of Pulsar's tools: `ledger:entry:index`."""

    @classmethod
    def of(cls, message_id: Any) -> MessageNumber:
        """Return the number of a message id of the client."""
        high = (message_id.ledger_id() << _ENTRY_BITS) + message_id.entry_id()
        return cls((high << _BATCH_BITS) + message_id.batch_index() + _NO_BATCH)

    def message_id(self, partition: int) -> Any:
        """Return the client's message id in a partition."""
        ledger, entry, index = self._parts()
        return client().MessageId(partition, ledger, entry, index)

    def _parts(self) -> tuple[int, int, int]:
        high, low = divmod(int(self), 1 << _BATCH_BITS)
        ledger, entry = divmod(high, 1 << _ENTRY_BITS)
        return ledger, entry, low - _NO_BATCH

    def __str__(self) -> str:
        ledger, entry, index = self._parts()
        return f"{ledger}:{entry}" if index < 0 else f"{ledger}:{entry}:{index}"
