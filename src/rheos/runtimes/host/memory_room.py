"""The memory that the processes of this container or machine may use, and the memory that they use.

The kernel kills a process when its control group has reached its limit, or when the machine has no
memory left. The limit of a group also covers its child groups, so the tightest group decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path("/")


class MemoryRoom(NamedTuple):
    used_bytes: int
    """Memory in use, without file pages that the kernel can drop at once."""
    limit_bytes: int

    @property
    def share(self) -> float:
        return self.used_bytes / self.limit_bytes


@dataclass(frozen=True)
class _Version:
    """File names of one version of control groups."""

    below: str
    limit: str
    usage: str
    droppable: str
    """Line of `memory.stat` with the file pages that were not used lately."""
    events: str
    """File that contains the line `oom_kill`."""


_V2 = _Version("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "memory.events")
_V1 = _Version(
    "sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file",
    "memory.oom_control",
)


def memory_limit(root: Path = ROOT) -> int:
    """Return the memory that this process and its neighbours may use, in bytes: the tightest limit of
    its control groups, or the memory of the machine if that is less."""
    return min([limit for _, _, limit in _limits(root)], default=_machine().total)


def memory_room(root: Path = ROOT) -> MemoryRoom:
    """Return use and limit of the group, or of the machine, that has the least memory left."""
    machine = _machine()
    rooms = [MemoryRoom(machine.total - machine.available, machine.total)]
    for version, group, limit in _limits(root):
        used = _number(group / version.usage)
        if used is not None:
            droppable = _counts(group / "memory.stat").get(version.droppable, 0)
            rooms.append(MemoryRoom(max(0, used - droppable), limit))
    return min(rooms, key=lambda room: room.limit_bytes - room.used_bytes)


def oom_kills(root: Path = ROOT) -> int:
    """Return how many processes the kernel has killed for lack of memory: in this process's control
    groups if they have a limit, else on the machine. Return 0 if the system does not report it."""
    groups = list(_limits(root))
    if groups:
        return max(_counts(group / version.events).get("oom_kill", 0) for version, group, _ in groups)
    return _counts(root / "proc/vmstat").get("oom_kill", 0)


def _limits(root: Path) -> Iterator[tuple[_Version, Path, int]]:
    """Yield the groups of this process that have a limit below the memory of the machine."""
    most = _machine().total
    for version, group in _groups(root):
        limit = _number(group / version.limit)
        if limit is not None and limit < most:
            yield version, group, limit


def _groups(root: Path) -> Iterator[tuple[_Version, Path]]:
    """Yield the groups of this process, from its own to the outermost visible one. In a container, that
    is the container's own group, although the listed path may be the one on the host."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        version = _V2 if not controllers else _V1 if "memory" in controllers.split(",") else None
        if version is None:
            continue
        mounted = root / version.below
        group = Path(*(part for part in path.split("/") if part and part != ".."))
        for each in (group, *group.parents):
            if (mounted / each).is_dir():
                yield version, mounted / each


def _machine() -> Any:
    """Return the memory of the machine, as psutil reports it."""
    import psutil  # Simulated jobs import this module, but need no psutil.

    return psutil.virtual_memory()


def _number(file: Path) -> int | None:
    """Return the number in a file; None if the file cannot be read, or contains "max"."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _counts(file: Path) -> Mapping[str, int]:
    """Return the numbers in a file, by name. Each line has a name and a number."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}
