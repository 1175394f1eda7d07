"""A store in memory, whose failures are chosen by the test that owns it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

Operation: TypeAlias = Literal["put", "put_if_absent", "get", "list", "delete"]
Moment: TypeAlias = Literal["before", "within", "after"]

_TEMPORARY = ".tmp-"


class MemoryStore:
    """Keeps files in a dict. `on_access` is called before and after each operation, and within those
    that write. It raises an OSError to make the operation fail: raised "after", it has taken effect all
    the same; raised "within", half of the file is left under a temporary name, which nobody lists."""

    def __init__(self, on_access: Callable[[Moment, Operation, str], None] | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.on_access = on_access

    def put(self, path: str, data: bytes) -> None:
        self._access("before", "put", path)
        self._half_written("put", path, data)
        self._written(path, data)
        self._access("after", "put", path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._access("before", "put_if_absent", path)
        self._half_written("put_if_absent", path, data)
        absent = path not in self.files
        if absent:
            self._written(path, data)
        self._access("after", "put_if_absent", path)
        return absent

    def get(self, path: str) -> bytes:
        self._access("before", "get", path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def unfinished(self, prefix: str, idle_s: int = 0) -> list[str]:
        """Their age is not known: those that must be idle for a time are not among them."""
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

    # --- the effects --------------------------------------------------------------------------------

    def _written(self, path: str, data: bytes) -> None:
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
