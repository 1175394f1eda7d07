"""A slot's side of the drift of splits: it reports how far its slowest ones are, and hears of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rheos.core.operators.contract import Operator
from rheos.core.operators.source import SourceOperator
from rheos.core.operators.source_alignment import DRIFT_LOOK_US, SourceAlignment
from rheos.core.protocol.control import Align, Reached
from rheos.core.protocol.ids import Attempt, OperatorId


class DriftReporter:
    """Reports of one slot, whose operators are open."""

    def __init__(
        self,
        attempt: Attempt,
        subtask: int,
        operators: Mapping[OperatorId, Operator],
        now_us: Callable[[], int],
    ) -> None:
        self._now_us = now_us
        self._attempt = attempt
        self._subtask = subtask
        self._next_us = 0
        self._reported: dict[OperatorId, int | None] = {}
        self._alignments: dict[OperatorId, SourceAlignment] = {
            id: operator.alignment
            for id, operator in operators.items()
            if isinstance(operator, SourceOperator)
            and operator.alignment is not None
            and operator.ctx.parallelism > 1
        }
        self.watches = bool(self._alignments)

    def heard(self, message: Align) -> None:
        if message.operator in self._alignments:
            self._alignments[message.operator].align(message.least_ms)

    def poll(self) -> list[Reached]:
        """Return the news since the last call, from time to time."""
        now_us = self._now_us()
        if now_us < self._next_us:
            return []
        self._next_us = now_us + DRIFT_LOOK_US
        news = []
        for id, alignment in self._alignments.items():
            reached = alignment.reached_ms()
            if reached != self._reported.get(id):
                self._reported[id] = reached
                news.append(
                    Reached(
                        attempt=self._attempt,
                        subtask=self._subtask,
                        operator=id,
                        watermark_ms=reached,
                    )
                )
        return news
