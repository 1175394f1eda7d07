"""A folder of a store as a store of its own: where a simulated world's savepoints go."""

from __future__ import annotations

from rheos.core.protocol.ports import Store


class StoreFolder:
    """A folder of a store. It has the faults of that store."""

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self._prefix = f"{path.strip('/')}/"

    def put(self, path: str, data: bytes) -> None:
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
