"""Distribution of an edge's rows for each kind of exchange: which rows go to which subtask.

A new kind of exchange is a member of `plan.physical.Exchange`, a router here, and a case in
`runtimes/batch/dataframes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, assert_never

from rheos.core.graph.row_distribution import PartitionBy
from rheos.core.plan.physical import Edge, Exchange
from rheos.core.protocol.elements import Batch
from rheos.core.task.custom_partition import CustomPartitioner
from rheos.core.task.partition import Partitioner


class Router(Protocol):
    """Distributes the rows of one edge in one sending subtask."""

    shares: int
    """Number of lanes among which the rows of a batch are distributed."""

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        """Yield the rows for each lane, in order. A lane is an index into `Edge.peers`."""
        ...


def router(edge: Edge, subtask: int, senders: int, width: int, max_parallelism: int) -> Router:
    """Return the router of an edge. `senders` is the number of sending subtasks that have rows, `width`
    the number of receiving subtasks that take rows."""
    match edge.exchange:
        case Exchange.FORWARD:
            return _OneLane()
        case Exchange.REBALANCE:
            return _OneLane() if width == 1 else _RoundRobin(range(width), subtask)
        case Exchange.HASH:
            if width == 1:
                return _OneLane()
            return _ByKey(Partitioner(edge.keys, width, max_parallelism, edge.keyed_at), width)
        case Exchange.BROADCAST:
            return _OneLane() if width == 1 else _EveryLane(width)
        case Exchange.RESCALE:
            return _RoundRobin(_opposite(subtask, senders, width), 0)
        case Exchange.CUSTOM:
            assert isinstance(edge.distribution, PartitionBy)
            return _Custom(CustomPartitioner(edge.distribution, width))
        case _:
            assert_never(edge.exchange)


class _OneLane:
    shares = 1

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        yield 0, batch


class _RoundRobin:
    """Sends whole batches in turn. Each sender begins with a different receiver."""

    def __init__(self, lanes: Sequence[int], first: int) -> None:
        self._lanes = lanes
        self._next = first % len(lanes)
        self.shares = len(lanes)

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        yield self._lanes[self._next], batch
        self._next = (self._next + 1) % len(self._lanes)


def _opposite(subtask: int, senders: int, width: int) -> range:
    """Return the receivers of one sender, if senders and receivers are matched evenly. Senders without
    rows come after all others."""
    at = min(subtask, senders - 1)
    first = at * width // senders
    return range(first, max((at + 1) * width // senders, first + 1))


class _ByKey:
    def __init__(self, partitioner: Partitioner, width: int) -> None:
        self._partitioner = partitioner
        self.shares = width

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        for lane, piece in enumerate(self._partitioner.split(batch)):
            if piece is not None and piece.num_rows:
                yield lane, piece


class _Custom:
    def __init__(self, partitioner: CustomPartitioner) -> None:
        self._partitioner = partitioner
        self.shares = partitioner.width

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        for lane, piece in enumerate(self._partitioner.split(batch)):
            if piece is not None:
                yield lane, piece


class _EveryLane:
    """Sends the same batch to all lanes, as no receiver changes it."""

    shares = 1

    def __init__(self, width: int) -> None:
        self._lanes = range(width)

    def route(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        for lane in self._lanes:
            yield lane, batch
