"""Situations of a driver in a handover (UP3). Commands read them without a library of rows."""

from __future__ import annotations

from enum import Enum


class Situation(Enum):
    """Situation of one of the two drivers, according to the log."""

    OTHER_RUNS = "another driver runs the job"
    NAMED = "the log names this driver as the successor"
    OFFERED = "the log names the successor, which has not claimed the job"
    TAKEN = "the successor has claimed the job, but has no checkpoint"
    CONFIRMED = "the successor has completed a checkpoint"
    OWN = "the newest entry is this driver's own"
    FINISHED = "the job has finished"
