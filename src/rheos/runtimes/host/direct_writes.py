"""Writes of large files that bypass the system's page cache.

A file that is synced to the disk passes through the page cache twice: the data is copied into its
pages, and the sync collects these pages again. For a large file this costs several times the processor
time of a direct write, and it evicts pages that other processes read.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys

import pyarrow as pa

from rheos.core.protocol.ports import Content

LEAST_BYTES = 1 << 20
"""Size of a file from which a direct write is worth its fixed cost."""

_CHUNK_BYTES = 1 << 20
_BLOCK_BYTES = 4096
"""Unit of direct writes: a multiple of each disk's block size."""


def write_directly(descriptor: int, data: Content) -> None:
    """Write the data to an empty file, and bypass the page cache where the file system allows it.

    The last bytes, which fill no block, are written as usual. So the caller must still sync the file.
    """
    view, done = memoryview(data), 0
    whole = len(view) // _BLOCK_BYTES * _BLOCK_BYTES
    if whole and _set_direct(descriptor, True):
        # Direct writes require memory that begins at a page, as an anonymous map does.
        begins_at_page = pa.py_buffer(data).address % _BLOCK_BYTES == 0
        chunk = None if begins_at_page else memoryview(mmap.mmap(-1, min(_CHUNK_BYTES, whole)))
        try:
            while done < whole and done % _BLOCK_BYTES == 0:
                piece = view[done:whole]
                if chunk is not None:
                    piece = piece[: len(chunk)]
                    chunk[: len(piece)] = piece
                    piece = chunk[: len(piece)]
                done += os.write(descriptor, piece)
        except OSError as error:
            if error.errno != errno.EINVAL:  # Some file systems refuse only the write.
                raise
        finally:
            _set_direct(descriptor, False)
    while done < len(view):
        done += os.write(descriptor, view[done:])


def _set_direct(descriptor: int, direct: bool) -> bool:
    """Turn direct writes of a descriptor on or off. Return whether they are on now."""
    if sys.platform != "linux":
        return False
    import fcntl

    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if direct else flags & ~os.O_DIRECT)
    except OSError:
        return False
    return direct
