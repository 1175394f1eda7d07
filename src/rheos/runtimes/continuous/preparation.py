"""A slot before its attempt begins: it restores checkpoints until the driver begins the attempt."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from rheos.core.checkpoint.savepoint import Restore
from rheos.core.errors import RheosError
from rheos.core.protocol.ports import Store
from rheos.core.task.prepared_slot import PreparedSlot
from rheos.core.task.slot import Deployment, prepare_slot
from rheos.runtimes.continuous.control import AHEAD, BeginAttempt, RestoreAhead, RestoredAhead
from rheos.runtimes.continuous.control_client import ControlClient
from rheos.runtimes.host.io import InlineIo, SystemClock

_LOGGER = logging.getLogger(__name__)
_MOST_FAILURES = 3
"""Number of checkpoints in succession that a slot fails to restore before it reports one of them. A
single failure is common: the job deletes an old checkpoint while the slot reads it."""


@dataclass(frozen=True, slots=True)
class BegunSlot:
    """A slot whose attempt has begun."""

    begin: BeginAttempt
    prepared: PreparedSlot


class Preparation:
    """The preparation of one slot."""

    def __init__(
        self,
        deployment: Deployment,
        subtask: int,
        store: Store,
        client: ControlClient,
        awake: threading.Event,
    ) -> None:
        """Create the preparation.

        Args:
            deployment: deployment under the number AHEAD.
            subtask: number of the slot.
            store: store of the job's checkpoint directory.
            client: control channel, which has joined under the number AHEAD.
            awake: event that the channel sets when a message has arrived.
        """
        self._prepared = prepare_slot(deployment, subtask, store, SystemClock(), InlineIo())
        self._subtask = subtask
        self._client = client
        self._awake = awake
        self._failures = 0

    def run(self, first: Restore | None) -> BegunSlot | None:
        """Restore checkpoints until the attempt begins. Return None if the driver releases the slot."""
        wanted = first
        while True:
            if wanted is not None:
                self._restore(wanted)
                wanted = None
            self._awake.wait()
            self._awake.clear()
            if self._client.receive():
                return None  # Before an attempt, only the request to leave arrives.
            for order in self._client.orders():
                match order:
                    case RestoreAhead(restore=restore):
                        wanted = restore  # Later checkpoints contain earlier ones.
                    case BeginAttempt():
                        return BegunSlot(order, self._prepared)

    def _restore(self, restore: Restore) -> None:
        try:
            self._prepared.catch_up(restore)
            self._failures = 0
        except RheosError as error:
            _LOGGER.debug("checkpoint %s was not restored ahead: %s", restore.entry.checkpoint, error)
            self._failures += 1
            if self._failures < _MOST_FAILURES:
                return
        self._client.send(
            RestoredAhead(attempt=AHEAD, subtask=self._subtask, checkpoint=restore.entry.checkpoint)
        )
