"""A pattern as an automaton; `pattern_compiler` makes it.

Each step becomes one *position*. A step that repeats becomes several: one for each counted repetition.
A match that has taken a row at a position waits on the *edges* of that position. Each edge leads to a
position that may take the next row, and defines which rows close the edge. A match advances only with a
row. If a part is optional, the compiler adds edges that bypass it.

    a  followed by  b+  next  c       start ──► a ──► b ──► c ─► found
                                                     └─► b

The matcher checks an edge only if the row has one of the bits that the edge *wakes* for. Each condition
with expressions has its own bit. Each row has the bit `EVERY`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from rheos.core.graph.patterns import Condition, Contiguity

EVERY = 1
"""Bit that each row has."""


class BlockedTest(NamedTuple):
    """A test that holds for a row that fulfils `condition` and none of the conditions in `unless`."""

    condition: int
    unless: tuple[int, ...] = ()


@dataclass(frozen=True)
class EdgeGuards:
    """Conditions for rows that close an edge."""

    never: tuple[BlockedTest, ...] = ()
    """Tests for rows that close the edge, even a row that the edge would take."""
    between: tuple[int, ...] = ()
    """Conditions for rows that close the edge, unless the edge takes the row."""
    first: tuple[int, ...] = ()
    """Conditions for rows that close the edge, if they directly follow the row taken last."""

    def __add__(self, other: EdgeGuards) -> EdgeGuards:
        return EdgeGuards(
            tuple(dict.fromkeys(self.never + other.never)),
            tuple(dict.fromkeys(self.between + other.between)),
            tuple(dict.fromkeys(self.first + other.first)),
        )


NO_GUARDS = EdgeGuards()


class EdgeEffect(Enum):
    """Effect of an edge on a match."""

    TAKES = "takes a row"
    ENDS_AT_NEXT = "matches end only when the next row arrives, which is not part of the match"
    ENDS_IN_TIME = "matches end only when their time limit has passed"


@dataclass(frozen=True, eq=False)
class PatternEdge:
    number: int
    leads: EdgeEffect
    target: int
    """Position that the edge leads to; -1 if the edge completes the match."""
    condition: int
    """Condition of the row that is taken; -1 if no row is taken."""
    contiguity: Contiguity
    guards: EdgeGuards
    wakes: int
    later: int
    """Edge that replaces this one after the first row that did not close it."""
    sure: bool
    """Whether the edge takes every row that wakes it."""


@dataclass(frozen=True, eq=False)
class PatternPosition:
    number: int
    step: int
    """Number of the pattern's step, in the order of writing."""
    shown: bool
    """Whether its rows are among those that the output of a preferring match contains."""
    edges: tuple[PatternEdge, ...]
    found: bool
    """Whether the match may end here."""
    wakes: int


def waking_bits(edges: Iterable[PatternEdge]) -> int:
    """Return the bits that any of these edges wakes for."""
    wakes = 0
    for edge in edges:
        wakes |= edge.wakes
    return wakes


@dataclass(frozen=True, eq=False)
class Automaton:
    names: tuple[str, ...]
    """Names of the steps, in the order of writing."""
    repeats: tuple[bool, ...]
    """Whether each step may take several rows of a match."""
    conditions: tuple[Condition, ...]
    bits: tuple[int, ...]
    """Bit of each condition: its own bit if it has expressions, otherwise EVERY."""
    positions: tuple[PatternPosition, ...]
    edges: tuple[PatternEdge, ...]
    begins: tuple[PatternEdge, ...]
    """Edges with which any row may begin a match."""
    within_ms: int | None
    preferring: bool = False
    """Whether edges are in the order of preference, each preferred to ending."""

    @property
    def begin_wakes(self) -> int:
        return waking_bits(self.begins)

    @property
    def quiet(self) -> bool:
        """Whether rows that fulfil no condition change nothing."""
        return not any(edge.wakes & EVERY for edge in (*self.edges, *self.begins))
