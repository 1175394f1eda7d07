"""Data files of one version of a Delta table, as an upsert reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rheos.connectors.delta.delta_table import DeltaTarget
from rheos.connectors.delta.writer import DeltaDataFiles
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.partitions import FileContext
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.connectors.table_log.table_files import LiveFile, TableFiles


class DeltaTableFiles(TableFiles):
    """Data files, whose columns have the names of the table's columns."""

    def __init__(self, target: DeltaTarget, columns: pa.Schema) -> None:
        super().__init__(target, columns, target.key)
        self._delta = target
        self.empty_is_null = frozenset(target.partition_by)

    def url(self, file: LiveFile) -> str:
        return f"{self.target.folder}/{file.path}"

    def logged_path(self, file: StagedDataFile) -> str:
        return file.path

    def names_in(self, path: str, schema: pa.Schema) -> Mapping[str, str]:
        return {name: name for name in schema.names}

    def identity_of(self, field: pa.Field) -> object:
        return field.name

    def new_files(self, ctx: FileContext) -> DeltaDataFiles:
        sort_by = [name for name in self._delta.sort_by if name in self.columns.names]
        return DeltaDataFiles(self._delta, self.columns, self._delta.partition_by, ctx, sort_by)

    def drop(self, file: StagedDataFile) -> None:
        SinkFolder(self.target.folder).remove(file.path)
