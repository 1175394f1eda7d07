"""What the readers of one subtask share, and what it is notified of.

A client is notified of checkpoints that are in the log, for those who watch from outside (a consumer
group's offsets): one notice at a time, on the I/O executor, the newest where several are due. Nothing
waits for it, and where it fails that is only counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial

from rheos.core.connectors.contract import SourceClient
from rheos.core.protocol.ids import CheckpointId
from rheos.core.protocol.ports import Completion, IoExecutor

NOTICES_FAILED = "notices_failed"
"""The counter of notices that a client could not take."""


class ClientNotices:
    """Owned by one source operator, whose thread calls all of it."""

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
        """What the client has last taken: of what was submitted, nothing may have begun."""

    def snapshot(self, checkpoint: CheckpointId, positions: Mapping[str, bytes]) -> None:
        """The checkpoint, where it completes, holds these positions, by the ids of their splits."""
        self._held[checkpoint] = positions

    def completed(self, checkpoint: CheckpointId) -> None:
        """The checkpoint is in the log."""
        held = self._held.get(checkpoint)
        self._held = {later: known for later, known in self._held.items() if later > checkpoint}
        if held is not None:
            self._due = held
            self.poll()

    def poll(self) -> None:
        """Gives the notice that is due, once the one before it is done."""
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
        """All readers are closed. What was submitted is done, or will never begin."""
        newest = self._submitted if self._due is None else self._due
        if newest is not None and newest is not self._taken:
            with contextlib.suppress(Exception):
                self._give(newest)
        self.client.close()
