"""A subtask reports nothing."""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.metrics import declarations as f
from rheos.core.metrics.health import Severity
from rheos.runtimes.health.check import HealthCheck
from rheos.runtimes.health.moment import FOR, Detected, JobMoment, number

SILENT_MS = 8_000
"""Subtasks report about once a second."""


def _find(seen: JobMoment) -> Iterator[Detected]:
    if not seen.runs:
        return
    for reading in seen.of(f.REPORT_AGE):
        subtask, age_ms = int(reading.at[0]), number(reading)
        if age_ms >= SILENT_MS:
            yield Detected(
                severity=Severity.STUCK,
                what=f"subtask {subtask} has reported nothing for {FOR}: it is in a call that does not "
                "return, such as one of the program's functions, or its process is frozen",
                what_to_do=f"profile subtask {subtask}, which shows where it is: `rheos profile`. Look "
                "at the servers that its functions and lookups use",
                for_ms=age_ms,
                subtask=subtask,
            )


DECLARED = HealthCheck(
    find=_find,
    means="a subtask, which reports each second, has reported nothing for 8 s",
    cause="a function of the program does not return, or the process or its machine is frozen",
    remedy="profile the subtask; look at what its functions wait for",
)
