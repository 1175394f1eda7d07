"""The parts of a checkpoint: state as operators return it, and handles as the log keeps them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import msgspec
import pyarrow as pa

from rheos.core.protocol.ids import OperatorId

IN_FLIGHT = "in-flight "
"""Prefix of the names of states that hold rows between operators. They belong to the engine: operators
neither write nor read them, and savepoints do not have them."""

IN_FLIGHT_INPUT = IN_FLIGHT + "input "
"""Prefix of a name that ends in the port. KEYED states, too, belong to the subtask that was to receive
the rows."""

IN_FLIGHT_OUTPUT = IN_FLIGHT + "output "
"""Prefix of a name that ends in the port. The *sending* subtask writes the state. So the rows of KEYED
states are of any key group, not only of this subtask's. The rows of BROADCAST states are copies for any
subtask, whose number is in the column RECEIVER."""

RECEIVER = "receiver"
"""uint16."""


class StateKind(Enum):
    """How a part of state is distributed to the subtasks of a restored job."""

    KEYED = "keyed"
    """Rows carry `key_group` (uint16); each subtask gets the rows of its own groups."""

    LIST = "list"
    """Rows are dealt out over the subtasks of the operator, round robin."""

    UNION = "union"
    """Each subtask gets the rows of all."""

    BROADCAST = "broadcast"
    """All subtasks hold the same rows, and each gets those of one of them: of the old subtask of its
    own number, modulo how many there were."""


class PartMode(Enum):
    FULL = "full"
    """The part is the whole state."""

    DELTA = "delta"
    """The part holds what changed since the part before it. KEYED only; its rows are upserts by
    (key_group, key, namespace), and a null value deletes. Columnar states say themselves what
    their deltas are; they apply in order, to the rows of their own key groups."""

    FILE = "file"
    """One file of a set that together is the whole state of a subtask, such as the table files of
    RocksDB. Files are immutable and known by name: a checkpoint writes only those that no
    checkpoint before it has written."""


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """One piece of an operator's state, frozen in the synchronous part of a checkpoint.

    `write` is called on the I/O executor, while processing goes on: it may read only what the
    synchronous part froze. It may be called again, by a savepoint at the same barrier, and from
    another thread. A KEYED table has the column `key_group`, sorted by (key_group, key, namespace).
    State too large for one table comes as several, which follow each other in that order (those of
    columnar state in any); each becomes a file.
    """

    state: str
    kind: StateKind
    write: Callable[[], pa.Table | Iterable[pa.Table]]
    mode: PartMode = PartMode.FULL
    unchanged: bool = False
    """Whether this DELTA has no rows and need not be written: the earlier parts are complete."""


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One file of a state that is kept as a set of files (PartMode.FILE). KEYED.

    A file of a name that the attempt has written before is not read again.
    """

    state: str
    name: str
    read: Callable[[], bytes]
    """Called on the I/O executor, once at the most."""


class StateHandle(msgspec.Struct, frozen=True, kw_only=True):
    """The location of a written part. The log keeps it; small parts are stored in it."""

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
    """The name within its set, where the mode is FILE."""

    @staticmethod
    def of(
        data: bytes,
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
        """Return the handle of a file with this content: at `path`, or in the handle itself."""
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
            inline=data if inline else b"",
            file=file,
        )


@dataclass(frozen=True, slots=True)
class RestoredFiles:
    """The files of one old subtask's state, for a new one that takes all or some of its key groups."""

    groups: range
    """The key groups that the new subtask takes; the files may hold others, too."""
    whole: bool
    """Whether these are all that the old subtask had."""
    files: Mapping[str, Callable[[], bytes]]
    """By name, what reads them. Raises CheckpointError, naming the file."""


class RestoredState(Iterable[pa.Table]):
    """One state of a restored operator.

    Iterating reads and decodes the tables, one by one, in the order in which they apply; each time
    again, so that a large state is never whole in memory. A state that was kept as files has them in
    `files` instead; to iterate over it raises CheckpointError, as its tables are in a form that only
    the backend knows that wrote it.
    """

    files: Sequence[RestoredFiles] = ()
    kind: StateKind | None = None
    """How it was distributed; None if that is unknown."""


@dataclass(slots=True)
class Snapshot:
    """The state that an operator returns at a barrier."""

    parts: list[SnapshotPart] = field(default_factory=list)
    files: list[SnapshotFile] = field(default_factory=list)
    """The whole set of each state that is kept as files."""
    release: Callable[[], None] | None = None
    """Called once, on the I/O executor, when all files of the snapshot are read or given up."""
    committables: list[bytes] = field(default_factory=list)
    """Staged output of a two-phase sink, to be committed once the checkpoint is in the log."""
