"""Payloads joined in one buffer with line ends between them. Decoders read them as a whole column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

NEWLINE = b"\n"[0]


@dataclass(frozen=True, slots=True)
class JoinedPayloads:
    """Payloads, each followed by a line end."""

    data: pa.Buffer
    starts: npt.NDArray[np.int64]
    """Offset at which each payload begins, and the offset after the last payload's line end."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> bytes:
        begin, end = self.starts[index : index + 2].tolist()
        payload: bytes = self.data.slice(begin, end - begin - 1).to_pybytes()
        return payload

    def column(self) -> pa.Array:
        """Return the payloads as a column of `binary`."""
        return split_at(memoryview(self.data), self.starts[1:] - 1)

    def part(self, i: int, j: int) -> pa.Buffer:
        """Return the bytes of payloads i up to, not including, j."""
        begin = int(self.starts[i])
        return self.data.slice(begin, int(self.starts[j]) - begin)

    def payload_at(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the index of the payload that contains each of these byte positions."""
        return np.searchsorted(self.starts, places, side="right") - 1

    def bytes(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.data, np.uint8)


def joined(payloads: pa.Array) -> JoinedPayloads:
    """Join payloads without nulls into one buffer."""
    ended = pc.binary_join_element_wise(payloads, b"", b"\n")
    kind = np.int64 if pa.types.is_large_binary(ended.type) else np.int32
    _, offsets, data = ended.buffers()
    starts = np.frombuffer(offsets, kind, len(ended) + 1).astype(np.int64)
    return JoinedPayloads(data.slice(0, int(starts[-1])), starts)


def split_at(data: bytes | memoryview, ends: npt.NDArray[np.int64]) -> pa.Array:
    """Split data into payloads at the separators, whose positions are `ends`. The last byte is a
    separator."""
    offsets = np.concatenate(([0], ends - np.arange(len(ends)))).astype(np.int32)
    kept = np.delete(np.frombuffer(data, np.uint8), ends)
    return pa.Array.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(kept)]
    )
