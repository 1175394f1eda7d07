"""The contract of a table that is read from one checkpoint: a materialized view, or keyed state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.snapshots import StateHandle
from rheos.runtimes.views.answers import ViewInfo


@dataclass(frozen=True)
class StoredTable(ABC):
    """A table in one checkpoint. Its rows are stored by key group, in parts."""

    entry: CheckpointCompleted
    operator: OperatorId

    @property
    @abstractmethod
    def name(self) -> str:
        """Return its name, by which readers ask for it."""

    @property
    @abstractmethod
    def state(self) -> str:
        """Return the name of the operator's state that contains the rows."""

    @property
    @abstractmethod
    def what(self) -> str:
        """Return its kind and its name, for errors."""

    @property
    @abstractmethod
    def types(self) -> Mapping[str, str]:
        """Return the Arrow types of its columns, by their names."""

    @property
    @abstractmethod
    def key(self) -> Sequence[str]:
        """Return the columns of the key; none if the table can only be scanned."""

    @abstractmethod
    def rows(self, parts: Sequence[pa.Table]) -> pa.Table:
        """Return the current rows of some key groups, in the order of the groups.

        Args:
            parts: Parts of these groups, in the order in which they apply. Without parts there are no
                rows.

        Returns:
            The columns, and the column `parts.GROUP` after them. The order of the rows of a group is
            the same in each call.
        """

    @abstractmethod
    def group_of(self, key: Mapping[str, pa.Scalar]) -> int:
        """Return the key group of a key. Raise ConfigurationError if no row can have this key."""

    @property
    def names(self) -> list[str]:
        """Return the names of its columns."""
        return [*self.types]

    @property
    def width(self) -> int:
        """Return the number of subtasks that own its rows."""
        return self.entry.width(self.operator)

    @cached_property
    def handles(self) -> list[StateHandle]:
        """Its parts, those of each subtask in the order in which they apply."""
        return [
            each
            for each in self.entry.handles
            if each.operator == self.operator and each.state == self.state
        ]

    def info(self) -> ViewInfo:
        return ViewInfo(
            name=self.name,
            columns=dict(self.types),
            key=list(self.key),
            checkpoint=self.entry.checkpoint,
            completed_ms=self.entry.completed_ms,
        )
