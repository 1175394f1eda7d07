"""Memory for the content of a file that a store writes."""

from __future__ import annotations

import pyarrow as pa

_PAGE_BYTES = 4096


def memory_for(size_bytes: int) -> memoryview:
    """Return memory that begins at a page: a disk can write it without copying it first."""
    # A worker keeps what the C library frees for the next file. Arrow's allocator returns it.
    memory = pa.allocate_buffer(size_bytes + _PAGE_BYTES, memory_pool=pa.system_memory_pool())
    begin = -memory.address % _PAGE_BYTES
    return memoryview(memory).cast("B")[begin : begin + size_bytes]
