"""Messages that were received and not deleted. The service hides each for a time, which is extended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class HeldMessage:
    """A message that was received and not deleted."""

    id: str
    number: int
    """Number of the message in the split."""
    receipt: str
    """Receipt of the newest delivery, which requests name."""
    hidden_until_s: float


class HeldMessages:
    """Held messages of one consumer, in the order of their numbers.

    Args:
        hidden_s: time for which a delivery hides a message.
    """

    def __init__(self, hidden_s: float) -> None:
        self._hidden_s = hidden_s
        self._by_id: dict[str, HeldMessage] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def is_new(self, id: str, receipt: str, number: int, now_s: float) -> bool:
        """Note a delivery, and return whether the message is not held already.

        Args:
            id: Id of the message.
            receipt: Receipt of the delivery.
            number: Number of the message if it is new.
            now_s: The time before the request.
        """
        held = self._by_id.get(id)
        if held is None:
            self._by_id[id] = HeldMessage(id, number, receipt, now_s + self._hidden_s)
            return True
        held.receipt, held.hidden_until_s = receipt, now_s + self._hidden_s
        return False

    def taken_to(self, number: int) -> list[HeldMessage]:
        """Forget the messages up to a number, and return them."""
        found: list[HeldMessage] = []
        for held in self._by_id.values():
            if held.number > number:
                break
            found.append(held)
        self.forget(held.id for held in found)
        return found

    def due(self, now_s: float) -> list[HeldMessage]:
        """Return the messages that become visible within half of the time."""
        until_s = now_s + self._hidden_s / 2
        return [held for held in self._by_id.values() if held.hidden_until_s <= until_s]

    def extended(self, messages: Sequence[HeldMessage], now_s: float) -> None:
        """Note that messages are hidden anew, by a request after this time."""
        for held in messages:
            held.hidden_until_s = now_s + self._hidden_s

    def forget(self, ids: Iterable[str]) -> None:
        """Forget messages. The service may deliver them again, as new ones."""
        for id in [*ids]:
            self._by_id.pop(id, None)

    def all(self) -> list[HeldMessage]:
        """Return all messages."""
        return [*self._by_id.values()]
