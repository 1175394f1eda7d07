"""Catalogs: where the current version of each table is recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rheos.connectors.iceberg.library import library
from rheos.connectors.iceberg.rest_catalog import rest_catalog
from rheos.connectors.table_log.epoch_append import UncertainAppendError
from rheos.connectors.urls import absolute
from rheos.core.connectors.datasets import Dataset
from rheos.core.errors import ConfigurationError, ProgramError, UnavailableError
from rheos.core.redaction import RedactedRepr, redacted

_NESTED = ("ssl", "auth")
"""Properties that are mappings: certificates, and ways to authenticate."""
_TYPES = {
    "http": "rest",
    "https": "rest",
    "thrift": "hive",
    "sqlite": "sql",
    "postgresql": "sql",
}
"""Types of catalogs by the schemes of their URIs."""
_HDFS_FILES = "rheos.connectors.iceberg.hdfs_file_io.HdfsFileIO"
"""Class by which the library reads and writes metadata on HDFS. Its own class needs `libhdfs`."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Variables with the address of an S3 server, the first that is set counts. Workers use them, but the
library does not."""


@dataclass(frozen=True)
class IcebergCatalog(RedactedRepr):
    """A catalog that `pyiceberg` can load."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties, which may contain passwords. Those in a mapping have its name and a dot before their
    own: `ssl.cabundle`."""

    @property
    def key(self) -> tuple[str, ...]:
        """Return a value that equal catalogs share."""
        return (self.name, *(f"{name}={value}" for name, value in sorted(self.properties.items())))

    def dataset(self, table: str) -> Dataset:
        """Return the name of a table for catalogs of lineage."""
        uri = redacted(str(self.properties.get("uri", f"iceberg://{self.name}")))
        return Dataset(uri.replace("://***@", "://"), table)

    def load(self) -> Any:
        """Return the library's catalog: a new one for each use, because it belongs to a thread.

        Raises:
            ConfigurationError: the type of the catalog is not known.
        """
        config = library("utils.config")
        configured = config.Config().get_catalog_config(self.name) or {}
        properties = _of_environment() | config.merge_config(configured, _nested(self.properties))
        library("io").SCHEMA_TO_FILE_IO["hdfs"] = [_HDFS_FILES]
        if "py-catalog-impl" not in properties and self._type(properties) == "rest":
            return rest_catalog(self.name, properties)
        return library("catalog").load_catalog(self.name, **properties)

    def _type(self, properties: Mapping[str, Any]) -> str:
        """Return the type of the catalog. The library would find it by the scheme of the URI, too, but
        its error shows the URI."""
        if named := properties.get("type"):
            return str(named).lower()
        scheme = str(properties.get("uri", "")).partition(":")[0].partition("+")[0]
        if scheme in _TYPES:
            return _TYPES[scheme]
        raise ConfigurationError(
            f"the catalog {self.name!r} has no type",
            hint='add "type": "rest", "sql", "glue" or "hive"; or describe a catalog of this name in '
            ".pyiceberg.yaml",
        )


def catalog_of(catalog: str | Mapping[str, str]) -> IcebergCatalog:
    """Return the catalog that a user describes. Raises ProgramError if it is not a description."""
    if isinstance(catalog, str) and catalog.strip():
        return IcebergCatalog(catalog)
    if isinstance(catalog, Mapping) and catalog:
        properties = _flat(catalog)
        if "warehouse" in properties and properties.get("type") != "rest":
            properties["warehouse"] = absolute(properties["warehouse"])
        return IcebergCatalog(properties.pop("name", "default"), properties)
    raise ProgramError(
        "catalog= is neither the name of a catalog nor a mapping of its properties",
        hint='write catalog={"type": "sql", "uri": "sqlite:///catalog.db", "warehouse": "lake"}, or '
        "the name of a catalog in .pyiceberg.yaml",
    )


def _of_environment() -> dict[str, Any]:
    """Return the properties that environment variables of other libraries determine."""
    endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS)), None)
    return {} if endpoint is None else {"s3.endpoint": endpoint}


def _flat(properties: Mapping[Any, Any], prefix: str = "") -> dict[str, str]:
    """Return properties without mappings in them."""
    flat: dict[str, str] = {}
    for name, value in properties.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = str(value)
    return flat


def _nested(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return properties as the library reads them.

    >>> _nested({"uri": "https://h", "s3.region": "eu", "ssl.cabundle": "ca.pem", "auth.type": "noop"})
    {'uri': 'https://h', 's3.region': 'eu', 'ssl': {'cabundle': 'ca.pem'}, 'auth': {'type': 'noop'}}
    """
    nested: dict[str, Any] = {}
    for name, value in properties.items():
        *within, last = name.split(".") if name.partition(".")[0] in _NESTED else [name]
        at = nested
        for each in within:
            at = at.setdefault(each, {})
        at[last] = value
    return nested


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
