"""Comparison of two ways to move the same records, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from rheos.cli.benchmarks.intervals import cell, ratio_cell


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
        """Return a row of the table: medians and ratios, with their intervals."""
        records, sides = self.case.records, (self.ours, self.theirs)
        rates = [cell([records / each.wall_s / 1e3 for each in of], "{:.1f}".format) for of in sides]
        processor_us = [
            cell([each.processor_s / records * 1e6 for each in of], "{:.2f}".format) for of in sides
        ]
        pairs = list(zip(self.ours, self.theirs, strict=True))
        faster = ratio_cell([(theirs.wall_s, ours.wall_s) for ours, theirs in pairs])
        cheaper = ratio_cell([(theirs.processor_s, ours.processor_s) for ours, theirs in pairs])
        return (
            f"| {self.case.name} | {self.case.library} | {rates[0]} | {rates[1]} | {faster} "
            f"| {processor_us[0]} | {processor_us[1]} | {cheaper} |"
        )


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
