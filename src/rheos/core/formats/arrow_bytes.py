"""Tables as bytes: an Arrow IPC stream, which begins with the table's schema."""

from __future__ import annotations

import pyarrow as pa


def table_bytes(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Return the rows as an Arrow IPC stream.

    >>> table_of(table_bytes(pa.table({"n": [1, 2]}))).to_pydict()
    {'n': [1, 2]}
    """
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write(rows)
    data: bytes = out.getvalue().to_pybytes()
    return data


def table_of(data: bytes | pa.Buffer) -> pa.Table:
    """Return the rows of an Arrow IPC stream. Raise `pa.ArrowInvalid` or `OSError` if it is damaged."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
