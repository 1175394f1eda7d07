"""Common parts of the committers of tables: which files they publish and remove.

`TransactionCommitter` is for formats with a log of their own (Delta Lake, Iceberg). An epoch, the files
staged for one checkpoint, is one append there. It is identified by the sink (job, operator, and log of
the job) and the checkpoint's number, which only rises within a log (CP4):

    appended, according to the table          skipped
    not appended, all staged files exist      appended
    not appended, and files are missing       skipped if a note records the append,
                                              otherwise lost: an error

The note is an empty file next to the staged ones, written after an append and before its files are
removed, because the table's own record is lost when its history is truncated.
"""

from __future__ import annotations

import hashlib
import posixpath
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from rheos.connectors.calls.bounded_calls import LoneCalls
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.files.committer import FileCommitter
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.files.publication.rename_publication import STAGING
from rheos.connectors.spark.spark_table import SparkTable
from rheos.connectors.spark.spark_types import spark_schema
from rheos.connectors.spark.table_session import active_session
from rheos.connectors.spark.table_writer import StagedPart, decode_part
from rheos.core.connectors.contract import Committer
from rheos.core.connectors.outages import is_outage
from rheos.core.errors import CheckpointError, UnavailableError, UnrestorableError
from rheos.core.protocol.ids import Attempt, JobId

PUBLICATION = OutsideCall(
    server="Spark",
    call="table sink: the driver publishes the rows that a checkpoint has staged",
    limit_s=600.0,
    limit="10 min for the whole publication",
    then="the sink waits and reports it; other sinks continue. The sink makes no other call until "
    "this one returns, so it cannot append rows twice. It then asks the table which rows it "
    "has, and publishes the rest",
)
_USUAL_S = 60.0
"""Seconds that a publication may take before it counts as waiting."""
_CALLS = LoneCalls()

NOTES = posixpath.join(STAGING, ".published")

Self = TypeVar("Self", bound="TableCommitter")


@dataclass(frozen=True)
class TableCommitter(Committer):
    table: SparkTable
    log: str = ""

    on_driver = True

    def of_log(self: Self, log: str) -> Self:
        return replace(self, log=log)

    def commit(self, committables: Sequence[bytes]) -> None:
        parts = list(map(decode_part, committables))
        for part in parts:
            if part.table != self.table.label:
                raise UnrestorableError(
                    f"{part.rows} rows are staged for the table {part.table}, but the sink now "
                    f"writes to {self.table.label}",
                    hint="publish them with the unchanged job: start it once more, stop it with a "
                    "savepoint, and start the changed program from there",
                )
        if parts:
            session = active_session(self.table.title)
            context = session.sparkContext
            description = context.getLocalProperty("spark.job.description")

            def publish(progressed: object) -> None:
                context.setLocalProperty("spark.job.description", description)
                self._publish_all(session, parts)

            _CALLS.run(
                (self.table.location, parts[0].operator),
                f"Spark publishing to the table {self.table.label}",
                PUBLICATION.limit_s,
                publish,
                quiet_s=_USUAL_S,
            )

    def _publish_all(self, session: SparkSession, parts: list[StagedPart]) -> None:
        try:
            self.table.check_unchanged(session)
            self._publish(session, sorted(parts, key=lambda part: part.checkpoint))
        except OSError as error:
            kind = UnavailableError if is_outage(error) else CheckpointError
            raise kind(
                f"rows staged for the table {self.table.label} could not be published: {error}",
                hint="the table's folder must stay writable while the job runs",
            ) from error

    @abstractmethod
    def _publish(self, session: SparkSession, parts: list[StagedPart]) -> None:
        """Publish the parts, which are in the order of their checkpoints."""

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        kept = [msgspec.msgpack.encode(decode_part(payload).file) for payload in keep]
        FileCommitter(self.table.staging.folder, by_rename=True).abort_stale(job, before, kept)


class TransactionCommitter(TableCommitter):
    def _publish(self, session: SparkSession, parts: list[StagedPart]) -> None:
        folder = SinkFolder(self.table.staging.folder)
        sink = self._sink(parts[0])
        noted = _noted(folder, sink)
        appended = max(noted, self._appended(session, sink))
        for checkpoint, epoch in groupby(parts, key=lambda part: part.checkpoint):
            files = list(epoch)
            if checkpoint > appended:
                self._check_files_exist(folder, files)
                self._append(session, self._rows(session, files), sink, checkpoint)
            if checkpoint > noted:
                _note(folder, sink, checkpoint)
            for file in files:
                folder.remove(file.staged)
        for staged in sorted({posixpath.dirname(part.staged) for part in parts}):
            folder.remove_if_empty(staged)

    @abstractmethod
    def _appended(self, session: SparkSession, sink: str) -> int:
        """Return the highest checkpoint of the sink according to the table; 0 if the table has no
        record."""

    @abstractmethod
    def _append(self, session: SparkSession, rows: DataFrame, sink: str, checkpoint: int) -> None:
        """Append rows in one transaction, which also records the sink and the checkpoint."""

    def _sink(self, part: StagedPart) -> str:
        """Return the sink's identity in the table. A job that begins another log counts from one again,
        so it needs another identity. Otherwise its new epochs could be taken for published ones."""
        log = hashlib.sha256(self.log.encode()).hexdigest()[:12]
        return f"rheos/{part.job}/{part.operator}/{log}"

    def _check_files_exist(self, folder: SinkFolder, files: list[StagedPart]) -> None:
        for file in files:
            if not folder.exists(file.staged):
                raise UnrestorableError(
                    f"{folder.path(file.staged)} ({file.rows} rows) is lost: neither staged nor in the "
                    f"table {self.table.label}",
                    hint="check whether the folder was cleaned while the job ran; restore the file, "
                    "or start the job from an earlier savepoint",
                )

    def _rows(self, session: SparkSession, files: list[StagedPart]) -> DataFrame:
        """Read the files, with columns in the table's order; columns that the stream lacks are null."""
        staged = self.table.staging.schema
        root = self.table.location.rstrip("/")
        read = session.read.schema(spark_schema(staged)).parquet(
            *[f"{root}/{file.staged}" for file in files]
        )
        given = set(staged.names)
        return read.select(
            [
                fn.col(_quoted(column.name))
                if column.name in given
                else fn.lit(None).cast(column.type).alias(column.name)
                for column in self.table.columns
            ]
        )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _note_prefix(sink: str) -> str:
    return hashlib.sha256(sink.encode()).hexdigest()[:24]


def _noted(folder: SinkFolder, sink: str) -> int:
    prefix = f"{_note_prefix(sink)}-"
    found = [name for name in folder.names(NOTES) if name.startswith(prefix)]
    return max((int(name.removeprefix(prefix)) for name in found), default=0)


def _note(folder: SinkFolder, sink: str, checkpoint: int) -> None:
    """Write the note of a checkpoint and remove older ones. A replaced committer may add an older note
    later, which has no effect."""
    prefix = f"{_note_prefix(sink)}-"
    older = [name for name in folder.names(NOTES) if name.startswith(prefix)]
    relative = posixpath.join(NOTES, f"{prefix}{checkpoint}")
    folder.create(relative).close()
    folder.sync(relative)
    for name in older:
        if int(name.removeprefix(prefix)) < checkpoint:
            folder.remove(posixpath.join(NOTES, name))
