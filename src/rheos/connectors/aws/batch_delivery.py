"""Delivery of rows in requests of several records, of which the service may refuse some.

A request is repeated only for the records that were refused. Where the order of a key matters, no
request has two records of one key: a record that is refused would be stored after its successor.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rheos.connectors.confirmed_delivery import ConfirmedDelivery
from rheos.connectors.row_payloads import pieces
from rheos.connectors.spilling import Count
from rheos.core.connectors.schemas import shown_row
from rheos.core.errors import InputError, UnavailableError
from rheos.core.protocol.elements import Batch


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """One record of a request, made from one row."""

    row: int
    """Index of the row."""
    key: str
    """Key whose order is kept, if it is."""
    size_bytes: int
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """A record that the service has not stored."""

    at: int
    """Index in the request."""
    code: str
    message: str
    is_temporary: bool
    """Whether the service may store it later."""


@dataclass(frozen=True)
class BatchLimits:
    """Limits of one request."""

    records: int
    size_bytes: int


class BatchPublishing(ABC):
    """Publishes rows in requests of several records.

    Args:
        limits: limits of one request.
        doing: begins the messages of errors: "rows cannot be written to the stream 'a'".
        keeps_order: whether records of one key are stored in the order of their rows.
    """

    def __init__(self, limits: BatchLimits, doing: str, *, keeps_order: bool) -> None:
        self._limits = limits
        self._doing = doing
        self._keeps_order = keeps_order

    @abstractmethod
    def entries(self, rows: Batch, ids: Sequence[str] | None) -> Sequence[BatchEntry]:
        """Return the records of rows. Raises InputError, with the row, if one cannot be a record.

        Args:
            rows: The rows.
            ids: Ids of the rows, by which the service recognises repeated ones; None for none.
        """

    @abstractmethod
    def send(self, rows: Batch, entries: Sequence[BatchEntry]) -> Sequence[RefusedEntry]:
        """Send one request, and return the records that were refused. Raises RheosError if all were."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def publish(self, rows: Batch) -> None:
        """Publish rows. Raises UnavailableError if some were not stored."""
        self.pending(rows).send()

    def pending(self, rows: Batch, ids: Sequence[str] | None = None) -> UnstoredRows:
        """Return the rows as records that are still to be stored."""
        return UnstoredRows(self, rows, list(self.entries(rows, ids)))

    def next_request(self, entries: Sequence[BatchEntry]) -> list[BatchEntry]:
        """Return the first of the records that fit into one request, in their order."""
        chosen: list[BatchEntry] = []
        size_bytes, keys = 0, set[str]()
        for entry in entries:
            if self._keeps_order and entry.key in keys:
                continue
            keys.add(entry.key)
            size_bytes += entry.size_bytes
            if chosen and size_bytes > self._limits.size_bytes:
                break
            chosen.append(entry)
            if len(chosen) == self._limits.records:
                break
        return chosen

    def refused(self, rows: Batch, entry: BatchEntry, why: RefusedEntry) -> InputError:
        """Return the error for a record that the service never stores."""
        return InputError(
            f"{self._doing}: {why.code}: {why.message}",
            hint="the service refuses the record: filter out such rows first",
            record=shown_row(rows, entry.row),
        )

    def unavailable(self, count: int, why: RefusedEntry) -> UnavailableError:
        """Return the error for records that the service may store later."""
        return UnavailableError(
            f"{self._doing}: the service has refused {count} records: {why.code}: {why.message}",
            hint="check whether its limits suffice, such as the number of shards",
        )


@dataclass
class UnstoredRows:
    """Rows, some of which are not stored yet."""

    publishing: BatchPublishing
    rows: Batch
    left: list[BatchEntry] = field(default_factory=list)

    @property
    def stored(self) -> int:
        """Return how many of the first rows are stored."""
        return min((entry.row for entry in self.left), default=self.rows.num_rows)

    def send(self) -> None:
        """Send what is not stored. Raises UnavailableError if the service has refused some records; the
        others are stored, and the next call does not send them."""
        again: list[BatchEntry] = []
        why: RefusedEntry | None = None
        while self.left:
            entries = self.publishing.next_request(self.left)
            refused = self.publishing.send(self.rows, entries)
            for each in refused:
                if not each.is_temporary:
                    raise self.publishing.refused(self.rows, entries[each.at], each)
                why = each
            again = [entries[each.at] for each in refused]
            sent = {entry.row for entry in entries}
            self.left = sorted(
                [*again, *(entry for entry in self.left if entry.row not in sent)],
                key=lambda entry: entry.row,
            )
            if why is not None:
                raise self.publishing.unavailable(len(again), why)


class BatchDelivery(ConfirmedDelivery):
    """Publishes rows in requests of several records, and retries those that were refused."""

    def __init__(
        self, publishing: BatchPublishing, count: Count, patience_ms: int, logger: logging.Logger
    ) -> None:
        super().__init__(publishing, count, patience_ms, logger)
        self._batches = publishing

    def write(self, batch: Batch) -> None:
        for rows in pieces(batch):
            self.deliver(self._batches.pending(rows))

    def deliver(self, pending: UnstoredRows) -> None:
        """Send until all rows are stored. While the service stores some of them, the budget of retries
        is not spent. Raises UnavailableError if it is."""
        confirmed = self.settled_rows
        while pending.left:
            before = len(pending.left)
            try:
                self.retry(pending.send)
            except UnavailableError:
                if len(pending.left) == before:
                    raise
            finally:
                self.settled_rows = confirmed + pending.stored
