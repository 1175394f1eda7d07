"""Assignment of key groups to an operator's subtasks: group * parallelism // max_parallelism."""

from __future__ import annotations


def owner_of(group: int, parallelism: int, max_parallelism: int) -> int:
    """Return the subtask that owns a group, as `state.key_groups.subtask_of` does for arrays."""
    return group * parallelism // max_parallelism


def group_range(subtask: int, parallelism: int, max_parallelism: int) -> range:
    """Return the groups that a subtask owns; none if its number is beyond the operator's
    parallelism."""
    return range(
        min(-(-subtask * max_parallelism // parallelism), max_parallelism),
        min(-(-(subtask + 1) * max_parallelism // parallelism), max_parallelism),
    )
