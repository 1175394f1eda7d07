"""Exactly-once commits of one writer's epochs: a pure state machine that returns actions and receives
their results.

    mark unknown -> Fence -> ReadMark -> (Write -> Commit -> Settle)* -> done
         ^                                     |
         +------------- Discard <--------------+   any failure or unknown outcome

An *epoch* contains the records that a writer has staged at a checkpoint's barrier, and has the
checkpoint's number. The *mark* is the number of the newest committed epoch. The broker stores it as the
offset of the writer's own group, and only the transactions that write epochs change it. The *note* in
the staging folder records the same number, slightly later. This module does not use Kafka's client:
`transactions.py` executes the actions, and tests execute them on a simulated broker. KS1 to KS10:
docs/protocols/kafka-sink.md.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rheos.core.errors import RheosError, UnrestorableError

IfUnknown: TypeAlias = Literal["fail", "write", "skip"]
"""Policy for an epoch if neither mark nor note shows whether it was committed."""

PAUSES_MS = (200, 1000, 3000)
"""Pauses before retries. Kafka's client has already retried for long by then."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Become the only producer with the writer's name. Answered when all transactions of other
    producers with this name are committed or aborted, and these producers can commit no others."""


@dataclass(frozen=True, slots=True)
class ReadMark:
    """Read the mark. The answer is None if the broker has no mark. Waits for transactions whose offsets
    are not settled."""


@dataclass(frozen=True, slots=True)
class Write:
    """Begin a transaction, and write the epoch's records and, as the mark, its number."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Commit:
    epoch: int


@dataclass(frozen=True, slots=True)
class Settle:
    """The epoch is committed: record that in the note, then remove the staged records."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Close the producer: the outcome of its open transaction is unknown."""


@dataclass(frozen=True, slots=True)
class Pause:
    ms: int


Action: TypeAlias = Fence | ReadMark | Write | Commit | Settle | Discard | Pause
Steps: TypeAlias = Generator[Action, int | None, None]


class TransientError(Exception):
    """An action that failed, or may have failed; a retry may succeed. Raised by the shell."""

    def __init__(self, error: RheosError) -> None:
        super().__init__(str(error))
        self.error = error


class EpochCommits:
    """A committer of one writer's epochs. Several may exist at the same time: in the writer's task, in
    a driver that recovers, and in replaced processes that do not know yet that they were replaced."""

    def __init__(self, name: str, if_unknown: IfUnknown = "fail") -> None:
        self._name = name
        self._if_unknown = if_unknown
        self._mark: int | None = None
        """The mark, while this committer owns the producer: no other committer can change it then."""
        self.retries = 0

    def steps(self, epochs: Sequence[int], noted: int) -> Steps:
        """Yield the actions that commit `epochs` in their order. `noted` is the number in the note.

        The shell executes each action before it requests the next one. It sends the answer of
        `ReadMark`, and throws the errors of actions. At most one of these generators runs at a time.
        Raises UnrestorableError if it is unknown whether an epoch was committed, and errors of the
        shell for which a retry is pointless.
        """
        assert list(epochs) == sorted(set(epochs)), "KS5: epochs are committed in their order"
        for pause_ms in (*PAUSES_MS, None):
            try:
                yield from self._commit(epochs, noted)
                return
            except TransientError as failure:
                yield from self._let_go()
                if pause_ms is None:
                    raise failure.error from failure
            except Exception:
                yield from self._let_go()
                raise
            self.retries += 1
            yield Pause(pause_ms)

    def _commit(self, epochs: Sequence[int], noted: int) -> Steps:
        for epoch in epochs:
            if epoch > noted:
                if self._mark is None:
                    yield Fence()  # KS4: the mark is read after fencing, by the same committer.
                    self._mark = self._resolved((yield ReadMark()), epochs, noted)
                if epoch > self._mark:
                    yield Write(epoch)
                    yield Commit(epoch)
                    self._mark = epoch
            yield Settle(epoch)

    def _resolved(self, mark: int | None, epochs: Sequence[int], noted: int) -> int:
        """Return the mark. KS7: a missing mark was lost, as it is created before the first epoch."""
        if mark is not None:
            return mark
        if self._if_unknown == "write":
            return noted
        if self._if_unknown == "skip":
            return epochs[-1]
        unknown = [epoch for epoch in epochs if epoch > noted]
        raise UnrestorableError(
            f"it is unknown whether the records staged for checkpoint {_listed(unknown)} are "
            f"already in the topic: the broker no longer has an offset of the group {self._name}",
            hint="brokers delete the offsets of a group after a while (offsets.retention.minutes, 7 "
            "days by default), or with a deleted topic. Check whether the last staged records "
            "are at the end of the topic. If so, start the job once with kafka.sink(..., "
            'if_unknown="skip"), otherwise with if_unknown="write"',
        )

    def _let_go(self) -> Steps:
        """KS6: give up the producer after a failure. The outcome is unknown: the action may have
        succeeded."""
        self._mark = None
        yield Discard()


def _listed(epochs: Sequence[int]) -> str:
    return ", ".join(map(str, epochs))
