"""A materialized view as one checkpoint stores it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.errors import ConfigurationError
from rheos.core.graph.nullable_names import absence_name, value_name
from rheos.core.known_names import names_hint
from rheos.core.operators.joins.table_side import any_value
from rheos.core.operators.view import ROWS, ViewColumn, current_rows, feature_terms, view_columns
from rheos.core.protocol.feature_terms import FeatureTerms
from rheos.core.state.key_groups import key_groups
from rheos.runtimes.views.stored_table import StoredTable


@dataclass(frozen=True)
class StoredView(StoredTable):
    """A view in one checkpoint."""

    columns: tuple[ViewColumn, ...]

    state = ROWS

    @property
    def name(self) -> str:
        return self.entry.operators[self.operator]

    @property
    def what(self) -> str:
        return f"the view {self.name!r}"

    @property
    def types(self) -> Mapping[str, str]:
        return {column.name: column.type for column in self.columns}

    @property
    def key(self) -> list[str]:
        return [column.name for column in self.columns if column.of_key]

    @property
    def terms(self) -> FeatureTerms | None:
        return feature_terms(self.entry.states[self.operator][ROWS])

    def rows(self, parts: Sequence[pa.Table]) -> pa.Table:
        return current_rows(parts, self.names)

    def group_of(self, key: Mapping[str, pa.Scalar]) -> int:
        columns = {}
        for name, value in key.items():
            there = value.is_valid
            columns[name] = value
            columns[absence_name(name)] = pa.scalar(not there)
            columns[value_name(name)] = value if there else any_value(value.type)
        stored = [field.name for field in self.entry.states[self.operator][ROWS].key]
        if any(not columns[name].is_valid for name in stored):
            return 0  # The column cannot be null, so no row has this key.
        arrays = [pa.array([columns[name].as_py()], columns[name].type) for name in stored]
        batch = pa.RecordBatch.from_arrays(arrays, names=stored)
        return int(key_groups(batch, stored, self.entry.max_parallelism)[0])


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
