"""Large data for another process of this machine: a file in memory, whose descriptor is sent.

A socket's buffer is bounded, so its writer must wait for the reader; a file has room for all data. The
reader copies the file, so it sees no later change by the writer, and no descriptor stays open.
"""

from __future__ import annotations

import os

import pyarrow as pa

from rheos.core.errors import TransportError

AVAILABLE = hasattr(os, "memfd_create")
"""Whether the system has files in memory. Linux has them."""


def write_memory_file(data: pa.Buffer) -> int:
    """Return the descriptor of a new file with the bytes. The caller closes it. Raise OSError if
    descriptors or memory are exhausted."""
    descriptor = os.memfd_create("rheos", os.MFD_CLOEXEC)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_memory_file(descriptor: int, size_bytes: int) -> memoryview:
    """Return the bytes of a peer's file, and close it. Raise TransportError if it has fewer."""
    data = memoryview(pa.allocate_buffer(size_bytes))
    at = 0
    try:
        while at < size_bytes and (read := os.preadv(descriptor, [data[at:]], at)):
            at += read
    except OSError as error:
        raise TransportError(f"a peer's payload cannot be read: {error}") from error
    finally:
        os.close(descriptor)
    if at < size_bytes:
        raise TransportError(f"a peer's payload has {at} bytes, not {size_bytes}")
    return data.toreadonly()
