"""The bound on what a writer stages while its output cannot be published.

```python
room = StagingRoom(ahead_bytes=10)
room.begin({1: 300})  # The commit of checkpoint 1 runs, or is retried.
assert room.has_room(staged_bytes=600)
assert not room.has_room(staged_bytes=601)
room.end({1: 300})
assert room.has_room(staged_bytes=1000)
```
"""

from __future__ import annotations

import threading
from collections.abc import Mapping


class StagingRoom:
    """Decides whether a writer may stage more. One thread stages, another commits."""

    def __init__(self, ahead_bytes: int) -> None:
        """`ahead_bytes`: how much a writer may stage beyond a commit that has not succeeded, unless the
        commit itself is larger."""
        self._ahead_bytes = ahead_bytes
        self._lock = threading.Lock()
        # Under the lock:
        self._under_way_bytes: int | None = None
        """Size of the epochs of the commit that runs or is to be retried; None without one."""
        self._taken = 0
        """Number of the newest epoch that a commit was begun for."""
        self._taken_bytes = 0
        """Size of all epochs up to that."""

    def has_room(self, staged_bytes: int) -> bool:
        """Return whether the writer may stage more now. `staged_bytes` is the size of everything that
        it has staged since it was opened."""
        with self._lock:
            if self._under_way_bytes is None:
                return True  # The barrier for the next commit may be among what waits: it is taken.
            ahead_bytes = staged_bytes - self._taken_bytes
            return ahead_bytes <= max(self._ahead_bytes, self._under_way_bytes)

    def begin(self, sizes: Mapping[int, int]) -> None:
        """Record that a commit begins. `sizes`: bytes of its epochs, by checkpoint. A retry makes no
        more room than the first try did."""
        with self._lock:
            if self._under_way_bytes is None:
                self._under_way_bytes = self._take(sizes)

    def end(self, sizes: Mapping[int, int]) -> None:
        """Record that the commit has succeeded. A retry may have committed more epochs than the first
        try."""
        with self._lock:
            self._take(sizes)
            self._under_way_bytes = None

    def _take(self, sizes: Mapping[int, int]) -> int:
        """Count epochs as taken. Returns the size of those that were not, in bytes."""
        size_bytes = sum(size for checkpoint, size in sizes.items() if checkpoint > self._taken)
        self._taken_bytes += size_bytes
        self._taken = max(self._taken, *sizes) if sizes else self._taken
        return size_bytes
