"""Decides when a driver that waits for a running job may claim it. Pure.

Two drivers take part in an upgrade. The *incumbent* runs the job. The *successor* has another program
and waits. The incumbent's last checkpoint names its successor in the log (UP1). Both drivers then read
the log, and each derives the same situation from it:

    other driver runs     the log names no successor: wait
    named                 this driver is the successor: claim when the incumbent's attempt has ended
    offered               this driver named a successor, which has not claimed: take it back later
    taken                 the successor has claimed, but has no checkpoint: take it back later
    confirmed             the successor has completed a checkpoint: this driver is only kept ready

A wrong decision costs time, and no row: only one claim can be the log's next entry (CP2). UP numbers
are those of docs/protocols/upgrade.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.checkpoint.log import LogView
from rheos.core.checkpoint.log_entries import AttemptStarted, CheckpointCompleted, JobFinished


@dataclass(frozen=True)
class SuccessionLimits:
    """Longest waits of a handover, in ms of the monotonic clock of the driver that waits."""

    release_ms: int = 10_000
    """Time that a named successor waits for the end of the incumbent's attempt."""
    take_ms: int = 30_000
    """Time that the incumbent waits for the successor's claim. It exceeds `release_ms`."""
    confirm_ms: int = 120_000
    """Time that the incumbent waits, from the successor's claim, for its first checkpoint."""
    keep_ms: int = 0
    """Time for which the incumbent is kept ready after that checkpoint, for a rollback."""
    look_ms: int = 100
    """Time between two reads of the log while a handover is in progress."""
    idle_ms: int = 1_000
    """Time between two reads of the log otherwise."""


class SuccessionStep(Enum):
    """Next step of the driver that waits."""

    WAIT = "read the log again later"
    CLAIM = "claim the job"
    END = "end this driver: the job continues, or has finished, without it"
    LOST = "end this driver: the job was taken back before it could claim it"


class Succession:
    """One driver that waits. It is either a new driver, or one that has offered its job."""

    def __init__(
        self,
        owner: str,
        limits: SuccessionLimits,
        *,
        offered_to: str | None = None,
    ) -> None:
        """Begin to wait.

        Args:
            owner: id of this driver.
            limits: longest waits.
            offered_to: id of the successor that this driver has named; None for a new driver.
        """
        self._owner = owner
        self._limits = limits
        self._offered_to = offered_to
        self.situation = Situation.OTHER_RUNS if offered_to is None else Situation.OFFERED
        self._since_ms: int | None = None
        """Time at which this driver first saw the situation."""
        self._is_free = False
        """Whether the other driver has ended its attempt, or is lost."""
        self._is_withdrawn = False
        """Whether nobody waits for this driver any more."""
        self._was_named = False
        self._other: str | None = None
        """Owner of the newest entry while this driver is not named."""

    @property
    def was_incumbent(self) -> bool:
        """Return whether this driver has run the job before."""
        return self._offered_to is not None

    @property
    def prepares(self) -> bool:
        """Return whether this driver restores checkpoints ahead (UP10). It does not while the successor
        starts, whose pause would become longer."""
        return self.situation in (Situation.OTHER_RUNS, Situation.NAMED, Situation.CONFIRMED)

    def other_is_gone(self) -> None:
        """Record that the other driver has ended its attempt, or is lost. The driver that waits claims
        the job at its next look, if the log permits it (UP4)."""
        self._is_free = True

    def withdraw(self) -> None:
        """Record that this driver is no longer needed. It ends, unless the log already names it: then
        the job depends on it (UP5)."""
        self._is_withdrawn = True

    def look(self, view: LogView, now_ms: int) -> SuccessionStep:
        """Decide after a read of the log. `now_ms` is monotonic."""
        situation = self._read(view)
        if situation is not self.situation or self._since_ms is None:
            self.situation, self._since_ms = situation, now_ms
            if situation is Situation.CONFIRMED:
                self._is_free = False  # The message was about the driver before its checkpoint.
        waited_ms = now_ms - self._since_ms
        match situation:
            case Situation.NAMED:
                self._was_named = True
                return self._claim_after(waited_ms, self._limits.release_ms)
            case Situation.OFFERED:
                return self._claim_after(waited_ms, self._limits.take_ms)
            case Situation.TAKEN:
                return self._claim_after(waited_ms, self._limits.confirm_ms)
            case Situation.OWN:
                return SuccessionStep.CLAIM
            case Situation.CONFIRMED:
                over = self._is_withdrawn or waited_ms >= self._limits.keep_ms
                return SuccessionStep.END if over else SuccessionStep.WAIT
            case Situation.OTHER_RUNS:
                return self._decide_unnamed(view)
            case Situation.FINISHED:
                return SuccessionStep.END
            case other:
                assert_never(other)

    def next_look_ms(self, now_ms: int) -> int:
        """Return the time of the next read of the log."""
        quiet = self.situation in (Situation.OTHER_RUNS, Situation.CONFIRMED)
        return now_ms + (self._limits.idle_ms if quiet else self._limits.look_ms)

    def _decide_unnamed(self, view: LogView) -> SuccessionStep:
        """Decide for a new driver that the log does not name."""
        other = view.newest.owner if view.newest is not None else None
        if other != self._other and self._other is not None:
            self._is_free = False  # The message was about another driver.
        self._other = other
        if self._was_named:
            return SuccessionStep.LOST
        if self._is_withdrawn:
            return SuccessionStep.END
        return SuccessionStep.CLAIM if self._is_free else SuccessionStep.WAIT

    def _claim_after(self, waited_ms: int, limit_ms: int) -> SuccessionStep:
        due = self._is_free or waited_ms >= limit_ms
        return SuccessionStep.CLAIM if due else SuccessionStep.WAIT

    def _read(self, view: LogView) -> Situation:
        newest = view.newest
        if isinstance(newest, JobFinished):
            return Situation.FINISHED
        named = newest.successor if isinstance(newest, CheckpointCompleted) else None
        if named == self._owner:
            return Situation.NAMED
        if newest is not None and newest.owner == self._owner:
            return Situation.OWN if named is None else Situation.OFFERED
        if self._offered_to is None or newest is None:
            return Situation.OTHER_RUNS
        if isinstance(newest, AttemptStarted) and self._is_first_claim(view, newest):
            return Situation.TAKEN
        return Situation.CONFIRMED

    def _is_first_claim(self, view: LogView, claim: AttemptStarted) -> bool:
        """Return whether the claim continues from the checkpoint with which this driver offered the
        job. So no checkpoint has been completed since."""
        if not view.completed:
            return False
        entry = view.completed[-1].entry
        return entry.checkpoint == claim.from_checkpoint and entry.owner == self._owner
