"""The owner of a key group among an operator's subtasks: group * parallelism // max_parallelism."""

from __future__ import annotations


def owner_of(group: int, parallelism: int, max_parallelism: int) -> int:
    """The subtask that owns a group. `state.key_groups.subtask_of` is the same for whole arrays."""
    return group * parallelism // max_parallelism


def group_range(subtask: int, parallelism: int, max_parallelism: int) -> range:
    """The groups that a subtask owns: none, where it is beyond the operator's parallelism."""
    return range(
        min(-(-subtask * max_parallelism // parallelism), max_parallelism),
        min(-(-(subtask + 1) * max_parallelism // parallelism), max_parallelism),
    )
