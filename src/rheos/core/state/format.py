"""The snapshot file: the format in which a part of state is stored.

An Arrow IPC file. A KEYED part has a record batch for each key group with rows, in ascending order, and
the schema's metadata lists the groups of the batches. So a restore at another parallelism reads only
the batches that it needs. LIST and UNION parts are one batch. The metadata also contains the format's
version.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from rheos.core.errors import CheckpointError
from rheos.core.protocol.ports import Content
from rheos.core.protocol.snapshots import PartMode, StateKind
from rheos.core.state.file_memory import memory_for

VERSION = 1
KEY_GROUP = "key_group"

_META_VERSION = b"rheos.version"
_META_KIND = b"rheos.kind"
_META_MODE = b"rheos.mode"
_META_GROUPS = b"rheos.groups"


def encode(table: pa.Table, kind: StateKind, mode: PartMode) -> memoryview:
    """Return the file of a part. A KEYED table must be sorted by its column `key_group` (uint16)."""
    table = table.combine_chunks()
    pieces = (
        _by_group(table) if kind is StateKind.KEYED else [(0, batch) for batch in table.to_batches()]
    )
    schema = table.schema.with_metadata(
        {
            _META_VERSION: str(VERSION).encode(),
            _META_KIND: kind.value.encode(),
            _META_MODE: mode.value.encode(),
            _META_GROUPS: json.dumps([group for group, _ in pieces]).encode(),
        }
    )
    batches = [batch.replace_schema_metadata(schema.metadata) for _, batch in pieces]
    size = pa.MockOutputStream()
    _write(size, schema, batches)
    # A stream that grows while it is written would take up to three times the memory, all newly
    # allocated.
    data = memory_for(size.size())
    _write(pa.FixedSizeBufferWriter(pa.py_buffer(data)), schema, batches)
    return data


def _write(out: pa.NativeFile, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    with pa.ipc.new_file(out, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _by_group(table: pa.Table) -> list[tuple[int, pa.RecordBatch]]:
    column = table.column(KEY_GROUP).to_numpy()
    assert bool(np.all(column[:-1] <= column[1:])), "a keyed part is sorted by key group"
    starts = np.flatnonzero(column[1:] != column[:-1]) + 1
    bounds = [0, *starts.tolist(), len(column)] if len(column) else []
    return [
        (int(column[start]), batch)
        for start, end in pairwise(bounds)
        for batch in table.slice(start, end - start).to_batches()
    ]


def decode(data: Content, groups: range | None) -> pa.Table:
    """Return the rows of a part. For a KEYED part, return only those of `groups`; all if it is None.

    Raise CheckpointError if the file has a newer version or an unknown format.
    """
    try:
        reader = pa.ipc.open_file(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise CheckpointError(f"a state file cannot be read: {error}") from error
    metadata = reader.schema.metadata or {}
    try:
        version = int(metadata[_META_VERSION])
    except (KeyError, ValueError):
        raise CheckpointError("a state file was not written by Rheos") from None
    if not 1 <= version <= VERSION:
        raise CheckpointError(
            f"a state file has format version {version}, but this version of Rheos reads up to "
            f"{VERSION}",
            hint="restore with the version of Rheos that wrote the checkpoint, or a newer one",
        )
    batches = list(range(reader.num_record_batches))
    if groups is not None and metadata.get(_META_KIND) == StateKind.KEYED.value.encode():
        present = json.loads(metadata[_META_GROUPS])
        batches = [i for i in batches if present[i] in groups]
    schema = reader.schema.remove_metadata()
    try:
        wanted = [reader.get_batch(i).replace_schema_metadata(None) for i in batches]
    except (pa.ArrowException, OSError) as error:
        raise CheckpointError(f"a state file cannot be read: {error}") from error
    return pa.Table.from_batches(wanted, schema)
