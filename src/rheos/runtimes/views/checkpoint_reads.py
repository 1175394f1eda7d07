"""Reads the files of a job's checkpoints, for look-ups while the job runs.

Retention may delete a file while it is read: then `GoneError` is raised.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.restored_state import read_part
from rheos.core.errors import CheckpointError, TransportError
from rheos.core.protocol.ids import CheckpointId, OperatorId
from rheos.core.protocol.key_groups import group_range
from rheos.core.protocol.ports import Store
from rheos.core.protocol.snapshots import IN_FLIGHT, PartMode, StateHandle
from rheos.runtimes.views.files import FileCache

WITHIN_S = 20.0
"""Maximum time of a read."""
TRIES = 3
"""Number of checkpoints that a read tries, if retention deletes them."""
ROWS_AT_ONCE = 1 << 16
"""Number of stored rows that a scan reads at a time, approximately; at least one key group."""
_MIN_ROW_BYTES = 16
"""Minimum size in bytes of most rows in the files of a database, which are compressed."""
_REMEMBERED = 16
"""Number of checkpoints whose scans can continue from the cache after retention has dropped them."""


class GoneError(CheckpointError):
    """A file of the checkpoint no longer exists."""


class CheckpointReads:
    """The checkpoints of one job, and a cache of their files. Any thread may use it.

    Args:
        store: The store whose paths the checkpoints name.
        retained: Returns the checkpoints that exist, oldest first.
        cache: The cache of files.
        now_s: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        store: Store,
        retained: Callable[[], Sequence[CheckpointCompleted]],
        cache: FileCache | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self.retained = retained
        self.cache = FileCache() if cache is None else cache
        self.now_s = now_s
        self._read: OrderedDict[CheckpointId, CheckpointCompleted] = OrderedDict()
        self._lock = threading.Lock()

    def entry(self, number: int | None) -> CheckpointCompleted:
        """Return a checkpoint: the newest if `number` is None. Raise CheckpointError if it is gone, or
        it does not exist yet."""
        retained = self.retained()
        if number is not None:
            known = {entry.checkpoint: entry for entry in retained}
            with self._lock:
                found = known.get(CheckpointId(number)) or self._read.get(CheckpointId(number))
            if found is None:
                raise self.gone_error(number)
            return found
        if not retained:
            raise CheckpointError(
                "the job has no checkpoint yet, so its state cannot be read",
                hint="wait for the first one: `rheos checkpoints` lists them",
            )
        whole = [entry for entry in retained if not _has_rows_in_flight(entry)]
        if not whole:
            raise CheckpointError(
                "the job's checkpoints have overtaken rows, so its state is not up to date in them",
                hint="wait until the backpressure ends, or remove unaligned_after from the settings",
            )
        return whole[-1]

    def gone_error(self, number: int) -> CheckpointError:
        """Return the error of a checkpoint that was replaced."""
        known = ", ".join(str(entry.checkpoint) for entry in self.retained())
        return CheckpointError(
            f"checkpoint {number} is gone, because newer ones have replaced it",
            hint=f"start the scan again (the checkpoints are {known or 'none'}), or keep more of them: "
            "rh.Checkpoints(retain=...)",
        )

    def remember(self, entry: CheckpointCompleted) -> None:
        """Let later reads name this checkpoint, although retention drops it."""
        with self._lock:
            self._read[entry.checkpoint] = entry
            self._read.move_to_end(entry.checkpoint)
            while len(self._read) > _REMEMBERED:
                self._read.popitem(last=False)

    def part(self, handle: StateHandle, deadline_s: float) -> bytes:
        """Return the checked bytes of a part of state. Raise GoneError if retention has deleted it,
        TransportError if the time is up, and CheckpointError if it is damaged."""
        if not handle.path:
            return read_part(self._store, handle)
        data = self.cache.get(handle.path)
        if data is None:
            data = self.fresh_part(handle, deadline_s)
            self.cache.put(handle.path, data)
        return data

    def fresh_part(self, handle: StateHandle, deadline_s: float) -> bytes:
        """Return the checked bytes of a part from the store. Raise the errors of `part`."""
        if self.now_s() > deadline_s:
            raise TransportError(
                f"the state was not read within {WITHIN_S:g} s",
                hint="the store is slow: try again, when the driver has more of the files",
            )
        try:
            return read_part(self._store, handle)
        except CheckpointError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise GoneError(error.what, hint=error.hint) from error
            raise


def _has_rows_in_flight(entry: CheckpointCompleted) -> bool:
    """Return whether the checkpoint's barriers have overtaken rows. Then the state lacks rows that the
    sources have read."""
    return any(handle.state.startswith(IN_FLIGHT) and handle.rows for handle in entry.handles)


def chunks(
    entry: CheckpointCompleted, operator: OperatorId, handles: Sequence[StateHandle], first: int = 0
) -> Iterator[tuple[list[StateHandle], range]]:
    """Yield the parts of the key groups of an operator from `first` on, a few groups at a time.

    Args:
        entry: The checkpoint.
        operator: The operator.
        handles: The parts of one of its states.
        first: The first key group.
    """
    by_subtask: dict[int, list[StateHandle]] = {}
    for handle in handles:
        by_subtask.setdefault(handle.subtask, []).append(handle)
    for subtask, of_subtask in sorted(by_subtask.items()):
        owned = group_range(subtask, entry.width(operator), entry.max_parallelism)
        stored = sum(map(_stored_rows, of_subtask))
        step = max(1, len(owned) * ROWS_AT_ONCE // max(stored, ROWS_AT_ONCE))
        for start in range(max(owned.start, first), owned.stop, step):
            yield of_subtask, range(start, min(start + step, owned.stop))


def _stored_rows(handle: StateHandle) -> int:
    """Return the number of rows of a part. That of a database's file is an upper estimate."""
    return handle.size_bytes // _MIN_ROW_BYTES if handle.mode is PartMode.FILE else handle.rows
