"""What a checkpoint is made of: state parts as operators give them, handles as the log keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import msgspec
import pyarrow as pa

from rheos.protocol.ids import OperatorId


class StateKind(Enum):
    """How a part of state finds its way to the subtasks of a restored job."""

    KEYED = "keyed"
    """Rows carry `key_group` (uint16); each subtask gets the rows of its own groups."""

    LIST = "list"
    """Rows are dealt out over the subtasks of the operator, round robin."""

    UNION = "union"
    """Each subtask gets the rows of all."""


class PartMode(Enum):
    FULL = "full"
    """The part is the whole state."""

    DELTA = "delta"
    """The part holds what changed since the part before it. KEYED only; its rows are upserts by
    (key_group, key, namespace), and a null value deletes."""


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """One piece of an operator's state, frozen in the synchronous part of a checkpoint.

    `write` is called once, on the I/O executor, while processing goes on: it may read only what the
    synchronous part froze. A KEYED table has the column `key_group`, and `write` returns it sorted
    by (key_group, key, namespace).
    """

    state: str
    kind: StateKind
    write: Callable[[], pa.Table]
    mode: PartMode = PartMode.FULL


class StateHandle(msgspec.Struct, frozen=True, kw_only=True):
    """Where a written part lies. Kept in the log; small parts are kept inline."""

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


@dataclass(slots=True)
class Snapshot:
    """What an operator gives at a barrier."""

    parts: list[SnapshotPart] = field(default_factory=list)
    committables: list[bytes] = field(default_factory=list)
    """What a two-phase sink has staged and wants committed once the checkpoint is in the log."""
