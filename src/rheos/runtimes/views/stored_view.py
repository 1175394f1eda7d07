"""A materialized view as one checkpoint stores it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.errors import ConfigurationError
from rheos.core.known_names import names_hint
from rheos.core.operators.view import ROWS, ViewColumn, feature_terms, view_columns
from rheos.core.protocol.feature_terms import FeatureTerms
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.snapshots import StateHandle
from rheos.runtimes.views.answers import ViewInfo


@dataclass(frozen=True)
class StoredView:
    """A view in one checkpoint."""

    entry: CheckpointCompleted
    operator: OperatorId
    columns: tuple[ViewColumn, ...]

    @property
    def name(self) -> str:
        return self.entry.operators[self.operator]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def key(self) -> list[str]:
        return [column.name for column in self.columns if column.of_key]

    @property
    def terms(self) -> FeatureTerms | None:
        return feature_terms(self.entry.states[self.operator][ROWS])

    @property
    def width(self) -> int:
        """Return the number of subtasks that own its rows."""
        return self.entry.width(self.operator)

    @property
    def handles(self) -> list[StateHandle]:
        """Return the parts of the view, those of each subtask in the order in which they apply."""
        return [
            each for each in self.entry.handles if each.operator == self.operator and each.state == ROWS
        ]

    def info(self) -> ViewInfo:
        return ViewInfo(
            name=self.name,
            columns={column.name: column.type for column in self.columns},
            key=self.key,
            checkpoint=self.entry.checkpoint,
            completed_ms=self.entry.completed_ms,
        )


def views_of(entry: CheckpointCompleted) -> Iterator[StoredView]:
    """Yield the views of a checkpoint."""
    for operator, shapes in entry.states.items():
        if ROWS in shapes and (columns := view_columns(shapes[ROWS])):
            yield StoredView(entry, operator, columns)


def view_of(entry: CheckpointCompleted, name: str) -> StoredView:
    """Return a view by its name. Raise ConfigurationError if the checkpoint lacks it."""
    views = {view.name.casefold(): view for view in views_of(entry)}
    found = views.get(name.casefold())
    if found is None:
        names = [view.name for view in views.values()]
        raise ConfigurationError(
            f"the job has no view {name!r}",
            hint=names_hint(name, names, "the views are")
            if names
            else "the job has no views: create one by CREATE MATERIALIZED VIEW",
        )
    return found
