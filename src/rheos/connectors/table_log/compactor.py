"""Execution of a compaction: rows pass from small data files to new ones in batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import assert_never

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.files.partitions import FileContext
from rheos.connectors.table_log.compaction_policy import Compaction
from rheos.connectors.table_log.compaction_steps import (
    CompactionAnswer,
    CompactionOutcome,
    CompactionSteps,
    ListedVersion,
    ListNewest,
    MergedFiles,
    MergeFiles,
    ReplaceFiles,
    compaction_steps,
)
from rheos.connectors.table_log.epoch_append import StagedDataFile, UncertainAppendError
from rheos.connectors.table_log.maintenance_counts import (
    COMPACTED_BYTES,
    COMPACTED_FILES,
    COMPACTIONS_GIVEN_UP,
)
from rheos.connectors.table_log.table_files import LiveFile
from rheos.connectors.table_log.upserts import UpsertableLog
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId

LOGGER = logging.getLogger("rheos")


def compact(
    log: UpsertableLog, table: str, policy: Compaction, last: StagedDataFile, progressed: Progressed
) -> None:
    """Merge small data files of the table, if there are enough. An error is logged and counted, because
    the checkpoint's own rows are in the table already.

    Args:
        log: the log of the table.
        table: name of the table in metrics and messages.
        policy: the policy.
        last: a file of the checkpoint that was committed, whose job writes the new files.
        progressed: called after each step of bounded size.
    """
    steps = compaction_steps(policy, time.time_ns() // 1_000_000)
    try:
        outcome, files = _result(steps, _Compactor(log, last, progressed))
    except (RheosError, OSError, pa.ArrowException) as error:
        COMPACTIONS_GIVEN_UP.add((table,))
        LOGGER.warning("small files of the table %s were not compacted: %s", table, error)
        return
    match outcome:
        case CompactionOutcome.NOTHING:
            pass
        case CompactionOutcome.COMPACTED:
            COMPACTED_FILES.add((table,), len(files))
            COMPACTED_BYTES.add((table,), sum(file.size_bytes for file in files))
        case CompactionOutcome.CONFLICT:
            COMPACTIONS_GIVEN_UP.add((table,))
        case _:
            assert_never(outcome)


def _result(
    steps: CompactionSteps, compactor: _Compactor
) -> tuple[CompactionOutcome, Sequence[LiveFile]]:
    """Execute the steps. Raises the errors of the log, of the store, and of Arrow."""
    answer: CompactionAnswer = None
    failure: UncertainAppendError | None = None
    while True:
        try:
            action = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration as end:
            result: tuple[CompactionOutcome, Sequence[LiveFile]] = end.value
            return result
        answer, failure = None, None
        match action:
            case ListNewest():
                answer = compactor.listed()
            case MergeFiles():
                answer = compactor.merged(action)
            case ReplaceFiles():
                try:
                    compactor.replace(action)
                except UncertainAppendError as error:
                    failure = error
            case _:
                assert_never(action)


class _Compactor:
    """Executor of the actions of `compaction_steps`."""

    def __init__(self, log: UpsertableLog, last: StagedDataFile, progressed: Progressed) -> None:
        self._log = log
        self._last = last
        self._progressed = progressed
        self._columns: pa.Schema | None = None
        """Columns of the new files."""

    def listed(self) -> ListedVersion:
        version = self._log.look().version
        columns = self._log.files(version).columns
        if self._columns is not None and not columns.equals(self._columns, check_metadata=True):
            raise ConfigurationError(
                "the table's columns have changed meanwhile", hint="the next compaction has them"
            )
        self._progressed()
        return ListedVersion(version, self._log.live_files(version))

    def merged(self, action: MergeFiles) -> MergedFiles:
        files = self._log.files(action.version)
        self._columns = files.columns
        ctx = FileContext(JobId(self._last.job), Attempt(0), self._last.operator, 0, files.columns)
        out = files.new_files(ctx)
        try:
            for file in action.files:
                for rows in files.read(files.url(file), file.constants):
                    out.write(rows)
                    self._progressed()
            written = out.finish(CheckpointId(self._last.checkpoint))
        finally:
            out.close()
        return MergedFiles(tuple(written), frozenset(map(files.logged_path, written)))

    def replace(self, action: ReplaceFiles) -> None:
        self._log.write(action.version, None, action.added.files, action.removed)
