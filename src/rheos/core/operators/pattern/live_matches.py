"""Live matches of one key: partial matches, and complete ones that are not emitted yet.

Each match is a chain of nodes, from its latest row back to its first. A node never changes. Matches
with the same beginning share its nodes: two that diverge at a row share one chain up to there. So a
further match costs one node for each row that only it has taken. A node is freed with the last match
that has it in its chain (PM1, PM2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rheos.core.operators.pattern.automaton import PatternEdge

NEVER_MS = 2**63 - 1


class MatchNode:
    """A row at a position of a match."""

    __slots__ = ("before", "event", "position")

    def __init__(self, position: int, event: int, before: MatchNode | None) -> None:
        self.position = position
        self.event = event
        """Number of the row. Later rows of a key have higher numbers."""
        self.before = before

    def chain(self) -> Iterator[MatchNode]:
        """Yield the nodes of the match, the last one first."""
        node: MatchNode | None = self
        while node is not None:
            yield node
            node = node.before

    def rows(self) -> list[tuple[int, int]]:
        """Return the rows that were taken, each with the position that took it, in order."""
        return [(node.event, node.position) for node in self.chain()][::-1]


def events_of(last: Iterable[MatchNode]) -> set[int]:
    """Return the numbers of the rows in the chains that end with these nodes."""
    seen: set[int] = set()
    events: set[int] = set()
    for each in last:
        node: MatchNode | None = each
        while node is not None and id(node) not in seen:
            seen.add(id(node))
            events.add(node.event)
            node = node.before
    return events


class Partial:
    """A match that is incomplete or may continue: its latest node, and the edges that it waits on."""

    __slots__ = ("began", "node", "open", "since_ms", "wakes")

    def __init__(
        self, node: MatchNode, open_: tuple[PatternEdge, ...], wakes: int, began: int, since_ms: int
    ) -> None:
        self.node = node
        self.open = open_
        self.wakes = wakes
        self.began = began
        """Number of its first row; `since_ms` is the time of that row."""
        self.since_ms = since_ms


class WholeMatch:
    """A complete match."""

    __slots__ = ("began", "node")

    def __init__(self, node: MatchNode, began: int) -> None:
        self.node = node
        self.began = began


class LiveMatches:
    """Live matches of one key. Lists are replaced, never modified: a snapshot may hold them."""

    __slots__ = ("expires_ms", "found", "partials", "wakes")

    def __init__(self, partials: list[Partial], found: list[WholeMatch]) -> None:
        self.partials = partials
        """Partial matches, ordered by their first row."""
        self.found = found
        """Complete matches that wait for partial matches with an earlier first row. They are ordered by
        first row, and within one row by the order in which they were found."""
        self.wakes = 0
        """Bits of rows that may change these matches: a row needs at least one of them."""
        self.expires_ms = NEVER_MS
        """Time at which the next of them expires."""

    def __bool__(self) -> bool:
        return bool(self.partials or self.found)

    def last_nodes(self) -> Iterator[MatchNode]:
        yield from (each.node for each in self.partials)
        yield from (each.node for each in self.found)
