"""Typed ids. A value of one kind is never passed where another is meant."""

from __future__ import annotations

import re
from typing import NamedTuple, NewType

JobId = NewType("JobId", str)


def job_slug(name: str) -> JobId:
    """The id of a job whose log is kept: made of its name, so it is the same at each start."""
    return JobId(re.sub(r"\W+", "-", name.lower()).strip("-") or "job")


JobKey = NewType("JobKey", str)
"""Identity of a job over all its drivers and attempts: its id and its checkpoint directory."""

OperatorId = NewType("OperatorId", str)
"""Stable over restarts and changed programs: the user's `uid`, or one made from the plan."""

ChainId = NewType("ChainId", int)
"""The position of a chain in the plan's topological order."""

Attempt = NewType("Attempt", int)
"""Counts the executions of a job from 1. Every frame, file and acknowledgement carries it."""

CheckpointId = NewType("CheckpointId", int)
"""Counts the checkpoints of a job from 1, over all attempts; never used twice."""

Subtask = NewType("Subtask", int)
KeyGroup = NewType("KeyGroup", int)


class ChannelId(NamedTuple):
    """One FIFO lane: an edge of the plan, from one subtask to another. A tuple: it is looked up several
    times for each batch."""

    edge: int
    sender: int
    receiver: int

    def __str__(self) -> str:
        return f"{self.edge}:{self.sender}>{self.receiver}"
