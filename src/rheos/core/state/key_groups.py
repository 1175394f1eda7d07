"""Key groups: the partitioning of keyed state.

A key is hashed by our own function, the hash determines a key group, and a subtask owns a range of
groups. Hash and groups are part of the format of every snapshot. They depend on the key's *value*
alone, never on its representation in Arrow, on its batch, or on a library's version. Any change of them
must change `HASH_VERSION`.

The hash is that of `protocol/hashing`. A group is computed from its 31 highest bits, by multiplication
instead of division.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.errors import Site
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.hashing import NullKeyError, plain, premix

HASH_VERSION = 1

MAX_KEY_GROUPS = 1 << 15
"""Greatest permitted `max_parallelism`."""

_S31, _S33 = np.uint64(31), np.uint64(33)


def is_key_type(kind: pa.DataType) -> bool:
    """Return whether columns of this type can be keys: all but nested and interval types."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_key_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return is_key_type(kind.value_type)
    return not (pa.types.is_nested(kind) or pa.types.is_interval(kind) or pa.types.is_null(kind))


def refuse_null_keys(batch: Batch, keys: Sequence[str], keyed_at: Site | None) -> None:
    """Raise InputError, with the record and the line of the `key_by`, if a key is null."""
    try:
        for position, key in enumerate(keys):
            column = batch.column(key)
            if _may_hold_nulls(column):
                plain(column, position)
    except NullKeyError as error:
        raise error.located_in(batch, keys, keyed_at) from None


def _may_hold_nulls(column: pa.Array) -> bool:
    """Return whether the column may contain nulls, without decoding it."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        return bool(column.null_count or column.dictionary.null_count)
    if pa.types.is_run_end_encoded(column.type):
        return bool(column.values.null_count)
    return bool(column.null_count)


def key_groups(
    batch: pa.RecordBatch, keys: Sequence[str], max_parallelism: int
) -> npt.NDArray[np.uint16]:
    """Return the key group of each row. Raise NullKeyError, or TypeError if a type cannot be a key."""
    return groups_of_columns([batch.column(key) for key in keys], max_parallelism)


def groups_of_columns(columns: Sequence[pa.Array], max_parallelism: int) -> npt.NDArray[np.uint16]:
    """Return the key groups of key columns; see `key_groups`."""
    # The last step of the hash does not change its 31 highest bits, and only these are used here.
    mixed = premix(columns)
    if max_parallelism & (max_parallelism - 1) == 0:
        if max_parallelism == 1:
            return np.zeros(len(mixed), dtype=np.uint16)
        mixed >>= np.uint64(65 - max_parallelism.bit_length())
    else:
        mixed >>= _S33
        mixed *= np.uint64(max_parallelism)
        mixed >>= _S31
    return mixed.astype(np.uint16)


def subtask_of(
    groups: npt.NDArray[np.uint16], parallelism: int, max_parallelism: int
) -> npt.NDArray[np.uint16]:
    """Return the subtask that owns each group: group * parallelism // max_parallelism."""
    if max_parallelism % parallelism == 0:
        return groups // np.uint16(max_parallelism // parallelism)
    owners = np.arange(max_parallelism, dtype=np.int64) * parallelism // max_parallelism
    return owners.astype(np.uint16)[groups]
