"""Bounds between which a topic's partitions are read, and their resolution to offsets.

    "earliest"                the first available record
    "latest"                  after the last record available when the job is submitted
    "group"                   the offsets committed by the group; else the first record
    a point in time           the first record at or after it, by the timestamps in Kafka
    {"orders": {0: 17}}       these offsets; a start is the first record of partitions not named

The driver resolves offsets once, before the job runs. Checkpoints contain the resolved offsets. An end
is exclusive: the record at it is not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Protocol, TypeAlias, assert_never

from rheos.core.errors import InputError, ProgramError
from rheos.core.protocol.moments import moment_ms

Partition: TypeAlias = tuple[str, int]
"""Topic, and number of one of its partitions."""
Offsets: TypeAlias = dict[Partition, int]

_MOMENTS = "a point in time is a datetime (UTC if it has no time zone), or an int of ms since the epoch"
_STARTS = f'write "earliest", "latest", "group", or {{"topic": {{0: 17, ...}}}}; {_MOMENTS}'
_ENDS = f'write "latest", {{"topic": {{0: 17, ...}}}}, or leave it out; {_MOMENTS}'


class TopicEdge(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class CommittedBound:
    name: str


@dataclass(frozen=True)
class TimeBound:
    ms: int
    """Time in ms since the epoch."""


@dataclass(frozen=True)
class OffsetsBound:
    offsets: tuple[tuple[Partition, int], ...]


Bound: TypeAlias = TopicEdge | CommittedBound | TimeBound | OffsetsBound


class Cluster(Protocol):
    """Requests to the brokers, each for several partitions at once."""

    def earliest(self, partitions: Sequence[Partition]) -> Offsets: ...

    def latest(self, partitions: Sequence[Partition]) -> Offsets:
        """Return the offset after the last record that a reader may read now."""
        ...

    def at(self, partitions: Sequence[Partition], ms: int) -> Offsets:
        """Return the offset of the first record at or after `ms`; partitions without one are left
        out."""
        ...

    def committed(self, partitions: Sequence[Partition], group: str) -> Offsets:
        """Return the offsets committed by the group; partitions without one are left out."""
        ...


def start_of(given: Any, group: str | None) -> Bound:
    """Check the start that a user has configured. Raises ProgramError."""
    if given == "group":
        if group is None:
            raise ProgramError('start="group" needs group=', hint='add group="name"')
        return CommittedBound(group)
    return _bound("start", given, _STARTS)


def end_of(given: Any) -> Bound | None:
    """Check the end that a user has configured; None for no end. Raises ProgramError."""
    if given is None:
        return None
    if given == "earliest":
        raise ProgramError('end="earliest" would read nothing', hint=_ENDS)
    return _bound("end", given, _ENDS)


def _bound(name: str, given: Any, hint: str) -> Bound:
    wrong = ProgramError(f"{name}={given!r} is not a position in a topic", hint=hint)
    if isinstance(given, str):
        if given not in {edge.value for edge in TopicEdge}:
            raise wrong
        return TopicEdge(given)
    if isinstance(given, datetime):
        return TimeBound(max(0, moment_ms(given)))
    if _is_number(given):
        return TimeBound(given)
    if not isinstance(given, Mapping) or not all(isinstance(of, Mapping) for of in given.values()):
        raise wrong
    offsets = [((str(t), p), offset) for t, of in given.items() for p, offset in of.items()]
    for (_, partition), offset in offsets:
        if not (_is_number(partition) and _is_number(offset)):
            raise wrong
    return OffsetsBound(tuple(sorted(offsets)))


def check_order(start: Bound, end: Bound) -> None:
    """Raise ProgramError if the end is before the start, whatever the topic contains."""
    before = ""
    if isinstance(start, TimeBound) and isinstance(end, TimeBound) and end.ms < start.ms:
        before = f"{end.ms} ms since the epoch is less than {start.ms}"
    if isinstance(start, OffsetsBound) and isinstance(end, OffsetsBound):
        ends = dict(end.offsets)
        for at, offset in start.offsets:
            if ends.get(at, offset) < offset:
                before = f"in {named(at)}, {ends[at]} is less than {offset}"
    if before:
        raise ProgramError(
            f"end= is before start=: {before}",
            hint="no record would be read: check whether they are swapped",
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def resolved_starts(
    bound: Bound, partitions: Sequence[Partition], cluster: Cluster, earliest: Offsets
) -> Offsets:
    """Return the start of each partition: `earliest` for partitions that the bound does not name.

    The reader checks whether the record still exists: a job that resumes from a checkpoint does not
    begin here.
    """
    if bound is TopicEdge.EARLIEST:
        return earliest
    return {**earliest, **_resolved(bound, partitions, cluster)}


def check_given_starts(start: OffsetsBound, latest: Offsets) -> None:
    """Raise InputError if the user has set an offset beyond the end of its partition, `latest`. The job
    would otherwise read nothing at first, and fail later."""
    for at, offset in start.offsets:
        if offset > latest.get(at, offset):
            raise InputError(
                f"start= is offset {offset} of {named(at)}, but its next record will have "
                f"offset {latest[at]}",
                hint='write start="latest" to read only new records, or check the offset and the topic',
            )


def resolved_ends(bound: Bound, partitions: Sequence[Partition], cluster: Cluster) -> Offsets:
    """Return the end of each partition. An end set by the user may be in the future."""
    found = _resolved(bound, partitions, cluster)
    missing = [partition for partition in partitions if partition not in found]
    if missing:
        raise InputError(
            f"end= has no offset for {named(missing[0])}",
            hint="pass an offset for each partition of the topics that are read",
        )
    return found


def _resolved(bound: Bound, partitions: Sequence[Partition], cluster: Cluster) -> Offsets:
    match bound:
        case TopicEdge.EARLIEST:
            return cluster.earliest(partitions)
        case TopicEdge.LATEST:
            return cluster.latest(partitions)
        case TimeBound(ms):
            # If all records are earlier, the bound is after the last of them.
            return {**cluster.latest(partitions), **cluster.at(partitions, ms)}
        case CommittedBound(name):
            return cluster.committed(partitions, name)
        case OffsetsBound(offsets):
            known = set(partitions)
            for partition, _ in offsets:
                if partition not in known:
                    raise InputError(
                        f"{named(partition)} is not among the partitions that are read",
                        hint=f"these are {', '.join(map(named, partitions[:10]))}",
                    )
            return dict(offsets)
        case _:
            assert_never(bound)


def named(partition: Partition) -> str:
    """Return the name of a partition as Kafka's tools and our errors write it: `orders[3]`."""
    return f"{partition[0]}[{partition[1]}]"
