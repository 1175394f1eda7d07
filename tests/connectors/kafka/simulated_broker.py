"""Simulation of a transaction coordinator and a group coordinator. It has only what matters for
exactly-once, in the worst case: after a commit, readers of the group may not see the transaction until
some time after the next producer was admitted."""

from __future__ import annotations

from dataclasses import dataclass, field

from rheos.connectors.kafka.epoch_commits import TransientError
from rheos.core.errors import TransportError


class FencedError(TransientError):
    def __init__(self) -> None:
        super().__init__(TransportError("another producer has this name"))


@dataclass
class Open:
    producer: int
    epoch: int
    """What it writes, and the mark that goes with it."""


@dataclass
class Name:
    """Transactional id, and the group with the same name."""

    producer: int = 0
    """The one that was let in last."""
    open: Open | None = None
    mark: int | None = None
    settling: list[int] = field(default_factory=list)
    """Marks of committed transactions that the group coordinator has yet to take over."""


class SimulatedBroker:
    def __init__(self) -> None:
        self.names: dict[str, Name] = {}
        self.topic: list[tuple[str, int]] = []
        """The epochs that readers of committed records have seen, by their writers."""

    def create_mark(self, name: str) -> None:
        self.names[name] = Name(mark=0)

    # --- what a producer asks for -----------------------------------------------------------------

    def fence(self, name: str) -> int:
        """Abort other open transactions with this name. A committed one stays committed, but its mark
        may not be visible yet."""
        entry = self.names[name]
        entry.open = None
        entry.producer += 1
        return entry.producer

    def read_mark(self, name: str, *, stable: bool = True) -> int | None:
        entry = self.names[name]
        if stable and entry.settling:
            raise TransientError(TransportError("UNSTABLE_OFFSET_COMMIT"))
        return entry.mark

    def write(self, name: str, producer: int, epoch: int) -> None:
        self._hold(name, producer).open = Open(producer, epoch)

    def commit(self, name: str, producer: int) -> None:
        entry = self._hold(name, producer)
        if entry.open is None:
            raise FencedError
        self.topic.append((name, entry.open.epoch))
        entry.settling.append(entry.open.epoch)
        entry.open = None

    def _hold(self, name: str, producer: int) -> Name:
        entry = self.names[name]
        if entry.producer != producer:
            raise FencedError
        return entry

    # --- what it does by itself -------------------------------------------------------------------

    def settle(self, name: str) -> None:
        """Let the group coordinator apply committed offsets."""
        entry = self.names[name]
        for mark in entry.settling:
            entry.mark = mark
        entry.settling = []

    def time_out(self, name: str) -> None:
        """Abort a transaction that was open for too long, and fence its producer."""
        entry = self.names[name]
        if entry.open is not None:
            entry.open = None
            entry.producer += 1

    def expire(self, name: str) -> None:
        """Forget a group that was inactive for offsets.retention.minutes."""
        self.settle(name)
        self.names[name].mark = None
