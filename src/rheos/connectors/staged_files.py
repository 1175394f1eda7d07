"""Files of rows that a sink keeps next to the job's checkpoints until their commit has succeeded.

A file is an Arrow stream. Its description, which the checkpoint holds, has a checksum for each block,
so a reader decodes only what was written.

```python
import tempfile

import pyarrow as pa

from rheos.connectors.files.folder import SinkFolder

with tempfile.TemporaryDirectory() as folder:
    writer = StagedFileWriter(SinkFolder(folder))
    writer.write("1/a-0.arrow", pa.record_batch({"n": [1, 2]}))
    file = writer.finish()
    assert [batch.num_rows for batch in read_staged(SinkFolder(folder), file)] == [2]
```
"""

from __future__ import annotations

import contextlib
import posixpath
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from rheos.connectors.files.checksummed_files import CheckedFile, ChecksummingFile
from rheos.connectors.files.folder import SinkFolder
from rheos.core.errors import CheckpointError
from rheos.core.protocol.elements import Batch

# --- errors -----------------------------------------------------------------------------------------


def staging_error(where: str, error: OSError, operator: str) -> CheckpointError:
    """Return the error of a writer that cannot stage. `where` names what it stages, and the folder."""
    return CheckpointError(
        f"{where}: {error}",
        operator=operator,
        hint="check that the disk of the checkpoint directory is not full, and that the job's "
        "user may write there",
    )


# --- limit of what a writer stages
# ----------------------------------------------------------------------


class StagingRoom:
    """Decides whether a writer may stage more. One thread stages, another commits."""

    def __init__(self, ahead_bytes: int) -> None:
        """Create a limit. `ahead_bytes` is how much a writer may stage beyond a commit that has not
        succeeded, unless the commit itself is larger."""
        self._ahead_bytes = ahead_bytes
        self._lock = threading.Lock()
        # Attributes guarded by the lock:
        self._under_way_bytes: int | None = None
        """Bytes of the epochs of the commit that runs or is to be retried; None without one."""
        self._taken = 0
        """Newest checkpoint for which a commit was begun."""
        self._taken_bytes = 0
        """Size of all epochs up to that checkpoint."""

    def has_room(self, staged_bytes: int) -> bool:
        """Return whether the writer may stage more now. `staged_bytes` is the size of everything that
        it has staged since it was opened."""
        with self._lock:
            if self._under_way_bytes is None:
                # The barrier that starts the next commit may follow the waiting rows: accept them.
                return True
            ahead_bytes = staged_bytes - self._taken_bytes
            return ahead_bytes <= max(self._ahead_bytes, self._under_way_bytes)

    def begin(self, sizes: Mapping[int, int]) -> None:
        """Record that a commit begins. `sizes` has the bytes of its epochs by checkpoint. A retry does
        not change the limit."""
        with self._lock:
            if self._under_way_bytes is None:
                self._under_way_bytes = self._take(sizes)

    def end(self, sizes: Mapping[int, int]) -> None:
        """Record that the commit has succeeded. A retry may have committed more epochs than the first
        try."""
        with self._lock:
            self._take(sizes)
            self._under_way_bytes = None

    def _take(self, sizes: Mapping[int, int]) -> int:
        """Count epochs as part of a commit. Returns the bytes of those that were not counted yet."""
        size_bytes = sum(size for checkpoint, size in sizes.items() if checkpoint > self._taken)
        self._taken_bytes += size_bytes
        self._taken = max(self._taken, *sizes) if sizes else self._taken
        return size_bytes


# --- the files ----------------------------------------------------------------------------------------


class StagedRowsFile(msgspec.Struct, frozen=True):
    """Description of a finished file."""

    path: str
    """Path relative to the staging folder."""
    rows: int
    size_bytes: int
    checksums: bytes
    """CRC-32 of each block, as `ChecksummingFile.checksums` returns them."""


class StagedFileWriter:
    """Writes files, one after another."""

    def __init__(self, folder: SinkFolder) -> None:
        self._folder = folder
        self._open: tuple[Any, ChecksummingFile, Any] | None = None
        """The open file, the layer that checksums its bytes, and the Arrow stream on top of it."""
        self._path = ""
        self._rows = 0

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def write(self, path: str, batch: Batch) -> None:
        """Append a batch to the open file. The first batch of a file creates it at `path`.

        Raises OSError if the folder cannot be written.
        """
        if self._open is None:
            raw = self._folder.create(path)
            checked = ChecksummingFile(raw)
            self._open = raw, checked, pa.ipc.new_stream(pa.PythonFile(checked, "w"), batch.schema)
            self._path, self._rows = path, 0
        self._open[2].write_batch(batch)
        self._rows += batch.num_rows

    def finish(self) -> StagedRowsFile:
        """Make the open file durable. Raises OSError."""
        assert self._open is not None, "a file is written before it is finished"
        raw, checked, stream = self._open
        stream.close()
        raw.close()
        self._folder.sync(self._path)
        self._folder.sync(posixpath.dirname(self._path))
        self._open = None
        return StagedRowsFile(self._path, self._rows, checked.size_bytes, checked.checksums())

    def abandon(self) -> None:
        """Remove the open file, if there is one."""
        if self._open is not None:
            with contextlib.suppress(OSError):  # The disk may be full; the file is removed in any case.
                self._open[0].close()
            self._open = None
            self._folder.remove(self._path)


def read_staged(folder: SinkFolder, file: StagedRowsFile) -> Iterator[Batch]:
    """Yield the batches of a file. Each block is checked before it is decoded.

    Raises FileNotFoundError if the file is missing, and OSError or pyarrow.ArrowInvalid if it is not
    what was written.
    """
    found = 0
    raw = folder.system.open(folder.path(file.path), "rb")
    with CheckedFile(raw, file.size_bytes, file.checksums) as checked:
        for batch in pa.ipc.open_stream(pa.PythonFile(checked, "r")):
            found += batch.num_rows
            yield batch
    if found != file.rows:
        raise OSError(f"it has {found} rows, but {file.rows} were written")


def clear_attempts(folder: SinkFolder, before: int, keep: Collection[str]) -> None:
    """Remove the files `<attempt>/<name>` of attempts before `before`, except those of `keep`."""
    for attempt in folder.names(""):
        if not attempt.isdigit() or int(attempt) >= before:
            continue
        for name in folder.names(attempt):
            path = posixpath.join(attempt, name)
            if path not in keep:
                folder.remove(path)
        folder.remove_if_empty(attempt)
