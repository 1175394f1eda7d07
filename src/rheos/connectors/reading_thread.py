"""Thread that reads messages into a buffer, and waits while its server is down."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

from rheos.connectors.calls.outside_calls import thread
from rheos.connectors.chunk_buffer import ChunkBuffer
from rheos.connectors.outage_patience import Patience
from rheos.core.connectors.contract import ReaderContext
from rheos.core.errors import RheosError, UnavailableError, unexpected

_END_WITHIN_S = 10.0


class ReadingThread(ABC):
    """Reading of one split in a thread.

    Args:
        name: name of the thread.
        ctx: context of the reader.
        retry_for_ms: how long to retry if the server is down.
        logger: receives the reason of an outage.
    """

    def __init__(
        self, name: str, ctx: ReaderContext, retry_for_ms: int, logger: logging.Logger
    ) -> None:
        self.buffer = ChunkBuffer(ctx)
        self.patience = Patience(retry_for_ms, lambda: self.buffer.count("retries"), logger)
        self._name = name
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Start the thread."""
        self._thread = thread(self._run, self._name)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self.buffer.close()
        if self._thread is not None:
            self._thread.join(_END_WITHIN_S)

    # --- in the thread
    # ------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether the end of the source was reached."""
        return False

    @abstractmethod
    def read(self) -> None:
        """Read until the end of the source, or until the buffer is closed. Raises RheosError; after an
        UnavailableError it is called again."""

    def disconnect(self) -> None:
        """Close the connection, if `read` leaves one open."""

    def _run(self) -> None:
        failed: RheosError | None = None
        try:
            while not self.buffer.is_closing and not self.is_finished:
                try:
                    self.read()
                except UnavailableError as error:
                    self.patience.spend(error)
        except RheosError as error:
            failed = error
        except Exception as error:
            failed = unexpected(error)
        self.disconnect()
        self.buffer.end(failed)
