"""Executes the actions of `EpochCommits` on real brokers, for one writer's name.

The name is a producer's transactional id, and also a group without members: the offset that it has
committed for partition 0 of the topic is the mark. Calls block, and run one at a time. Each call to the
brokers has a limit of our own, because the client's `send_offsets_to_transaction` and
`abort_transaction` exceed theirs. An abandoned producer is fenced by the next one, as after any failure
(KS6).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, assert_never

from rheos.connectors.calls.bounded_calls import AbandonedCallError, BoundedCalls, Progressed
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.kafka.client_options import ANSWER_S, GRACE_S, ClientOptions
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
from rheos.connectors.kafka.marks import CREATED_WITHIN_S, Mark
from rheos.connectors.kafka.producing import CLOSED_WITHIN_S, Producing
from rheos.connectors.kafka.staged_epochs import MissingRecordsError, StagedEpoch, StagedEpochs
from rheos.connectors.staged_files import StagingRoom
from rheos.core.errors import InputError, RheosError, UnavailableError

T = TypeVar("T")

COMMIT = OutsideCall(
    server="Kafka",
    call="sink: fence, read the marker, write and commit an epoch",
    limit_s=ANSWER_S + GRACE_S,
    limit="10 s for each call of the client; 12 s if the client does not respect this",
    then="the producer is abandoned, and a new one, which fences the old one, writes the epoch "
    "again. The commit is retried every second until it succeeds; rows, checkpoints and other "
    "sinks continue. The marker shows whether an abandoned commit succeeded",
)
MARK = OutsideCall(
    server="Kafka",
    call="sink: a new writer sets its marker",
    limit_s=CREATED_WITHIN_S + GRACE_S,
    then="the attempt fails, and restarts after at most 5 s; a marker that is set late belongs to "
    "no writer",
)
CLOSE = OutsideCall(
    server="Kafka",
    call="sink: an open transaction is aborted when the writer closes",
    limit_s=CLOSED_WITHIN_S + GRACE_S,
    then="the producer is abandoned; the next one fences it, which aborts the transaction",
)

AHEAD_BYTES = 256 << 20
"""Maximum bytes staged while a commit runs or is retried, unless the commit itself is larger. At this
limit the writer accepts no more rows, and they wait."""


class Transactions:
    """Transactions of one writer. Calls raise RheosError."""

    def __init__(
        self, name: str, topic: str, options: ClientOptions, if_unknown: IfUnknown = "fail"
    ) -> None:
        self._name = name
        self._topic = topic
        self._options = options
        self._commits = EpochCommits(name, if_unknown)
        self._mark = Mark(name, topic, options)
        self._calls = BoundedCalls()
        self._producing: Producing | None = None
        self._group: Any = None
        """The group in the client's form for a transaction."""
        self._noted: int | None = None
        """Number in the note; None if the note has not been read."""
        self._room = StagingRoom(AHEAD_BYTES)
        self._away = 0
        self._by_record = False
        """Whether records are produced one by one, so that errors name the refused record."""

    @property
    def retries(self) -> int:
        """Number of commits that were retried so far."""
        return self._commits.retries

    @property
    def brokers_away(self) -> int:
        """Number of times a broker was down so far."""
        producing = self._producing
        return self._away + (producing.brokers_away if producing is not None else 0)

    def create_mark(self) -> None:
        """KS2: create the mark at the broker, before the writer stages its first epoch."""
        self._calls.run(self._doing, MARK.limit_s, lambda progressed: self._mark.create())

    def has_room(self, staged_bytes: int) -> bool:
        """Return whether the writer may stage more, after `staged_bytes` in total. Called by the
        staging thread."""
        return self._room.has_room(staged_bytes)

    def commit(self, epochs: Sequence[StagedEpoch], staged: StagedEpochs) -> None:
        """Commit the epochs of the writer that are not committed yet, the oldest first."""
        sizes = {epoch.checkpoint: epoch.size_bytes for epoch in epochs}
        self._room.begin(sizes)
        self._commit(epochs, staged)
        self._room.end(sizes)

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
                # KS8: another committer may have committed and removed the records since the mark was
                # read.
                again = may_pass(error) or isinstance(error, MissingRecordsError)
                if isinstance(error, InputError) and not self._by_record:
                    again = self._by_record = True
                failure = TransientError(error) if again else error
            except Exception as error:
                failure = error

    def close(self) -> None:
        """Close the producer. An open transaction is aborted."""
        self._discard()
        self._calls.close()

    def _discard(self) -> None:
        producing, self._producing = self._producing, None
        if producing is None:
            return
        with contextlib.suppress(UnavailableError):
            self._calls.run(self._doing, CLOSE.limit_s, lambda progressed: producing.close())
        self._away += producing.brokers_away

    def _carry_out(
        self, action: Action, epochs: dict[int, StagedEpoch], staged: StagedEpochs
    ) -> int | None:
        match action:
            case Fence():
                self._fence()
            case ReadMark():
                mark, self._group = self._call(lambda progressed: self._mark.read(ANSWER_S))
                return mark
            case Write(epoch):
                self._write(epochs[epoch], staged)
            case Commit():
                self._commit_transaction()
            case Discard():
                self._discard()
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
        self._discard()
        producing = Producing(self._options, self._topic, transactional_id=self._name)
        self._producing = producing
        self._call(lambda progressed: producing.fence(ANSWER_S))

    def _write(self, epoch: StagedEpoch, staged: StagedEpochs) -> None:
        producing, group = self._producing, self._group
        assert producing is not None
        produce = producing.produce if self._by_record else producing.produce_unreported

        def write(progressed: Progressed) -> None:
            producing.client.begin_transaction()
            for batch in staged.batches(epoch):
                produce(batch)
                progressed()
            place = self._mark.place(epoch.checkpoint)
            producing.client.send_offsets_to_transaction([place], group, ANSWER_S)

        self._call(write)

    def _commit_transaction(self) -> None:
        producing = self._producing
        assert producing is not None

        def commit(progressed: Progressed) -> None:
            producing.deliver(progressed)
            producing.client.commit_transaction(ANSWER_S)

        self._call(commit)

    def _call(self, work: Callable[[Progressed], T]) -> T:
        """Call the brokers, within the limit. A producer whose call is abandoned is closed once the
        client returns."""
        producing = self._producing

        def release() -> None:
            if producing is not None:
                producing.close()

        def made(progressed: Progressed) -> T:
            with self._errors(producing):
                return work(progressed)

        try:
            return self._calls.run(self._doing, COMMIT.limit_s, made, release)
        except AbandonedCallError:
            if producing is not None:
                self._away += producing.brokers_away
            self._producing = None  # The abandoned call still uses it.
            raise

    @contextlib.contextmanager
    def _errors(self, producing: Producing | None) -> Iterator[None]:
        """Translate the client's errors to errors of Rheos. If a record was refused, raise the error
        for that record."""
        try:
            yield
        except RheosError:
            raise
        except Exception as error:
            if as_kafka_error(error) is None:
                raise
            if producing is not None:
                producing.hear_reports()
                if producing.refused is not None:
                    raise producing.refused from None
            raise kafka_error(error, self._doing, self._options) from None

    @property
    def _doing(self) -> str:
        return f"the topic {self._topic!r} cannot be written exactly once"
