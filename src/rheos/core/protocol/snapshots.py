"""The parts of a checkpoint: state as operators return it, and handles as the log stores them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import msgspec
import pyarrow as pa

from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.ports import Content

IN_FLIGHT = "in-flight "
"""Prefix of the names of states that contain rows between operators. They belong to the engine:
operators do not access them, and savepoints do not contain them."""

IN_FLIGHT_INPUT = IN_FLIGHT + "input "
"""Prefix of a name that ends in the port. KEYED states also belong to the subtask that was to receive
the rows."""

IN_FLIGHT_OUTPUT = IN_FLIGHT + "output "
"""Prefix of a name that ends in the port. The *sending* subtask writes the state. So the rows of KEYED
states may be of any key group, not only of this subtask's. The rows of BROADCAST states are copies for
any subtask; the column RECEIVER has its number."""

RECEIVER = "receiver"
"""Column (uint16) with the number of the receiving subtask."""


class StateKind(Enum):
    """Rule that distributes a part of state to the subtasks of a restored job."""

    KEYED = "keyed"
    """Rows have a column `key_group` (uint16); each subtask gets the rows of its own groups."""

    LIST = "list"
    """The rows are distributed round-robin to the subtasks of the operator."""

    UNION = "union"
    """Each subtask gets the rows of all subtasks."""

    BROADCAST = "broadcast"
    """All subtasks hold the same rows. Each gets the rows of one old subtask: the one with its own
    number, modulo the old number of subtasks."""


class PartMode(Enum):
    FULL = "full"
    """The part is the whole state."""

    DELTA = "delta"
    """The part contains the changes since the previous part. KEYED only. Its rows are upserts by
    (key_group, key, namespace), and a null value deletes. Columnar states define their own deltas,
    which apply in order to the rows of their own key groups."""

    FILE = "file"
    """One file of a set that together is the whole state of a subtask, such as the table files of
    RocksDB. Files are immutable and identified by name: a checkpoint writes only files that no earlier
    checkpoint has written."""


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """One piece of an operator's state, frozen in the synchronous part of a checkpoint.

    The I/O executor calls `write` while processing continues, so it may read only what the synchronous
    part froze. A savepoint at the same barrier may call it again, from another thread. A KEYED table
    has the column `key_group`, sorted by (key_group, key, namespace). A state that is too large for one
    table consists of several, each of which becomes a file. They follow each other in that order;
    tables of columnar state may be in any order.
    """

    state: str
    kind: StateKind
    write: Callable[[], pa.Table | Iterable[pa.Table]]
    mode: PartMode = PartMode.FULL
    unchanged: bool = False
    """Whether this DELTA has no rows. Then it need not be written, because the earlier parts are
    complete."""


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One file of a set. If the attempt has already written a file of this name, it does not read the
    file again."""

    name: str
    read: Callable[[], Content]
    """Function that returns the content. It is called on the I/O executor, at most once."""


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """A state that is stored as a set of files (PartMode.FILE). KEYED.

    The set is the state at the barrier. Its last files may be written while processing continues.
    """

    state: str
    prepare: Callable[[], None]
    """Function that writes the last files. It is called on the I/O executor, once."""
    complete: Callable[[], list[SnapshotFile]]
    """Function that returns the whole set. It is called in the mailbox, once, after `prepare`, and is
    quick then."""


class StateHandle(msgspec.Struct, frozen=True, kw_only=True):
    """The location of a written part. The log stores the handle, which contains small parts itself."""

    operator: OperatorId
    subtask: int
    state: str
    kind: StateKind
    mode: PartMode
    size_bytes: int
    rows: int
    checksum: int
    """CRC-32 of the file's bytes."""
    path: str = ""
    inline: bytes = b""
    file: str = ""
    """Name within its set if the mode is FILE."""

    @staticmethod
    def of(
        data: Content,
        *,
        operator: OperatorId,
        subtask: int,
        state: str,
        kind: StateKind,
        mode: PartMode,
        rows: int,
        path: str,
        file: str = "",
        inline: bool = False,
    ) -> StateHandle:
        """Return the handle of a file with this content, stored at `path` or in the handle itself."""
        return StateHandle(
            operator=operator,
            subtask=subtask,
            state=state,
            kind=kind,
            mode=mode,
            size_bytes=len(data),
            rows=rows,
            checksum=zlib.crc32(data),
            path="" if inline else path,
            inline=bytes(data) if inline else b"",
            file=file,
        )


@dataclass(frozen=True, slots=True)
class RestoredFiles:
    """Files of an old subtask's state, for a new subtask that takes over some or all key groups."""

    groups: range
    """Key groups that the new subtask takes over; the files may contain others, too."""
    whole: bool
    """Whether these are all key groups of the old subtask."""
    files: Mapping[str, Callable[[], bytes]]
    """Functions that read the files, by name. They raise CheckpointError with the file's name."""


MAX_DELTAS = 64
"""Maximum number of deltas in a chain, however small they are. Then a full part follows, because the
log stores a handle for each delta."""


@dataclass(frozen=True, slots=True)
class WrittenChain:
    """Lengths of a chain of parts that a restored subtask may continue (CP11)."""

    full_rows: int
    delta_rows: int
    deltas: int
    """Number of deltas."""

    def next_is_full(self, changes: int) -> bool:
        """Return whether a full part follows instead of a delta with this number of rows."""
        return self.deltas >= MAX_DELTAS or self.delta_rows + changes >= self.full_rows


class RestoredState(Iterable[pa.Table]):
    """A state of a restored operator.

    Iterating reads and decodes the tables one by one, in the order in which they apply. Each iteration
    reads them anew, so a large state is never in memory as a whole. A state that was stored as files
    has them in `files` instead. Iterating over it raises CheckpointError, because only the backend that
    wrote the files can read them.
    """

    files: Sequence[RestoredFiles] = ()
    kind: StateKind | None = None
    """Rule by which it was distributed; None if that is unknown."""
    chain: WrittenChain | None = None
    """Chain that the next part may continue as a delta (CP11); None if that part must be FULL."""
    as_declared = False
    """Whether the program that stored it declared the state as this one does. Then all parts of the
    chain can be read by one declaration, also by later programs."""


@dataclass(slots=True)
class Snapshot:
    """The state that an operator returns at a barrier."""

    parts: list[SnapshotPart] = field(default_factory=list)
    files: SnapshotFiles | None = None
    """State that is stored as a set of files; None if all state is in `parts`."""
    release: Callable[[], None] | None = None
    """Function that is called once, on the I/O executor, after all files of the snapshot are read or
    abandoned. If the snapshot is abandoned before it is written, its files are not prepared."""
    committables: list[bytes] = field(default_factory=list)
    """Staged output of a two-phase sink, to be committed once the checkpoint is in the log."""
