"""Catalogs: where the current version of each table is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rheos.connectors.iceberg.library import library
from rheos.connectors.table_log.epoch_append import UncertainAppendError
from rheos.connectors.urls import absolute
from rheos.core.errors import ProgramError, UnavailableError
from rheos.core.redaction import RedactedRepr


@dataclass(frozen=True)
class IcebergCatalog(RedactedRepr):
    """A catalog that `pyiceberg` can load."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties, which may contain passwords."""

    @property
    def key(self) -> tuple[str, ...]:
        """Return a value that equal catalogs share."""
        return (self.name, *(f"{name}={value}" for name, value in sorted(self.properties.items())))

    def load(self) -> Any:
        """Return the library's catalog: a new one for each use, because it belongs to a thread."""
        return library("catalog").load_catalog(self.name, **self.properties)


def catalog_of(catalog: str | Mapping[str, str]) -> IcebergCatalog:
    """Return the catalog that a user describes. Raises ProgramError if it is not a description."""
    if isinstance(catalog, str) and catalog.strip():
        return IcebergCatalog(catalog)
    if isinstance(catalog, Mapping) and catalog:
        properties = {str(name): str(value) for name, value in catalog.items()}
        if "warehouse" in properties and properties.get("type") != "rest":
            properties["warehouse"] = absolute(properties["warehouse"])
        return IcebergCatalog(properties.pop("name", "default"), properties)
    raise ProgramError(
        "catalog= is neither the name of a catalog nor a mapping of its properties",
        hint='write catalog={"type": "sql", "uri": "sqlite:///catalog.db", "warehouse": "lake"}, or '
        "the name of a catalog in .pyiceberg.yaml",
    )


class OneAttemptCatalog:
    """Catalog that commits once.

    The library retries after a conflict, without looking at the sink's number (IC3), and deletes the
    files of a snapshot that it believes not to exist. It does so only after its own error for
    conflicts. So this catalog raises another one.
    """

    def __init__(self, catalog: Any, *, replaces: bool = False) -> None:
        """Create it, without a request.

        Args:
            catalog: the library's catalog.
            replaces: whether new snapshots have the same rows as the one before. The library writes
                such snapshots as overwrites, whose changed files readers would read as changed rows.
        """
        self._catalog = catalog
        self._replaces = replaces

    def commit_table(self, table: Any, requirements: tuple[Any, ...], updates: tuple[Any, ...]) -> Any:
        """Commit once.

        Raises:
            UncertainAppendError: another writer was first.
        """
        if self._replaces:
            updates = tuple(map(_as_replacement, updates))
        try:
            return self._catalog.commit_table(table, requirements, updates)
        except library("exceptions").CommitFailedException as error:
            raise UncertainAppendError(
                UnavailableError(
                    f"another writer of the table was first: {error}",
                    hint="the sink's rows are not lost: they are published as soon as it succeeds",
                )
            ) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


def _as_replacement(update: Any) -> Any:
    """Return an update of a table, in which a new snapshot has the operation `replace`."""
    if not isinstance(update, library("table.update").AddSnapshotUpdate):
        return update
    snapshots, snapshot = library("table.snapshots"), update.snapshot
    summary = snapshots.Summary(snapshots.Operation.REPLACE, **snapshot.summary.additional_properties)
    return update.model_copy(update={"snapshot": snapshot.model_copy(update={"summary": summary})})
