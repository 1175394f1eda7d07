"""One RocksDB database in a local folder: reads, scans, batches of writes, hard-linked checkpoints.

Changes are written to table files in another thread, while the database is read (`BegunCheckpoint`).

It has no write-ahead log: changes after the job's last checkpoint are replayed, not recovered. A
database belongs to one subtask and is deleted with it.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from rheos.core.errors import ConfigurationError, StateError
from rheos.core.protocol.state_config import MIB

if TYPE_CHECKING:
    from rocksdict import Options, WriteBatch

Batch: TypeAlias = "WriteBatch"

TABLE_FILE = ".sst"
_MANIFEST = "MANIFEST-"
_CURRENT = "CURRENT"

_TABLE_FILE_BYTES = 16 * MIB
"""Size in bytes of a full table file: the minimum that a checkpoint writes for a change to it."""
_BITS_PER_KEY = 10
_BLOCK_ROWS = 64
"""Number of values that are encoded before they are copied into a batch of writes."""
_BATCH_BYTES = MIB
"""Size in bytes from which a batch is written. So its memory is that of the one before, and in the
processor's cache."""
_RUNS_BEFORE_MERGE = 8
_MAX_MANIFEST_BYTES = MIB


class Database:
    """A database whose keys and values are bytes. A failure is a StateError that names the folder."""

    def __init__(self, folder: str, memory_bytes: int = 8 * MIB, *, read_only: bool = False) -> None:
        try:
            import rocksdict
        except ImportError as error:
            raise ConfigurationError(
                f"state on disk needs the package rocksdict, which cannot be imported: {error}",
                hint="install rocksdict where the workers run, or use the state backend in memory",
            ) from error
        self.folder = folder
        self._rocks = rocksdict
        self._write_options = rocksdict.WriteOptions()
        # The stubs declare it as a method; it is a property.
        self._write_options.disable_wal = True  # type: ignore[method-assign,assignment]
        access = (
            rocksdict.AccessType.read_only(False) if read_only else rocksdict.AccessType.read_write()
        )
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._db = rocksdict.Rdict(folder, _options(memory_bytes), access_type=access)
            self._db.set_write_options(self._write_options)
        except Exception as error:
            self._fail(error)
        self._get = self._db.get
        self._begun: BegunCheckpoint | None = None

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._get(key)
        except Exception as error:
            self._fail(error)
        return value

    def get_all(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the values of several keys. It is faster if the keys are sorted."""
        try:
            values: Any = self._get(cast("Any", keys))
        except Exception as error:
            self._fail(error)
        return list(values)

    def batch(self) -> Batch:
        return self._rocks.WriteBatch(raw_mode=True)

    def write(self, batch: Batch) -> None:
        if batch.is_empty():
            return
        self._complete_checkpoint()
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:
            self._fail(error)

    def write_entries(
        self,
        places: Sequence[bytes],
        values: Callable[[Sequence[int]], Iterable[bytes | None]],
    ) -> None:
        """Write entries in the order of their places, in several batches.

        `values` is called for a few positions at a time, and returns their values. An entry whose value
        is None is deleted.
        """
        # Sorted writes take a fraction of the time, and their flush to a table file takes less, too.
        order = sorted(range(len(places)), key=places.__getitem__)
        batch = self.batch()
        for begin in range(0, len(order), _BLOCK_ROWS):
            some = order[begin : begin + _BLOCK_ROWS]
            put, delete = batch.put, batch.delete
            for at, value in zip(some, values(some), strict=True):
                if value is None:
                    delete(places[at])
                else:
                    put(places[at], value)
            if batch.size_in_bytes() >= _BATCH_BYTES:
                self.write(batch)
                batch = self.batch()
        self.write(batch)

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from `start` to before `stop`, in the order of the keys."""
        try:
            for key, value in self._db.items(from_key=start):
                assert isinstance(key, bytes)
                if key >= stop:
                    return
                yield key, value
        except Exception as error:
            self._fail(error)

    def scan_prefix(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries whose keys have this prefix."""
        try:
            for key, value in self._db.items(from_key=prefix):
                assert isinstance(key, bytes)
                if not key.startswith(prefix):
                    return
                yield key, value
        except Exception as error:
            self._fail(error)

    def scan_prefix_backwards(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries whose keys have this prefix, the last first."""
        behind = prefix.rstrip(b"\xff")
        above = behind[:-1] + bytes([behind[-1] + 1]) if behind else None
        try:
            for key, value in self._db.items(backwards=True, from_key=above):
                assert isinstance(key, bytes)
                if key == above:
                    continue
                if not key.startswith(prefix):
                    return
                yield key, value
        except Exception as error:
            self._fail(error)

    def entries(self) -> int:
        """Return the approximate number of entries."""
        return int(self._db.property_int_value("rocksdb.estimate-num-keys") or 0)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        self._complete_checkpoint()
        try:
            self._db.delete_range(start, stop, self._write_options)
        except Exception as error:
            self._fail(error)

    def flush(self) -> None:
        """Write all changes to table files. May be called in any thread; other Python threads run while
        it waits for the disk."""
        try:
            self._db.flush(True)
        except Exception as error:
            self._fail(error)

    def begin_checkpoint(self, folder: str) -> BegunCheckpoint:
        """Begin a checkpoint in a new folder. The previous one is completed first."""
        self._complete_checkpoint()
        self._begun = BegunCheckpoint(self, folder)
        return self._begun

    def _complete_checkpoint(self) -> None:
        if self._begun is not None:
            self._begun.complete()
            self._begun = None

    def checkpoint(self, folder: str) -> list[str]:
        """Write all changes to disk, and link the files of the database into a new folder.

        Returns the names of the files that are needed to open it again.
        """
        # Linking holds Python's lock. Without this call it would hold it during the writes, too.
        self.flush()
        try:
            self._rocks.Checkpoint(self._db).create_checkpoint(folder)
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            self._fail(error)
        names = (path.name for path in Path(folder).iterdir())
        return sorted(name for name in names if name.endswith(TABLE_FILE) or is_manifest(name))

    def close(self) -> None:
        """Close the database, and ignore errors of the disk, because it is not used any more.

        If another thread is flushing, the database is closed after that.
        """
        if self._begun is not None:
            self._begun.abandon()
            self._begun = None
        with contextlib.suppress(Exception):
            self._db.close()

    def _fail(self, error: Exception) -> NoReturn:
        raise failure(self.folder, error) from error


class BegunCheckpoint:
    """A checkpoint of a database whose last changes are being written to table files.

    It has all writes before it began, and none after: the next write to the database completes it
    first (CP20). The owner of the database calls `complete` and `names`; other threads may call
    `prepare` and `abandon`.
    """

    def __init__(self, database: Database, folder: str) -> None:
        self.folder = folder
        self._database = database
        self._names: list[str] | StateError | None = None
        """Result; None before it is complete."""
        self._abandoned = False

    def prepare(self) -> None:
        """Write the changes to table files, so that `complete` has only to link them."""
        if self._names is None and not self._abandoned:
            self._database.flush()

    def complete(self) -> None:
        """Link the files, unless this was done, or the checkpoint is abandoned. A failure is raised by
        `names`."""
        if self._names is not None or self._abandoned:
            return
        try:
            self._names = self._database.checkpoint(self.folder)
        except StateError as error:
            self._names = error
        self._remove_abandoned()

    def names(self) -> list[str]:
        """Complete the checkpoint, and return the names of the files that are needed to open it."""
        self.complete()
        assert self._names is not None, "an abandoned checkpoint has no files"
        if isinstance(self._names, StateError):
            raise self._names
        return self._names

    def abandon(self) -> None:
        """Delete the folder, which nobody reads any more."""
        self._abandoned = True
        self._remove_abandoned()

    def _remove_abandoned(self) -> None:
        # `abandon` may have been called while the files were linked.
        if self._abandoned:
            shutil.rmtree(self.folder, ignore_errors=True)


def is_manifest(name: str) -> bool:
    return name.startswith(_MANIFEST)


def make_current(folder: str, manifest: str) -> None:
    """Complete a folder of the files that `Database.checkpoint` named."""
    Path(folder, _CURRENT).write_text(f"{manifest}\n")


def failure(folder: str, error: Exception) -> StateError:
    """Return the error to raise for a failure of the disk, or of the database on it."""
    if isinstance(error, StateError):
        return error
    text = f"{error}"
    if "No space left" in text or "Disk quota exceeded" in text:
        return StateError(
            f"the disk is full: state in {folder} could not be written: {text}",
            hint="free some space, or choose a larger disk: Environment(state_directory=...)",
        )
    return StateError(f"state in {folder} could not be written or read: {text}")


def _options(memory_bytes: int) -> Options:
    import rocksdict as rocks

    options = rocks.Options(raw_mode=True)
    options.create_if_missing(True)
    # Half for writes, in two buffers of which one is being written out; half for reads. While the young
    # generation is written, there may be two more, so that processing does not wait for the disk. The
    # memory of larger buffers would be returned to the system, and requested from it again, each time.
    options.set_write_buffer_size(max(memory_bytes // 4, 64 * 1024))
    options.set_max_write_buffer_number(4)
    tables = rocks.BlockBasedOptions()
    tables.set_block_cache(rocks.Cache(max(memory_bytes // 2, 64 * 1024)))
    tables.set_bloom_filter(_BITS_PER_KEY, False)
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_pin_l0_filter_and_index_blocks_in_cache(True)
    tables.set_format_version(5)
    options.set_block_based_table_factory(tables)
    options.set_compression_type(rocks.DBCompressionType.lz4())
    # Runs are merged with runs of their own size. The next checkpoint has to store a merged run again,
    # so large runs should be merged rarely.
    options.set_compaction_style(rocks.DBCompactionStyle.universal())
    universal = rocks.UniversalCompactOptions()
    universal.max_size_amplification_percent = 100
    options.set_universal_compaction_options(universal)
    options.set_level_zero_file_num_compaction_trigger(_RUNS_BEFORE_MERGE)
    options.set_target_file_size_base(_TABLE_FILE_BYTES)
    options.set_max_background_jobs(2)
    options.set_max_manifest_file_size(_MAX_MANIFEST_BYTES)
    options.set_manifest_preallocation_size(64 * 1024)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(MIB)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options
