"""Jobs for the tests of health: a stand-in at one moment, with the metrics that a test specifies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from rheos.core.protocol.readings import Reading
from rheos.runtimes.health.moment import JobMoment
from tests.cli.stand_ins import METRICS, STATUS, outline

CALM = replace(STATUS, failure=None, restarts=0, checkpoints_failed=0, operators=())
NOW_MS = 1_700_000_000_000
NOW_US = 10_000_000_000
SECOND_US = 1_000_000


def seen(*readings: Reading, **more: Any) -> JobMoment:
    """Return the stand-in at a moment: the source "clicks", and a map downstream of a shuffle by n.

    Names of fields of `JobMoment` are set there, others in the status."""
    of_seen = {name: more.pop(name) for name in list(more) if name in JobMoment.__dataclass_fields__}
    metrics = msgspec.structs.replace(METRICS, readings=list(readings))
    return JobMoment(replace(CALM, **more), outline(), metrics, **{"now_us": NOW_US, **of_seen})


def shares(chain: str, metric: str, *parts: float) -> list[Reading]:
    """Return shares of the subtasks' time, by subtask."""
    return [Reading(metric, (chain, str(n)), 1.0, part * 1000) for n, part in enumerate(parts)]


def received(*rates: float) -> list[Reading]:
    return [Reading("received_rows", ("0", str(n)), 1, rate) for n, rate in enumerate(rates)]


def split(name: str, mark: int | None, stands_ms: int, idle: int = 0) -> list[Reading]:
    at = ("source-1", name, "0")
    said = [Reading("split_stands_ms", at, stands_ms), Reading("split_idle", at, idle)]
    return said if mark is None else [*said, Reading("split_watermark_ms", at, mark)]


HELD = shares("0", "backpressured_ms", 0.98, 0.9)
