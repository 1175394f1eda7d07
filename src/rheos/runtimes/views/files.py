"""A bounded cache of state files. Files of checkpoints never change, so none is ever outdated."""

from __future__ import annotations

import threading
from collections import OrderedDict

CACHE_BYTES = 64 << 20


class FileCache:
    """The files that were read last, up to a number of bytes. Any thread may use it."""

    def __init__(self, most_bytes: int = CACHE_BYTES) -> None:
        self.most_bytes = most_bytes
        self._files: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, path: str) -> bytes | None:
        """Return the file's content, if it is in the cache."""
        with self._lock:
            data = self._files.get(path)
            if data is not None:
                self._files.move_to_end(path)
            return data

    def put(self, path: str, data: bytes) -> None:
        """Add a file. Those that were not used for longest make room for it."""
        if len(data) > self.most_bytes:
            return
        with self._lock:
            if path in self._files:
                return
            self._files[path] = data
            self._bytes += len(data)
            while self._bytes > self.most_bytes:
                _, dropped = self._files.popitem(last=False)
                self._bytes -= len(dropped)
