"""Policy of compaction, and the choice of the data files that one compaction replaces.

```python
policy = compaction(below="32MB", files=3)
small = [LiveFile(f"{n}.parquet", 1000) for n in range(3)]
assert chosen_files(small, policy, now_ms=0) == small
```
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rheos.connectors.files.sink import ROLL_BYTES
from rheos.connectors.table_log.maintenance_policy import MaintenancePolicy, check_count
from rheos.connectors.table_log.table_files import LiveFile
from rheos.core.errors import ProgramError
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.sizes import size_bytes

MOST_FILES = 1000
"""Maximum number of data files that one compaction replaces."""


@dataclass(frozen=True, kw_only=True)
class Compaction(MaintenancePolicy):
    """Policy of compaction; see `compaction`."""

    below_bytes: int
    files: int
    quiet_ms: int
    at_most_bytes: int


def compaction(
    *,
    below: str | int = "32MB",
    files: int = 10,
    quiet: Duration = "1h",
    at_most: str | int = "256MB",
    every: int = 10,
) -> Compaction:
    """Return a policy by which the sink of a table merges small data files.

    ```python
    orders.sink_to(rh.delta.sink("lake/orders", compact=rh.compaction(files=20)))
    ```

    Args:
        below: the size below which a data file is small, at most 128 MB.
        files: the number of small files of a partition that are merged. Their sizes differ by less
            than this factor, so that a row is rewritten only a few times until its file is large.
        quiet: the time without a new file in a partition after which all its small files are merged.
        at_most: the total size of the files that one compaction replaces.
        every: the number of checkpoints between two compactions. Each one lists all files of the table.

    Returns:
        The policy.

    Raises:
        ProgramError: A number, size or duration is invalid.
    """
    check_count("files", files, 2)
    check_count("every", every, 1)
    below_bytes, at_most_bytes, quiet_ms = size_bytes(below), size_bytes(at_most), duration_ms(quiet)
    if not 0 < below_bytes <= ROLL_BYTES:
        raise ProgramError(
            f"below={below!r} is not a size of at most 128MB, which is that of full data files",
            hint='write below="32MB"',
        )
    if at_most_bytes < 2 * below_bytes:
        raise ProgramError(
            f"at_most={at_most!r} is less than two files of the size below={below!r}",
            hint='write at_most="256MB"',
        )
    if quiet_ms <= 0:
        raise ProgramError(f"quiet={quiet!r} is not a positive duration", hint='write quiet="1h"')
    return Compaction(
        every=every,
        below_bytes=below_bytes,
        files=files,
        quiet_ms=quiet_ms,
        at_most_bytes=at_most_bytes,
    )


def chosen_files(live: Sequence[LiveFile], policy: Compaction, now_ms: int) -> list[LiveFile]:
    """Return the files that a compaction replaces, those of each partition together. The list may be
    empty.

    Args:
        live: the data files of a version.
        policy: the policy.
        now_ms: the current time.
    """
    partitions: dict[Any, list[LiveFile]] = defaultdict(list)
    for file in live:
        if file.partition is not None:
            partitions[file.partition].append(file)
    groups: list[list[LiveFile]] = []
    for files in partitions.values():
        small = [file for file in files if file.size_bytes < policy.below_bytes]
        if all(file.written_ms <= now_ms - policy.quiet_ms for file in files):
            groups.append(small)
        else:
            groups += [each for each in _similar(small, policy) if len(each) >= policy.files]
    chosen: list[LiveFile] = []
    room = policy.at_most_bytes
    for group in sorted(groups, key=len, reverse=True):
        taken: list[LiveFile] = []
        left = room
        for file in sorted(group, key=lambda each: (each.written_ms, each.path)):
            if file.size_bytes <= left and len(chosen) + len(taken) < MOST_FILES:
                taken.append(file)
                left -= file.size_bytes
        if len(taken) > 1:
            chosen += taken
            room = left
    return chosen


def _similar(small: Sequence[LiveFile], policy: Compaction) -> list[list[LiveFile]]:
    """Return groups of files whose sizes differ by less than the factor `policy.files`."""
    groups: dict[int, list[LiveFile]] = defaultdict(list)
    for file in small:
        tier, size = 0, file.size_bytes
        while size >= policy.files:
            tier, size = tier + 1, size // policy.files
        groups[tier].append(file)
    return list(groups.values())
