"""Where the rows of an edge go: for each kind of exchange, which rows to which subtask.

A new kind of exchange is a member of `plan.physical.Exchange`, a router here, and a case in
`runtimes/batch/dataframes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, assert_never

from rheos.plan.physical import Edge, Exchange
from rheos.protocol.elements import Batch
from rheos.task.partition import Partitioner


class Router(Protocol):
    """Of one edge in one sending subtask."""

    shares: int
    """Over how many lanes it deals out the rows of a batch."""

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        """The rows for each lane, by its place among `Edge.peers`; of one lane in their order."""
        ...


def router(edge: Edge, subtask: int, width: int, max_parallelism: int) -> Router:
    """`width` is how many subtasks of the receiving chain take rows."""
    match edge.exchange:
        case Exchange.FORWARD:
            return _OneLane()
        case Exchange.REBALANCE:
            return _OneLane() if width == 1 else _RoundRobin(subtask, width)
        case Exchange.HASH:
            if width == 1:
                return _OneLane()
            return _ByKey(Partitioner(edge.keys, width, max_parallelism, edge.keyed_at), width)
        case Exchange.BROADCAST:
            return _OneLane() if width == 1 else _EveryLane(width)
        case _:
            assert_never(edge.exchange)


class _OneLane:
    shares = 1

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        yield 0, batch


class _RoundRobin:
    """Whole batches in turn. Each sender begins with another receiver."""

    def __init__(self, subtask: int, width: int) -> None:
        self._next = subtask % width
        self._width = self.shares = width

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        yield self._next, batch
        self._next = (self._next + 1) % self._width


class _ByKey:
    def __init__(self, partitioner: Partitioner, width: int) -> None:
        self._partitioner = partitioner
        self.shares = width

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        for lane, piece in enumerate(self._partitioner.split(batch)):
            if piece is not None and piece.num_rows:
                yield lane, piece


class _EveryLane:
    """The same batch to all: none of them changes it."""

    shares = 1

    def __init__(self, width: int) -> None:
        self._lanes = range(width)

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        for lane in self._lanes:
            yield lane, batch
