"""Reads a checkpoint or savepoint of a job as a savepoint in memory, for other jobs and tools that
start from it. The job itself is not affected: this module only reads from stores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import CheckpointCompleted, JobFinished
from rheos.core.checkpoint.restored_state import read_part
from rheos.core.checkpoint.savepoint import (
    MANIFEST,
    Savepoint,
    encode_manifest,
    part_path,
    read_savepoint,
)
from rheos.core.errors import CheckpointError, ConfigurationError, UnrestorableError
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.core.protocol.ports import Store
from rheos.core.protocol.snapshots import StateHandle
from rheos.core.version import VERSION

_TRIES = 5


@dataclass(frozen=True)
class CopiedCheckpoint:
    """A checkpoint or savepoint, and the files of a savepoint with its state."""

    savepoint: Savepoint
    files: Mapping[str, bytes]
    """Contents of files by their paths below the savepoint's folder, including the manifest."""


def newest_checkpoint(store: Store, job: JobId) -> CopiedCheckpoint:
    """Read and check the newest checkpoint of a job. If the running job deletes it in the meantime,
    because a newer one is complete, read the newer one.

    Raise ConfigurationError if there is no checkpoint so far, or the job has finished. Raise
    CheckpointError if it cannot be read.
    """
    for tries_left in reversed(range(_TRIES)):
        view = JobLog(store, job).read()
        if isinstance(view.newest, JobFinished):
            raise ConfigurationError(
                f"the job {job!r} has finished: it has no checkpoint to continue from",
                hint="choose a job that runs, or one that was stopped or cancelled",
            )
        if not view.completed:
            raise ConfigurationError(
                f"the job {job!r} has no checkpoint yet",
                hint="wait for its first checkpoint, which `rheos checkpoints` shows",
            )
        entry = view.completed[-1].entry
        try:
            return _copied(store, job, entry)
        except UnrestorableError as error:
            dropped = isinstance(error.__cause__, FileNotFoundError)
            if not (dropped and tries_left):
                raise
    raise CheckpointError(f"every checkpoint of {job!r} was deleted before it could be read")


def kept_checkpoint(
    store: Store, job: JobId, number: int | None, operators: Collection[OperatorId]
) -> CopiedCheckpoint:
    """Return a retained checkpoint by its number, or the newest one, with the state of these operators
    only. Raise ConfigurationError if the job retains no such checkpoint, and CheckpointError if it
    cannot be read."""
    kept = [numbered.entry for numbered in JobLog(store, job).read().completed]
    found = [entry for entry in kept if number is None or entry.checkpoint == number]
    if not found:
        numbers = ", ".join(str(entry.checkpoint) for entry in kept)
        raise ConfigurationError(
            f"the job {job!r} has no checkpoint yet"
            if not kept
            else f"the job {job!r} has no checkpoint {number}",
            hint=f"it has {numbers}: `rheos checkpoints` lists them"
            if kept
            else "wait for its first checkpoint, which `rheos checkpoints` shows",
        )
    entry = found[-1]
    handles = [handle for handle in entry.handles if handle.operator in operators]
    return _copied(store, job, msgspec.structs.replace(entry, handles=handles))


def kept_checkpoints(store: Store, job: JobId) -> Iterator[CopiedCheckpoint]:
    """Yield the checkpoints that a job retains, newest first. Skip those that it drops in the meantime.

    Raise the same errors as `newest_checkpoint`.
    """
    newest = newest_checkpoint(store, job)
    yield newest
    for completed in reversed(JobLog(store, job).read().completed):
        if completed.entry.checkpoint < newest.savepoint.entry.checkpoint:
            try:
                older = _copied(store, job, completed.entry)
            except UnrestorableError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
            else:
                yield older


def copied_savepoint(store: Store, directory: str) -> CopiedCheckpoint:
    """Return the savepoint whose folder is the root of `store`; `directory` is its name for the user.
    Raise CheckpointError if there is no savepoint, or it cannot be read."""
    return _with_files(store, read_savepoint(store, directory))


def _copied(store: Store, job: JobId, entry: CheckpointCompleted) -> CopiedCheckpoint:
    return _with_files(
        store,
        Savepoint(
            id=f"{job}-checkpoint-{entry.checkpoint}",
            job=job,
            name=job,
            version=VERSION,
            taken_ms=entry.completed_ms,
            # Staged output and target columns belong to the job: nothing else commits or compares them.
            entry=msgspec.structs.replace(
                entry, committables=[], targets={}, origin=None, savepoint=""
            ),
        ),
    )


def _with_files(store: Store, taken: Savepoint) -> CopiedCheckpoint:
    files: dict[str, bytes] = {}
    handles: list[StateHandle] = []
    for number, handle in enumerate(taken.entry.handles):
        data = read_part(store, handle)
        if handle.path:
            path = part_path(handle.operator, handle.subtask, handle.state, f"{number}.arrow")
            files[path] = data
            handle = msgspec.structs.replace(handle, path=path)
        handles.append(handle)
    entry = msgspec.structs.replace(taken.entry, handles=handles, targets={})
    savepoint = msgspec.structs.replace(taken, entry=entry)
    files[MANIFEST] = encode_manifest(savepoint)
    return CopiedCheckpoint(savepoint, files)
