"""Delivery of rows to a broker that confirms messages."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from rheos.connectors.outage_patience import Patience
from rheos.connectors.row_payloads import pieces
from rheos.connectors.spilling import Count, TargetDelivery
from rheos.core.protocol.elements import Batch


class RowPublishing(Protocol):
    """Publisher of rows, as messages."""

    def publish(self, rows: Batch) -> None:
        """Publish rows, and wait until they are confirmed. Raises UnavailableError if some are not."""

    def close(self) -> None:
        """Close the connection."""


class ConfirmedDelivery(TargetDelivery):
    """Publishes rows and retries, at least once.

    Args:
        publishing: The publisher. The delivery closes it.
        count: Counts the retries (`retries`).
        patience_ms: How long to retry.
        logger: Receives the reason of an outage.
    """

    def __init__(
        self, publishing: RowPublishing, count: Count, patience_ms: int, logger: logging.Logger
    ) -> None:
        self._publishing = publishing
        self._patience = Patience(patience_ms, lambda: count("retries", 1), logger)

    def write(self, batch: Batch) -> None:
        for rows in pieces(batch):
            self.retry(partial(self._publishing.publish, rows))
            self.settled_rows += rows.num_rows

    def retry(self, publish: Callable[[], None]) -> None:
        """Publish until everything is confirmed, or the budget of this call is spent."""
        self._patience.begin()
        self._patience.ask(publish)

    def settle(self) -> None:
        """Every row was confirmed by `write`."""

    def close(self) -> None:
        self._publishing.close()
