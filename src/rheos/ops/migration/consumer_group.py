"""A savepoint from the committed offsets of a Kafka consumer group."""

from __future__ import annotations

from dataclasses import dataclass

from rheos.connectors.kafka.bounds import Partition
from rheos.connectors.kafka.source import KafkaSource
from rheos.core.errors import ConfigurationError
from rheos.core.operators.source_split import SPLITS
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import OperatorId
from rheos.ops.migration.positions import KafkaOffsets, split_rows
from rheos.ops.savepoints.bootstrap import NewSavepoint


@dataclass(frozen=True)
class MovedSource:
    """A Kafka source that continues where a group has stopped."""

    operator: OperatorId
    name: str
    offsets: dict[Partition, int]
    """Offset of the next record, by partition."""
    from_first: list[str]
    """Splits without a committed offset. They begin with their first record."""


@dataclass(frozen=True)
class GroupImport:
    """The sources that continue a consumer group, and the savepoint with their positions."""

    group: str
    sources: list[MovedSource]
    savepoint: NewSavepoint

    def write(self, path: str) -> str:
        """Write the savepoint into an empty or new folder, and return its path."""
        return self.savepoint.write(path)


def import_group(plan: PhysicalPlan, group: str) -> GroupImport:
    """Return the savepoint from which a job continues a consumer group.

    Stop the consumers of the group first: what they commit later is not in the savepoint. Nothing of
    the group changes.

    Args:
        plan: The plan of the job. All its Kafka sources that have committed offsets start there.
        group: The name of the group.

    Returns:
        The sources with their offsets. `GroupImport.write` writes the savepoint.

    Raises:
        ConfigurationError: The job has no Kafka source, or the group has committed nothing there.
        InputError: The record at a committed offset is deleted.
        UnavailableError: No broker answers.
    """
    new = NewSavepoint(None, plan)
    moved = []
    topics = []
    for operator in plan.operators():
        source = operator.spec.reads_from
        if not isinstance(source, KafkaSource):
            continue
        topics.append(source.describe_topics())
        offsets = dict(source.committed_offsets(group))
        if not offsets:
            continue
        table = split_rows(source, KafkaOffsets(offsets), None)
        new = new.with_table(operator.id, SPLITS, table)
        named = {f"{topic}/{number}" for topic, number in offsets}
        first = [split for split in table.column("split").to_pylist() if split not in named]
        moved.append(MovedSource(operator.id, operator.name, offsets, first))
    if not topics:
        raise ConfigurationError(
            "the job has no Kafka source",
            hint="a consumer group has offsets of Kafka topics: read them with rh.kafka.source",
        )
    if not moved:
        raise ConfigurationError(
            f"the group {group!r} has committed no offset of {', '.join(topics)}",
            hint="check the name of the group with kafka-consumer-groups.sh --list, and the topics",
        )
    return GroupImport(group, moved, new)
