"""Detection of topics that were deleted, truncated or recreated while the job reads them. A recreated
topic would be a silent gap: under the same name, other records have the same offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rheos.connectors.kafka.bounds import Offsets, Partition, named
from rheos.connectors.kafka.cluster import FoundTopic
from rheos.connectors.kafka.partition import PartitionSplit
from rheos.core.errors import InputError

EVERY_S = 10.0
AGAIN_S = 1.0
"""Interval after which missing topics are looked up again: a broker that has just started may not know
all topics yet, so the second lookup decides."""


class Topics(Protocol):
    """Requests to the brokers."""

    def described(self, names: Sequence[str]) -> Sequence[FoundTopic]:
        """Describe those of the topics that exist."""
        ...

    def earliest(self, partitions: Sequence[Partition]) -> Offsets: ...

    def latest(self, partitions: Sequence[Partition]) -> Offsets: ...


class TopicWatch:
    """Checks the topics of one consumer."""

    def __init__(self, topics: Topics, now_s: Callable[[], float]) -> None:
        self._topics = topics
        self._now_s = now_s
        self._looked_at_s = now_s()
        self._missing: dict[str, float] = {}
        """Missing topics, and the time since which each is missing."""

    def is_due(self) -> bool:
        """Return whether the next check of all topics is due."""
        every_s = AGAIN_S if self._missing else EVERY_S
        return self._now_s() >= self._looked_at_s + every_s

    def look_soon(self) -> None:
        """Check again soon, because a broker reported that it does not know a topic."""
        self._looked_at_s = self._now_s() + AGAIN_S - EVERY_S

    def topics_exist(self, splits: Sequence[PartitionSplit]) -> bool:
        """Return whether all topics of the splits exist; False if that is not certain yet.

        Raises InputError if a topic was deleted or recreated; UnavailableError if no broker answers.
        """
        self._looked_at_s = now_s = self._now_s()
        names = sorted({split.topic for split in splits})
        found = {topic.name: topic for topic in self._topics.described(names)}
        for name in names:
            if name in found:
                self._missing.pop(name, None)
            elif now_s - self._missing.setdefault(name, now_s) >= AGAIN_S:
                raise InputError(
                    f"the topic {name!r} no longer exists",
                    hint="its unread records are lost. Start the job anew without its checkpoints, "
                    "or without this topic",
                )
        for split in splits:
            topic = found.get(split.topic)
            if topic and topic.id and split.topic_id and topic.id != split.topic_id:
                raise InputError(
                    f"the topic {topic.name!r} was deleted and recreated since the job last read it",
                    hint="other records now have the same offsets. Start the job anew, without its "
                    "checkpoints",
                )
        return all(name in found for name in names)

    def out_of_range(self, split: PartitionSplit, next: int) -> InputError:
        """Return the error for a partition without a record at the next offset, or without earlier
        records."""
        self.topics_exist([split])
        at = (split.topic, split.partition)
        first, end = self._topics.earliest([at])[at], self._topics.latest([at])[at]
        there = f"{named(at)} has records from offset {first} up to {end}"
        if next < first:
            what = f"{there}: the records from {next} on were deleted before the job read them"
        else:
            what = (
                f"{there}, but the job's next offset is {next}: the topic was truncated, or never "
                "had it"
            )
        return InputError(
            what,
            hint="a job never skips records silently. Increase the topic's retention, and start the "
            'job anew, without its checkpoints; start="earliest" begins with the oldest '
            "record that exists",
        )
