"""Typed ids, so that a value of one kind is never passed for another."""

from __future__ import annotations

import re
from typing import NamedTuple, NewType

JobId = NewType("JobId", str)


def job_slug(name: str) -> JobId:
    """Return the id of a job whose log is kept. It derives from the name, so it never changes."""
    return JobId(re.sub(r"\W+", "-", name.lower()).strip("-") or "job")


JobKey = NewType("JobKey", str)
"""Identity of a job over all its drivers and attempts: its id and its checkpoint directory."""

OperatorId = NewType("OperatorId", str)
"""Identity of an operator, stable over restarts and program changes: the user's `uid`, or one derived
from the plan."""

ChainId = NewType("ChainId", int)
"""Position of a chain in the plan's topological order."""

Attempt = NewType("Attempt", int)
"""Number of an execution of a job, counting from 1. Frames, files and acknowledgements carry it."""

CheckpointId = NewType("CheckpointId", int)
"""Number of a checkpoint of a job, counting from 1 over all attempts; never used twice."""

Subtask = NewType("Subtask", int)
KeyGroup = NewType("KeyGroup", int)


class ChannelId(NamedTuple):
    """A FIFO channel: an edge of the plan, and its sending and receiving subtask. It is a tuple,
    because each batch causes several look-ups."""

    edge: int
    sender: int
    receiver: int

    def __str__(self) -> str:
        return f"{self.edge}:{self.sender}>{self.receiver}"
