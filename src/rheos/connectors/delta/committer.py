"""Committer of a Delta table: the driver appends the files of a checkpoint in one transaction."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, assert_never

import msgspec

from rheos.connectors.delta.delta_log import DeltaLog, DeltaTarget, lone_call
from rheos.connectors.delta.epoch_append import (
    Append,
    Look,
    PauseBeforeLook,
    StagedDataFile,
    Steps,
    TableVersion,
    UncertainAppendError,
    append_steps,
)
from rheos.connectors.files.publication.contract import damaged
from rheos.core.connectors.contract import Committer
from rheos.core.errors import UnrestorableError
from rheos.core.protocol.ids import Attempt, JobId

_decoder = msgspec.msgpack.Decoder(StagedDataFile)


@dataclass(frozen=True)
class DeltaTableCommitter(Committer):
    target: DeltaTarget
    log: str = ""

    on_driver = True

    def of_log(self, log: str) -> DeltaTableCommitter:
        return replace(self, log=log)

    def commit(self, committables: Sequence[bytes]) -> None:
        files = [self._decoded(committable) for committable in committables]
        if files:
            steps = append_steps(files)
            log = DeltaLog(self.target, self._sink(files[0]))
            location = self.target.location
            lone_call(location, f"append to the Delta table {location}", lambda: take(steps, log))

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        """DL7: files that no version contains are left for the table's own VACUUM."""

    def _sink(self, file: StagedDataFile) -> str:
        """Return the sink's id in the table (DL5)."""
        log = hashlib.sha256(self.log.encode()).hexdigest()[:12]
        return f"rheos/{file.job}/{file.operator}/{log}"

    def _decoded(self, committable: bytes) -> StagedDataFile:
        try:
            file = _decoder.decode(committable)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise damaged(str(error)) from error
        if "\0" in file.path or {"", ".", ".."} & set(file.path.split("/")):  # CP32
            raise damaged(f"the name of a data file is {file.path!r}")
        if len(file.partition) != len(self.target.partition_by):
            raise damaged(f"the file {file.path!r} has {len(file.partition)} partition values")
        if file.table != self.target.identity:
            raise UnrestorableError(
                f"{file.rows} rows are staged for another Delta table than {self.target.location}",
                hint="publish them with the unchanged job: start it once more, stop it with a "
                "savepoint, and start the changed program from there",
            )
        return file


class TableLog(Protocol):
    """Executor of the actions of `append_steps`."""

    def look(self) -> TableVersion: ...

    def append(self, action: Append) -> None: ...


def take(steps: Steps, log: TableLog) -> None:
    """Execute the steps. Raises the errors of `append_steps` and of the log."""
    answer: TableVersion | None = None
    failure: UncertainAppendError | None = None
    while True:
        try:
            action = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration:
            return
        answer, failure = None, None
        match action:
            case Look():
                answer = log.look()
            case Append():
                try:
                    log.append(action)
                except UncertainAppendError as error:
                    failure = error
            case PauseBeforeLook():
                time.sleep(action.ms / 1000)
            case _:
                assert_never(action)
