"""Comparison of two ways to move the same records, in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Case:
    """A connector, and the client library alone. Each call moves all records once."""

    name: str
    library: str
    records: int
    ours: Callable[[], None]
    theirs: Callable[[], None]
    before: Callable[[], None] = lambda: None
    """Puts the records where each call reads them. It is not measured."""


@dataclass(frozen=True)
class Cost:
    """Cost of one call."""

    wall_s: float
    processor_s: float


@dataclass(frozen=True)
class Comparison:
    """Costs of all rounds. The first round has warmed up, and is left out."""

    case: Case
    ours: list[Cost]
    theirs: list[Cost]

    HEADER = (
        "| connector | client library | thousand records/s: Rheos | library | ratio "
        "| processor µs per record: Rheos | library | ratio |\n"
        "|---|---|---:|---:|---:|---:|---:|---:|"
    )

    def row(self) -> str:
        """Return a row of the table: medians, and of ratios the minimum and the maximum."""
        records = self.case.records
        rates = [
            records / statistics.median(each.wall_s for each in costs) / 1e3
            for costs in (self.ours, self.theirs)
        ]
        processor_us = [
            statistics.median(each.processor_s for each in costs) / records * 1e6
            for costs in (self.ours, self.theirs)
        ]
        pairs = list(zip(self.ours, self.theirs, strict=True))
        faster = _interval([theirs.wall_s / ours.wall_s for ours, theirs in pairs])
        cheaper = _interval([theirs.processor_s / ours.processor_s for ours, theirs in pairs])
        return (
            f"| {self.case.name} | {self.case.library} | {rates[0]:.1f} | {rates[1]:.1f} | {faster} "
            f"| {processor_us[0]:.2f} | {processor_us[1]:.2f} | {cheaper} |"
        )


def _interval(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def compare(case: Case, rounds: int) -> Comparison:
    """Run both ways in turns. Every second round begins with the other one."""
    ours: list[Cost] = []
    theirs: list[Cost] = []
    for turn in range(rounds + 1):
        ways = [(case.ours, ours), (case.theirs, theirs)]
        for way, costs in ways[:: 1 if turn % 2 else -1]:
            case.before()
            costs.append(_cost(way))
    return Comparison(case, ours[1:], theirs[1:])


def _cost(way: Callable[[], None]) -> Cost:
    began_s, began_processor_s = time.perf_counter(), _processor_s()
    way()
    return Cost(time.perf_counter() - began_s, _processor_s() - began_processor_s)


def _processor_s() -> float:
    """Return the processor time of this process and of its servers, also of processes that ended."""
    me = psutil.Process()
    return sum(sum(each.cpu_times()[:4]) for each in [me, *me.children(recursive=True)])
