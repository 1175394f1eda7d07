"""Placement: the number of subtasks of an attempt if there are fewer slots than wanted (CP18).

Pure: it maps the number of free slots to a decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rheos.core.errors import RheosError

ASK_AGAIN_MS = 500


@dataclass(frozen=True, slots=True)
class StartDecision:
    parallelism: int


@dataclass(frozen=True, slots=True)
class WaitForSlots:
    """A decision: wait, as slots that were just lost may come back."""

    until_ms: int
    shortage: RheosError


@dataclass(frozen=True, slots=True)
class ReportShortage:
    """A decision: report missing slots. They have not come back in time, and fewer are not enough."""

    shortage: RheosError


Choice: TypeAlias = StartDecision | WaitForSlots | ReportShortage


class Placement:
    """Decides the parallelism of a job's attempts: the wanted number of subtasks if there are enough
    slots."""

    def __init__(self, wanted: int, least: int | None, within_ms: int) -> None:
        self._given_least = least
        self.want(wanted)
        self._within_ms = within_ms
        self._since_ms: int | None = None
        """Time at which the shortage began, or at which the event occurred that may have caused it."""

    def want(self, wanted: int) -> None:
        """Set the wanted number of subtasks, from the next attempt on."""
        least = self._given_least
        self._wanted = wanted
        self._least = wanted if least is None else max(1, min(least, wanted))

    def lost(self, now_ms: int) -> None:
        """Record the failure of an attempt, which may have lost slots."""
        if self._since_ms is None:
            self._since_ms = now_ms

    def choose(self, free: int, now_ms: int) -> Choice:
        if free >= self._wanted:
            self._since_ms = None
            return StartDecision(self._wanted)
        self.lost(now_ms)
        assert self._since_ms is not None
        shortage = self._shortage(free)
        if now_ms < self._since_ms + self._within_ms:
            return WaitForSlots(min(now_ms + ASK_AGAIN_MS, self._since_ms + self._within_ms), shortage)
        if free >= self._least:
            self._since_ms = None
            return StartDecision(free)
        return ReportShortage(shortage)

    def _shortage(self, free: int) -> RheosError:
        if self._least < self._wanted:
            return RheosError(
                f"the job needs {self._wanted} slots, or at least {self._least}, but only "
                f"{free} are free",
                hint="it continues when executors are available again",
            )
        return RheosError(
            f"the job needs {self._wanted} slots, but only {free} are free",
            hint="it continues when executors are available again; with min_parallelism it would "
            "continue with fewer",
        )
