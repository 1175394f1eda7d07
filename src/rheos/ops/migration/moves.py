"""The parts of another system's job, and their places in a job of Rheos."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MoveOutcome(StrEnum):
    MOVED = "moved"
    EMPTY = "starts empty"
    REFUSED = "cannot be moved"


@dataclass(frozen=True)
class Move:
    """One part of the other job, and its place in the job."""

    part: str
    """Source or operator of the other job."""
    outcome: MoveOutcome
    place: str
    """Operator of the job; empty if no operator corresponds to the part."""
    reason: str
    """Description of what is moved, or the reason why it cannot be."""
    hint: str = ""
