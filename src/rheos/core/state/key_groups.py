"""Key groups: where the state of a key lives.

A key is hashed by a function of our own, a key group is made of the hash, and a subtask owns a range
of groups. Hash and groups are part of the format of every snapshot: they depend on the key's *value*
alone, never on how Arrow happens to represent it, on the batch it came in, or on a library's version.
`HASH_VERSION` changes with any change of them.

The hash is that of `protocol/hashing`. A group is made of the 31 highest bits of it, by multiplication
and not by division.
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
"""The greatest `max_parallelism`."""

_S31, _S33 = np.uint64(31), np.uint64(33)


def is_key_type(kind: pa.DataType) -> bool:
    """Whether columns of this type can be keys: all but nested and interval types."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_key_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return is_key_type(kind.value_type)
    return not (pa.types.is_nested(kind) or pa.types.is_interval(kind) or pa.types.is_null(kind))


def refuse_null_keys(batch: Batch, keys: Sequence[str], keyed_at: Site | None) -> None:
    """Raises InputError, with the record and the line of the `key_by`, where a key is null."""
    try:
        for position, key in enumerate(keys):
            column = batch.column(key)
            if _may_hold_nulls(column):
                plain(column, position)
    except NullKeyError as error:
        raise error.located_in(batch, keys, keyed_at) from None


def _may_hold_nulls(column: pa.Array) -> bool:
    """Without decoding it."""
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
    """The key group of each row. Raises NullKeyError, and TypeError for a type that is no key."""
    return groups_of_columns([batch.column(key) for key in keys], max_parallelism)


def groups_of_columns(columns: Sequence[pa.Array], max_parallelism: int) -> npt.NDArray[np.uint16]:
    """`key_groups` of bare columns."""
    # The last step of the hash leaves its 31 highest bits as they are, and no other bit counts here.
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
    """The subtask that owns each group: group * parallelism // max_parallelism."""
    if max_parallelism % parallelism == 0:
        return groups // np.uint16(max_parallelism // parallelism)
    owners = np.arange(max_parallelism, dtype=np.int64) * parallelism // max_parallelism
    return owners.astype(np.uint16)[groups]
