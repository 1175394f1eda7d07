"""A store in memory, whose failures are chosen by the test that owns it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

Operation: TypeAlias = Literal["put", "put_if_absent", "get", "list", "delete"]
Moment: TypeAlias = Literal["before", "after"]


class MemoryStore:
    """Keeps files in a dict. `on_access` is called before and after each operation, and raises an
    OSError to make it fail: raised "after", the operation has taken effect all the same."""

    def __init__(self, on_access: Callable[[Moment, Operation, str], None] | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.on_access = on_access

    def put(self, path: str, data: bytes) -> None:
        self._access("before", "put", path)
        self.files[path] = data
        self._access("after", "put", path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._access("before", "put_if_absent", path)
        absent = path not in self.files
        if absent:
            self.files[path] = data
        self._access("after", "put_if_absent", path)
        return absent

    def get(self, path: str) -> bytes:
        self._access("before", "get", path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def list(self, prefix: str) -> list[str]:
        self._access("before", "list", prefix)
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        return sorted(path for path in self.files if path.startswith(folder))

    def delete(self, path: str) -> None:
        self._access("before", "delete", path)
        self.files.pop(path, None)
        self._access("after", "delete", path)

    def _access(self, moment: Moment, operation: Operation, path: str) -> None:
        if self.on_access is not None:
            self.on_access(moment, operation, path)
