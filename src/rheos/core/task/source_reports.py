"""Reports of a slot about its sources, and messages that it forwards to them while the job runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from rheos.core.errors import TransportError
from rheos.core.operators.contract import Operator
from rheos.core.operators.source import SourceOperator
from rheos.core.operators.source_alignment import DRIFT_LOOK_US, SourceAlignment
from rheos.core.protocol.control import (
    Align,
    CaughtUp,
    OpenPhase,
    PhaseRead,
    SourceWatermark,
    SplitsEnded,
    SplitsFound,
    SplitsRead,
    SplitsTaken,
    StopNeeded,
    ToMaster,
)
from rheos.core.protocol.ids import Attempt, OperatorId


class SourceReporter(ABC):
    """Reports about some sources of one slot, whose operators are open."""

    def __init__(
        self, attempt: Attempt, subtask: int, operators: Mapping[OperatorId, Operator]
    ) -> None:
        self._attempt = attempt
        self._subtask = subtask
        self._sources = {
            id: operator
            for id, operator in operators.items()
            if isinstance(operator, SourceOperator) and self._reports_of(operator)
        }
        self.watches = bool(self._sources)

    @staticmethod
    @abstractmethod
    def _reports_of(source: SourceOperator) -> bool:
        """Return whether the source has something to report."""

    @abstractmethod
    def poll(self) -> Sequence[ToMaster]:
        """Return the new messages since the last call."""


class CaughtUpReporter(SourceReporter):
    """Reports the sources that have returned all of their rows, in a run over the available input."""

    @staticmethod
    def _reports_of(source: SourceOperator) -> bool:
        return source.until_now

    def poll(self) -> list[CaughtUp]:
        news = [id for id, source in self._sources.items() if source.has_caught_up()]
        for id in news:
            del self._sources[id]
        return [CaughtUp(attempt=self._attempt, subtask=self._subtask, operator=id) for id in news]


class StopReporter(SourceReporter):
    """Reports the sources whose readers cannot continue with this program."""

    @staticmethod
    def _reports_of(source: SourceOperator) -> bool:
        return source.may_stop

    def poll(self) -> list[StopNeeded]:
        news = []
        for id, source in list(self._sources.items()):
            reason = source.stop_reason()
            if reason is not None:
                del self._sources[id]
                news.append(
                    StopNeeded(attempt=self._attempt, subtask=self._subtask, operator=id, reason=reason)
                )
        return news


class PhaseReporter(SourceReporter):
    """Reports phases whose splits are read, and opens the splits of the next phase once all subtasks
    have reached it."""

    def __init__(
        self, attempt: Attempt, subtask: int, operators: Mapping[OperatorId, Operator]
    ) -> None:
        super().__init__(attempt, subtask, operators)
        self._reported: dict[OperatorId, int] = {}

    @staticmethod
    def _reports_of(source: SourceOperator) -> bool:
        return source.waits_for_others

    def opened(self, message: OpenPhase) -> None:
        if message.operator in self._sources:
            self._sources[message.operator].open_phase(message.phase)

    def poll(self) -> list[PhaseRead]:
        news = []
        for id, source in self._sources.items():
            phase = source.reached_phase()
            if phase > self._reported.get(id, 0):
                self._reported[id] = phase
                news.append(
                    PhaseRead(attempt=self._attempt, subtask=self._subtask, operator=id, phase=phase)
                )
        return news


class ReadSplitsReporter(SourceReporter):
    """Reports splits that were read, and announces those of all subtasks to the sources, whose splits
    may follow them."""

    def __init__(
        self, attempt: Attempt, subtask: int, operators: Mapping[OperatorId, Operator]
    ) -> None:
        super().__init__(attempt, subtask, operators)
        self._silent = set(self._sources)
        """Sources that have not reported yet."""

    @staticmethod
    def _reports_of(source: SourceOperator) -> bool:
        return source.announces_splits

    def ended(self, message: SplitsEnded) -> None:
        if message.operator in self._sources:
            self._sources[message.operator].splits_ended(message.splits)

    def poll(self) -> list[SplitsRead]:
        news = []
        for id, source in self._sources.items():
            read = source.take_read_splits()
            if read or id in self._silent:
                self._silent.discard(id)
                news.append(
                    SplitsRead(attempt=self._attempt, subtask=self._subtask, operator=id, splits=read)
                )
        return news


class DriftReporter(SourceReporter):
    """Reports the event time of the slowest splits at intervals, and forwards the slowest of all
    subtasks to the sources."""

    def __init__(
        self,
        attempt: Attempt,
        subtask: int,
        operators: Mapping[OperatorId, Operator],
        now_us: Callable[[], int],
    ) -> None:
        super().__init__(attempt, subtask, operators)
        self._now_us = now_us
        self._next_us = 0
        self._reported: dict[OperatorId, int | None] = {}

    @staticmethod
    def _reports_of(source: SourceOperator) -> bool:
        return source.alignment is not None and source.ctx.parallelism > 1

    def _alignment(self, id: OperatorId) -> SourceAlignment:
        alignment = self._sources[id].alignment
        assert alignment is not None
        return alignment

    def heard(self, message: Align) -> None:
        if message.operator in self._sources:
            self._alignment(message.operator).align(message.least_ms)

    def poll(self) -> list[SourceWatermark]:
        now_us = self._now_us()
        if now_us < self._next_us:
            return []
        self._next_us = now_us + DRIFT_LOOK_US
        news = []
        attempt, subtask = self._attempt, self._subtask
        for id in self._sources:
            ms = self._alignment(id).reached_ms()
            if ms != self._reported.get(id):
                self._reported[id] = ms
                news.append(
                    SourceWatermark(attempt=attempt, subtask=subtask, operator=id, watermark_ms=ms)
                )
        return news


class DiscoveredSplits:
    """The splits that one slot received at run time and forwards to their sources."""

    def __init__(self, subtask: int, operators: Mapping[OperatorId, Operator]) -> None:
        self._subtask = subtask
        self._operators = operators
        self._taken: dict[OperatorId, int] = {}
        """Number of received splits, by source."""

    def take(self, message: SplitsFound) -> SplitsTaken:
        """Forward new splits to their source; ignore splits that were sent before. Raise TransportError
        if some are missing: subtasks would then disagree about which of them reads a split (CP35).
        Raise InputError, with the user's line, for a split that comes too late."""
        taken = self._taken.get(message.operator, 0)
        if message.before > taken:
            raise TransportError(
                f"splits {taken} to {message.before} of source {message.operator!r} are missing"
            )
        source = self._operators[message.operator]
        assert isinstance(source, SourceOperator), "the driver watches sources"
        source.found(message.splits[taken - message.before :])
        source.gone(message.gone, whole=message.whole)
        taken = max(taken, message.before + len(message.splits))
        self._taken[message.operator] = taken
        return SplitsTaken(
            attempt=message.attempt, subtask=self._subtask, operator=message.operator, taken=taken
        )
