"""The folder of a savepoint, opened by its path."""

from __future__ import annotations

from rheos.connectors.urls import absolute
from rheos.core.checkpoint.savepoint import Savepoint, read_savepoint
from rheos.core.errors import CheckpointError
from rheos.core.protocol.ports import Store
from rheos.runtimes.host.stores import folder_exists, open_store


def open_savepoint(path: str) -> tuple[str, Store, Savepoint]:
    """Return the folder as every worker knows it, its store and its manifest. Raise CheckpointError if
    there is no savepoint, ConfigurationError if there cannot be one."""
    directory = absolute(path)
    if not folder_exists(directory):
        raise CheckpointError(
            f"the savepoint {path!r} does not exist: there is no such folder",
            hint="pass the folder that was printed when the savepoint was taken",
        )
    store = open_store(directory, make=False)
    return directory, store, read_savepoint(store, path)
