"""Topics that disappear, return, or are recreated are detected, and never by a single lookup."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rheos.connectors.kafka.bounds import Offsets, Partition
from rheos.connectors.kafka.cluster import FoundTopic
from rheos.connectors.kafka.partition import PartitionSplit
from rheos.connectors.kafka.topic_watch import AGAIN_S, EVERY_S, TopicWatch
from rheos.core.errors import InputError

A0, A1 = PartitionSplit("a", 0, "id-a", 0, 0), PartitionSplit("a", 1, "id-a", 0, 0)
B0 = PartitionSplit("b", 0, "id-b", 0, 0)


class World:
    """Cluster with a clock."""

    def __init__(self) -> None:
        self.ids = {"a": "id-a", "b": "id-b"}
        self.now_s = 100.0
        self.watch = TopicWatch(self, lambda: self.now_s)

    def described(self, names: Sequence[str]) -> Sequence[FoundTopic]:
        return [FoundTopic(name, self.ids[name], (0, 1)) for name in names if name in self.ids]

    def earliest(self, partitions: Sequence[Partition]) -> Offsets:
        return dict.fromkeys(partitions, 40)

    def latest(self, partitions: Sequence[Partition]) -> Offsets:
        return dict.fromkeys(partitions, 90)


def test_topics_are_checked_at_intervals_or_sooner_on_request() -> None:
    world = World()
    assert not world.watch.is_due()
    world.now_s += EVERY_S
    assert world.watch.is_due()
    assert world.watch.topics_exist([A0, A1, B0])
    assert not world.watch.is_due()
    world.watch.look_soon()
    assert not world.watch.is_due()
    world.now_s += AGAIN_S
    assert world.watch.is_due()


def test_a_topic_that_is_missing_briefly_is_not_deleted() -> None:
    world = World()
    id = world.ids.pop("a")
    assert not world.watch.topics_exist([A0, B0])
    assert not world.watch.topics_exist([A1])
    world.ids["a"] = id
    world.now_s += AGAIN_S
    assert world.watch.is_due()
    assert world.watch.topics_exist([A0, B0])
    del world.ids["a"]
    assert not world.watch.topics_exist([A0])


def test_a_topic_that_stays_missing_is_deleted() -> None:
    world = World()
    del world.ids["a"]
    assert not world.watch.topics_exist([A0, B0])
    world.now_s += AGAIN_S
    with pytest.raises(InputError, match="the topic 'a' no longer exists"):
        world.watch.topics_exist([A0, B0])


def test_a_topic_with_another_id_was_recreated() -> None:
    world = World()
    world.ids["b"] = "id-new"
    with pytest.raises(InputError, match="the topic 'b' was deleted and recreated since the job"):
        world.watch.topics_exist([A0, B0])


def test_without_topic_ids_names_are_compared() -> None:
    world = World()
    world.ids["b"] = ""
    assert world.watch.topics_exist([B0, PartitionSplit("a", 0, "", 0, 0)])


@pytest.mark.parametrize(
    ("next", "words"),
    [
        (39, r"a\[0\] has .* 40 up to 90: the records from 39 on were deleted"),
        (91, "the topic was truncated, or"),
    ],
)
def test_the_error_for_an_offset_out_of_range_has_the_available_range(next: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        raise World().watch.out_of_range(A0, next)


def test_a_recreated_topic_explains_an_offset_out_of_range() -> None:
    world = World()
    world.ids["a"] = "id-new"
    with pytest.raises(InputError, match="recreated"):
        raise world.watch.out_of_range(A0, 10)
