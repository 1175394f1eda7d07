"""Savepoints: a job's whole state in one self-contained folder, which never expires.

    <savepoint>/savepoint.json                                 the manifest, written last
    <savepoint>/state/<operator>/<subtask>-<state>-<n>.arrow   the state, as FULL parts

A savepoint is taken with a checkpoint, at the same barrier. Its manifest is written only once that
checkpoint is in the log and all sinks have committed it (CP13). So the output up to a savepoint is
published, and a job that starts from it need not commit anything. A folder without a manifest is not a
savepoint.
"""

from __future__ import annotations

import zlib

import msgspec

from rheos.core.checkpoint.log_entries import CheckpointCompleted, Origin
from rheos.core.checkpoint.names import handle_problem, safe_name
from rheos.core.errors import CheckpointError
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.core.protocol.ports import Store
from rheos.core.protocol.sealed_files import SealedFileKind
from rheos.core.protocol.snapshots import StateHandle

MANIFEST = "savepoint.json"
STATE = "state"

FORMAT = 1


def part_path(operator: OperatorId, subtask: int, state: str, name: str) -> str:
    """Return the path of a piece of a part (`0.arrow`, `1.arrow`, ...) in the savepoint's folder."""
    return f"{STATE}/{safe_name(operator)}/{subtask}-{safe_name(state)}-{safe_name(name)}"


class Savepoint(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest's content."""

    id: str
    """Unique id, even among copies of one job."""
    job: JobId
    name: str
    """Name of the job."""
    version: str
    """Version of the Rheos that wrote it."""
    taken_ms: int
    """Wall-clock time, ms since the epoch."""
    entry: CheckpointCompleted
    """Checkpoint with which it was taken. The handles refer to files below the savepoint's folder, and
    there are no committables."""


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """The state that an attempt starts from: a checkpoint of the job itself, or a savepoint."""

    entry: CheckpointCompleted
    origin: Origin | None = None
    """Savepoint whose folder contains the paths; None: the job's own checkpoint directory."""


_body_decoder: msgspec.json.Decoder[Savepoint] = msgspec.json.Decoder(Savepoint)


def default_directory(job: JobId) -> str:
    """Return the default folder of savepoints: in the checkpoint directory, outside of retention."""
    return f"{safe_name(job)}/savepoints"


def folder_name(job: JobId, number: int, unique: str) -> str:
    """Return the name of a savepoint's folder in the directory that the request specifies."""
    return f"{safe_name(job)}-{number}-{unique}"


def encode_manifest(savepoint: Savepoint) -> bytes:
    return _sealed(savepoint.id).seal(msgspec.json.encode(savepoint), FORMAT)


def write_savepoint(store: Store, savepoint: Savepoint) -> None:
    """Write the manifest, which makes the savepoint exist. The root of `store` is its folder.

    Raise CheckpointError if that fails, or another savepoint is already there.
    """
    data = encode_manifest(savepoint)
    try:
        if store.put_if_absent(MANIFEST, data):
            return
    except OSError as error:
        raise CheckpointError(f"the savepoint's manifest could not be written: {error}") from error
    raise CheckpointError(
        "the savepoint's manifest could not be written: the folder already holds another savepoint",
        hint="savepoints are never overwritten; choose another directory",
    )


def read_savepoint(store: Store, directory: str) -> Savepoint:
    """Return the savepoint whose folder is the root of `store`; `directory` is its name for the user.

    Raise CheckpointError if it is missing, damaged or of a later version.
    """
    try:
        data = store.get(MANIFEST)
    except FileNotFoundError as error:
        raise _missing(store, directory) from error
    except OSError as error:
        raise CheckpointError(f"the savepoint {directory!r} could not be read: {error}") from error
    return _decode(data, directory)


def _missing(store: Store, directory: str) -> CheckpointError:
    try:
        begun = bool(store.list(STATE))
    except OSError:
        begun = False
    if begun:
        return CheckpointError(
            f"the savepoint {directory!r} is incomplete: it has state, but no {MANIFEST}",
            hint="it was never completed: start from another savepoint",
        )
    return CheckpointError(
        f"there is no savepoint in {directory!r}: a savepoint's folder holds a {MANIFEST}",
        hint="pass the savepoint's own folder, not its parent",
    )


def _sealed(directory: str) -> SealedFileKind:
    return SealedFileKind(
        what=f"the savepoint {directory!r}",
        key="body",
        newest=FORMAT,
        if_damaged=f"restore its {MANIFEST} from a copy, or start from another savepoint",
        if_later="start from it with the version of rheos that took it, or a later one",
    )


def _decode(data: bytes, directory: str) -> Savepoint:
    """Decode a manifest. Its handles must only name files of its own folder (CP32)."""
    sealed = _sealed(directory)
    _, body = sealed.open(data)
    savepoint = sealed.decoded(body, _body_decoder)
    for handle in savepoint.entry.handles:
        if (wrong := handle_problem(handle, savepoint.entry.parallelism, STATE)) is not None:
            raise sealed.damaged(wrong)
    return savepoint


def verify_savepoint(store: Store, savepoint: Savepoint, directory: str) -> None:
    """Read every file of the savepoint. Raise CheckpointError with the missing or damaged files."""
    wrong = []
    for handle in savepoint.entry.handles:
        problem = _problem(store, handle)
        if problem:
            wrong.append(f"{handle.path or handle.state}: {problem}")
    if wrong:
        files = len(savepoint.entry.handles)
        raise CheckpointError(
            f"the savepoint {directory!r} is incomplete: {len(wrong)} of {files} parts of its state "
            "cannot be read",
            hint="restore the files from a copy, or start from another savepoint",
            detail="\n".join(wrong[:20]),
        )


def _problem(store: Store, handle: StateHandle) -> str | None:
    try:
        data = store.get(handle.path) if handle.path else handle.inline
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"unreadable: {error}"
    if len(data) != handle.size_bytes:
        return f"{len(data)} bytes, but {handle.size_bytes} were written"
    return None if zlib.crc32(data) == handle.checksum else "damaged: its checksum does not match"


def discard_savepoint(store: Store) -> None:
    """Delete a savepoint's files, also unfinished ones; the manifest goes first. Raise OSError."""
    store.delete(MANIFEST)
    for path in [*store.list(STATE), *store.unfinished(STATE)]:
        store.delete(path)
