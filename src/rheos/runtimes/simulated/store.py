"""Stores in memory, and their faults: single operations fail, and outages last for a while."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Literal, TypeAlias

from rheos.core.protocol.ports import Content, Store
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.faults import Faults

Operation: TypeAlias = Literal["put", "put_if_absent", "get", "list", "delete"]
Moment: TypeAlias = Literal["before", "within", "after"]

_TEMPORARY = ".tmp-"


class MemoryStore:
    """A store of files in a dict. `on_access` is called before and after each operation, and within
    those that write. An OSError that it raises makes the operation fail. Raised "after", the operation
    has taken effect. Raised "within", it leaves half of the file under a temporary name, which `list`
    omits."""

    def __init__(self, on_access: Callable[[Moment, Operation, str], None] | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.on_access = on_access

    def put(self, path: str, data: Content) -> None:
        data = bytes(data)
        self._access("before", "put", path)
        self._half_written("put", path, data)
        self._write(path, data)
        self._access("after", "put", path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._access("before", "put_if_absent", path)
        self._half_written("put_if_absent", path, data)
        if path not in self.files:
            self._write(path, data)
        own = self.files[path] == data
        self._access("after", "put_if_absent", path)
        return own

    def get(self, path: str) -> bytes:
        self._access("before", "get", path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def unfinished(self, prefix: str, idle_s: int = 0) -> list[str]:
        """Return the incomplete files. Their age is unknown, so none counts as idle for `idle_s`."""
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        if idle_s:
            return []
        return sorted(path for path in self.files if path.startswith(folder) and _is_temporary(path))

    def list(self, prefix: str) -> list[str]:
        self._access("before", "list", prefix)
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        return sorted(
            path for path in self.files if path.startswith(folder) and not _is_temporary(path)
        )

    def delete(self, path: str) -> None:
        self._access("before", "delete", path)
        self._deleted(path)
        self._access("after", "delete", path)

    # --- effects ------------------------------------------------------------------------------------

    def _write(self, path: str, data: bytes) -> None:
        self.files[path] = data

    def _deleted(self, path: str) -> None:
        self.files.pop(path, None)

    def _half_written(self, operation: Operation, path: str, data: bytes) -> None:
        if self.on_access is None:
            return
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/{_TEMPORARY}{name}"
        self.files[temporary] = data[: len(data) // 2]
        self.on_access("within", operation, path)
        self.files.pop(temporary, None)

    def _access(self, moment: Moment, operation: Operation, path: str) -> None:
        if self.on_access is not None:
            self.on_access(moment, operation, path)


def _is_temporary(path: str) -> bool:
    return path.rpartition("/")[2].startswith(_TEMPORARY)


# --- a folder of a store as a store of its own --------------------------------------------------------


class StoreFolder:
    """A folder of a store. It has the faults of that store."""

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self._prefix = f"{path.strip('/')}/"

    def put(self, path: str, data: Content) -> None:
        self._store.put(self._prefix + path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._store.put_if_absent(self._prefix + path, data)

    def get(self, path: str) -> bytes:
        return self._store.get(self._prefix + path)

    def unfinished(self, prefix: str, idle_s: int = 0) -> list[str]:
        found = self._store.unfinished(self._prefix + prefix, idle_s)
        return [path.removeprefix(self._prefix) for path in found]

    def list(self, prefix: str) -> list[str]:
        found = self._store.list(self._prefix + prefix)
        return [path.removeprefix(self._prefix) for path in found]

    def delete(self, path: str) -> None:
        self._store.delete(self._prefix + path)


# --- the store of a simulated world -------------------------------------------------------------------


_WRITES: tuple[Operation, ...] = ("put", "put_if_absent")


class Storage:
    """The storage of a world. It draws only when the world calls it."""

    def __init__(self, faults: Faults, clock: SimClock, rng: Random) -> None:
        self._faults = faults
        self._clock = clock
        self._rng = rng
        self._out_until_us = 0
        self._full_until_us = 0
        self._slow_until_us = 0

    def strike(self, happens: Callable[[float], bool]) -> None:
        """Start outages as time passes. `happens` draws whether a fault of a given rate occurs."""
        if happens(self._faults.store_outage):
            self._out_until_us = self._spell_us()
        if happens(self._faults.store_full):
            self._full_until_us = self._spell_us()
        if happens(self._faults.store_slow):
            self._slow_until_us = self._spell_us()

    def _spell_us(self) -> int:
        now_us = self._clock.monotonic_us()
        return min(now_us + self._rng.randrange(5_000, 400_000), self._faults.until_us)

    def strikes(self, moment: Moment, operation: Operation) -> bool:
        """Return whether an operation fails at this moment."""
        now_us = self._clock.monotonic_us()
        if now_us >= self._faults.until_us:
            return False
        writes = operation in _WRITES
        if moment == "before":
            if now_us < self._out_until_us or (writes and now_us < self._full_until_us):
                return True
            if operation in ("get", "list"):
                return self._rng.random() < self._faults.read_error
        # A write has three moments, and fails at one of them.
        return writes and self._rng.random() < self._faults.store_error / 3

    def latency_us(self) -> int:
        """Return the extra time in us that the next operation takes."""
        if self._clock.monotonic_us() >= self._slow_until_us:
            return 0
        return self._rng.choice([20_000, 100_000, 400_000]) + self._rng.randrange(20_000)
