"""The client that the readers of one subtask share, and its notifications.

A client is notified of checkpoints that are in the log, for external monitoring (such as a consumer
group's offsets). It receives one notification at a time, on the I/O executor, and only the newest if
several are due. No other work waits for a notification, and a failed notification is only counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial

from rheos.core.connectors.contract import SourceClient
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.ports import Completion, IoExecutor

NOTICES_FAILED = "notices_failed"
"""Counter of notifications that failed."""


class ClientNotices:
    """The notifications of one source operator, whose thread calls all methods."""

    def __init__(self, client: SourceClient, io: IoExecutor, count: Callable[[str, int], None]) -> None:
        self.client = client
        self._io = io
        self._count = count
        self._held: dict[CheckpointId, Mapping[str, bytes]] = {}
        """Positions in snapshots of checkpoints that are not known to be in the log."""
        self._due: Mapping[str, bytes] | None = None
        """Positions of the newest notification, until it is submitted."""
        self._running: Completion[None] | None = None
        self._submitted: Mapping[str, bytes] | None = None
        self._taken: Mapping[str, bytes] | None = None
        """Positions that the client has received last. A submitted notification may not have
        started."""

    def snapshot(self, checkpoint: CheckpointId, positions: Mapping[str, bytes]) -> None:
        """Store the positions by split id, to report them if the checkpoint completes."""
        self._held[checkpoint] = positions

    def completed(self, checkpoint: CheckpointId) -> None:
        """Report the positions of this checkpoint, which is now in the log."""
        held = self._held.get(checkpoint)
        self._held = {later: known for later, known in self._held.items() if later > checkpoint}
        if held is not None:
            self._due = held
            self.poll()

    def poll(self) -> None:
        """Send the due notification, if the previous one is done."""
        if self._running is not None:
            if not self._running.done():
                return
            running, self._running = self._running, None
            try:
                running.result()
            except Exception:
                self._count(NOTICES_FAILED, 1)
        if self._due is not None:
            self._submitted, self._due = self._due, None
            self._running = self._io.submit(partial(self._give, self._submitted))

    def _give(self, positions: Mapping[str, bytes]) -> None:
        self.client.completed(positions)
        self._taken = positions

    def close(self) -> None:
        """Close the client, after all readers. Send the newest notification first, unless it was
        received. Notifications that were submitted are done by now, or will never start."""
        newest = self._submitted if self._due is None else self._due
        if newest is not None and newest is not self._taken:
            with contextlib.suppress(Exception):
                self._give(newest)
        self.client.close()
