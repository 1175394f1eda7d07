"""The second phase in a subtask: what its sinks have staged, and its commit once the log has it.

What is staged stays here, and is listed in every acknowledgement, until its commit has succeeded: so a
checkpoint in the log always holds all that is staged and not yet published.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from rheos.operators.contract import CommittingOperator, Operator
from rheos.operators.runtime_context import Distribution
from rheos.protocol.control import CommittableHandle
from rheos.protocol.ids import CheckpointId, OperatorId
from rheos.protocol.ports import Completion, IoExecutor


class Committing:
    """Tracks committables by checkpoint. Commits run one at a time, in the order of checkpoints."""

    def __init__(
        self, operators: Mapping[OperatorId, Operator], io: IoExecutor, now_us: Callable[[], int]
    ) -> None:
        self._operators = operators
        self._now_us = now_us
        self._io = io
        self._staged: dict[CheckpointId, list[CommittableHandle]] = {}
        self._requested: CheckpointId | None = None
        self._running: tuple[CheckpointId, Completion[None]] | None = None
        self._began_us = 0
        self._committing: Collection[OperatorId] = ()
        self.commits: dict[OperatorId, int] = {}
        """How many have succeeded since the attempt began, by sink."""
        self.took_ms: dict[OperatorId, Distribution] = {}
        """How long they took."""

    def stage(self, checkpoint: CheckpointId, operator: OperatorId, committables: list[bytes]) -> None:
        """A sink staged these at the barrier of the checkpoint."""
        staged = self._staged.setdefault(checkpoint, [])
        staged.extend(CommittableHandle(operator, payload) for payload in committables)

    def staged(self, up_to: CheckpointId) -> list[CommittableHandle]:
        """All that is staged up to the checkpoint and not known to be committed."""
        return [
            handle
            for checkpoint in sorted(self._staged)
            if checkpoint <= up_to
            for handle in self._staged[checkpoint]
        ]

    def complete(self, checkpoint: CheckpointId) -> None:
        """The checkpoint is in the log: it and all before it are to be committed."""
        if self._requested is None or checkpoint > self._requested:
            self._requested = checkpoint
        self._start()

    def _start(self) -> None:
        if self._running is not None or self._requested is None:
            return
        checkpoint, self._requested = self._requested, None
        handles = self.staged(checkpoint)
        by_operator: dict[OperatorId, list[bytes]] = {}
        for handle in handles:
            by_operator.setdefault(handle.operator, []).append(handle.payload)

        def commit() -> None:
            for id, payloads in by_operator.items():
                operator = self._operators[id]
                assert isinstance(operator, CommittingOperator)
                operator.commit(payloads)

        self._began_us, self._committing = self._now_us(), by_operator.keys()
        self._running = (checkpoint, self._io.submit(commit))

    def poll(self) -> CheckpointId | None:
        """The checkpoint up to which a commit has just succeeded. Raises where it failed: the attempt
        fails, and recovery commits what the log holds."""
        if self._running is None or not self._running[1].done():
            return None
        checkpoint, completion = self._running
        self._running = None
        completion.result()
        for operator in self._committing:
            self.commits[operator] = self.commits.get(operator, 0) + 1
            took = self.took_ms.setdefault(operator, Distribution())
            took.add((self._now_us() - self._began_us) / 1000)
        for done in [c for c in self._staged if c <= checkpoint]:
            del self._staged[done]
        self._start()
        return checkpoint
