"""Materialized views of jobs that do not run: from a checkpoint directory, or from a savepoint."""

from __future__ import annotations

from rheos.connectors.urls import absolute
from rheos.core.checkpoint.savepoint import MANIFEST, read_savepoint
from rheos.core.errors import TransportError
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.ports import Store
from rheos.core.redaction import redacted
from rheos.ops.control.job_list import stored_job
from rheos.runtimes.host.stores import folder_exists, open_store
from rheos.runtimes.views.reader import ViewReader


def stored_views(wanted: str) -> ViewReader | None:
    """Return the reader of the views that `wanted` names: JOB@DIRECTORY, with a checkpoint directory,
    or the folder of a savepoint. Return None if it names neither.

    Raises:
        CheckpointError: The savepoint or the log is damaged, or of a later version.
        TransportError: The directory cannot be read.
    """
    folder = absolute(wanted)
    if folder_exists(folder):
        store = open_store(folder, make=False)
        if _is_savepoint(store, wanted):
            entry = read_savepoint(store, wanted).entry
            return ViewReader(store, lambda: [entry])
    for at, letter in enumerate(wanted):
        directory = wanted[at + 1 :]
        if letter == "@" and at and directory and folder_exists(absolute(directory)):
            return views_in(wanted[:at], absolute(directory))
    return None


def views_in(job: str | JobId, directory: str) -> ViewReader:
    """Return the reader of a job's views, from its checkpoint directory. Raise the same errors as
    `stored_job`."""
    store, _, _ = stored_job(job, directory)
    return ViewReader(store, lambda: [kept.entry for kept in stored_job(job, directory)[2].completed])


def _is_savepoint(store: Store, wanted: str) -> bool:
    try:
        store.get(MANIFEST)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise TransportError(f"{redacted(wanted)!r} could not be read: {error}") from error
    return True
