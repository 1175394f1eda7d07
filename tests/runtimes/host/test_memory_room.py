"""Limits of control groups, of both versions, in containers and on machines."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from rheos.runtimes.host.memory_room import memory_limit, memory_room, oom_kills

MIB = 1 << 20
MACHINE = psutil.virtual_memory().total


def v1(root: Path, group: str, limit: object, usage: int, kills: int, droppable: int = 0) -> None:
    folder = root / "sys/fs/cgroup/memory" / group
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(f"inactive_file 5\ntotal_inactive_file {droppable}\n")
    (folder / "memory.oom_control").write_text(f"oom_kill_disable 0\noom_kill {kills}\n")


def v2(root: Path, group: str, limit: object, usage: int, kills: int, droppable: int = 0) -> None:
    folder = root / "sys/fs/cgroup" / group
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(f"file 7\ninactive_file {droppable}\n")
    (folder / "memory.events").write_text(f"oom 3\noom_kill {kills}\noom_group_kill 0\n")


def of_process(root: Path, line: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"7:cpu,cpuacct:/elsewhere\n{line}\n")


@pytest.mark.parametrize(("make", "line"), [(v1, "4:memory:/a/b"), (v2, "0::/a/b")])
def test_the_group_with_the_least_memory_left_decides(tmp_path: Path, make: object, line: str) -> None:
    assert callable(make)
    of_process(tmp_path, line)
    make(tmp_path, "a/b", 800 * MIB, 300 * MIB, 1, droppable=100 * MIB)
    make(tmp_path, "a", 500 * MIB, 450 * MIB, 4)
    assert memory_limit(tmp_path) == 500 * MIB
    assert memory_room(tmp_path) == (450 * MIB, 500 * MIB)
    assert memory_room(tmp_path).share == 0.9
    assert oom_kills(tmp_path) == 4
    make(tmp_path, "a", 500 * MIB, 450 * MIB, 4, droppable=440 * MIB)
    make(tmp_path, "a/b", 800 * MIB, 790 * MIB, 1)
    assert memory_room(tmp_path) == (790 * MIB, 800 * MIB), (
        "the least that is left, not the least limit"
    )


@pytest.mark.parametrize(("make", "line"), [(v1, "4:memory:/docker/1f"), (v2, "0::/../1f")])
def test_a_container_sees_its_own_group_as_the_outermost(
    tmp_path: Path, make: object, line: str
) -> None:
    assert callable(make)
    of_process(tmp_path, line)
    make(tmp_path, "", 64 * MIB, 60 * MIB, 2)
    assert (memory_limit(tmp_path), oom_kills(tmp_path)) == (64 * MIB, 2)


@pytest.mark.parametrize(("make", "line"), [(v1, "4:memory:/a"), (v2, "0::/a")])
def test_without_a_limit_the_machine_is_the_limit(tmp_path: Path, make: object, line: str) -> None:
    assert callable(make)
    of_process(tmp_path, line)
    make(tmp_path, "a", "max" if make is v2 else 9223372036854771712, 60 * MIB, 9)
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 7\noom_kill 3\n")
    assert (memory_limit(tmp_path), oom_kills(tmp_path)) == (MACHINE, 3)
    assert memory_room(tmp_path).limit_bytes == MACHINE


def test_without_control_groups_the_machine_is_the_limit(tmp_path: Path) -> None:
    assert (memory_limit(tmp_path), oom_kills(tmp_path)) == (MACHINE, 0)
    assert 0 < memory_room(tmp_path).share <= 1
