"""Carries out at a real broker what `EpochCommits` decides, for one writer's name.

The name is the transactional id of a producer, and a group of which nobody is a member: the offset that
it has for partition 0 of the topic is the mark. Calls block, and come one at a time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any, assert_never

from rheos.connectors.kafka import marks
from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.epoch_commits import (
    Action,
    Commit,
    Discard,
    EpochCommits,
    Fence,
    IfUnknown,
    Pause,
    ReadMark,
    Settle,
    TransientError,
    Write,
)
from rheos.connectors.kafka.errors import as_kafka_error, kafka_error, may_pass
from rheos.connectors.kafka.marks import Mark
from rheos.connectors.kafka.producing import Producing
from rheos.connectors.kafka.staged_epochs import MissingRecordsError, StagedEpoch, StagedEpochs
from rheos.errors import InputError, RheosError


class Transactions:
    """The transactions of one writer. Raises RheosError."""

    def __init__(
        self, name: str, topic: str, options: ClientOptions, if_unknown: IfUnknown = "fail"
    ) -> None:
        self._name = name
        self._topic = topic
        self._options = options
        self._commits = EpochCommits(name, if_unknown)
        self._mark = Mark(name, topic, options)
        self._producing: Producing | None = None
        self._group: Any = None
        """The group, as the client wants it within a transaction."""
        self._noted: int | None = None
        """What the note says; None where it has not been read."""
        self._committing = threading.Condition()
        self._under_way_bytes: int | None = None
        """Of the commit that runs; None where none does."""
        self._taken = 0
        """The newest epoch that a commit was begun for."""
        self._taken_bytes = 0
        """Of all epochs up to that."""
        self._away = 0
        self._by_record = False
        """Whether records are produced one by one: what is refused is named then."""

    @property
    def retries(self) -> int:
        """How often a commit was begun again, so far."""
        return self._commits.retries

    @property
    def brokers_away(self) -> int:
        """How often a broker was away, so far."""
        producing = self._producing
        return self._away + (producing.brokers_away if producing is not None else 0)

    def create_mark(self) -> None:
        """KS2: before the writer stages anything, the broker has a mark of it."""
        self._mark.create()

    def wait_for_room(self, staged_bytes: int, ahead_bytes: int) -> None:
        """For the thread that stages: waits while a commit runs, and more is staged behind what it
        commits than that is, or than `ahead_bytes`. So staging goes on beside a commit, and is never
        further ahead than by one. `staged_bytes` is all that the writer has staged."""
        with self._committing:
            while staged_bytes - self._taken_bytes > max(ahead_bytes, self._under_way_bytes or 0):
                # The next commit may be begun by the thread that waits: it waits for this one alone.
                if self._under_way_bytes is None:
                    return
                self._committing.wait()

    def commit(self, epochs: Sequence[StagedEpoch], staged: StagedEpochs) -> None:
        """Commits the epochs of the writer, the oldest first, those that are not committed yet."""
        self._begin(epochs)
        try:
            self._commit(epochs, staged)
        finally:
            self._end()

    def _begin(self, epochs: Sequence[StagedEpoch]) -> None:
        taken = [epoch for epoch in epochs if epoch.checkpoint > self._taken]
        with self._committing:
            self._under_way_bytes = sum(epoch.size_bytes for epoch in taken)
            self._taken_bytes += self._under_way_bytes
            self._taken = max((epoch.checkpoint for epoch in taken), default=self._taken)

    def _end(self) -> None:
        with self._committing:
            self._under_way_bytes = None
            self._committing.notify_all()

    def _commit(self, epochs: Sequence[StagedEpoch], staged: StagedEpochs) -> None:
        by_number = {epoch.checkpoint: epoch for epoch in epochs}
        if self._noted is None:
            self._noted = staged.noted(epochs[0])
        steps = self._commits.steps(sorted(by_number), self._noted)
        answer: int | None = None
        failure: Exception | None = None
        while True:
            try:
                action = steps.throw(failure) if failure else steps.send(answer)
            except StopIteration:
                return
            answer = failure = None
            try:
                answer = self._carry_out(action, by_number, staged)
            except RheosError as error:
                # KS8: records that are gone may have been committed by another since the mark was read.
                again = may_pass(error) or isinstance(error, MissingRecordsError)
                if isinstance(error, InputError) and not self._by_record:
                    again = self._by_record = True
                failure = TransientError(error) if again else error
            except Exception as error:
                failure = error

    def close(self) -> None:
        """Lets go of the connection. A transaction that is open is aborted."""
        producing, self._producing = self._producing, None
        if producing is not None:
            producing.close()
            self._away += producing.brokers_away

    def _carry_out(
        self, action: Action, epochs: dict[int, StagedEpoch], staged: StagedEpochs
    ) -> int | None:
        match action:
            case Fence():
                self._fence()
            case ReadMark():
                mark, self._group = self._mark.read()
                return mark
            case Write(epoch):
                self._write(epochs[epoch], staged)
            case Commit():
                assert self._producing is not None
                with self._errors():
                    self._producing.client.commit_transaction()
            case Discard():
                self.close()
            case Pause(ms):
                time.sleep(ms / 1000)
            case Settle(epoch):
                noted = self._noted or 0
                staged.settle(epochs[epoch], noted)
                self._noted = max(noted, epoch)
            case _:
                assert_never(action)
        return None

    def _fence(self) -> None:
        self.close()
        self._producing = Producing(self._options, self._topic, transactional_id=self._name)
        with self._errors():
            self._producing.fence(marks.REACH_S)

    def _write(self, epoch: StagedEpoch, staged: StagedEpochs) -> None:
        producing = self._producing
        assert producing is not None
        with self._errors():
            producing.client.begin_transaction()
            produce = producing.produce if self._by_record else producing.produce_unreported
            for batch in staged.batches(epoch):
                produce(batch)
            place = self._mark.place(epoch.checkpoint)
            producing.client.send_offsets_to_transaction([place], self._group, marks.REACH_S)

    @contextlib.contextmanager
    def _errors(self) -> Any:
        """What the client raises, as errors of Rheos; where a record was refused, for that."""
        try:
            yield
        except RheosError:
            raise
        except Exception as error:
            if as_kafka_error(error) is None:
                raise
            if self._producing is not None:
                self._producing.hear_reports()
                if self._producing.refused is not None:
                    raise self._producing.refused from None
            raise kafka_error(error, self._doing, self._options) from None

    @property
    def _doing(self) -> str:
        return f"the topic {self._topic!r} cannot be written exactly once"
