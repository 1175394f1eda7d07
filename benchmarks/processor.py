"""The processor time of a process and of all that it has started, together or each by itself."""

from __future__ import annotations

from collections.abc import Iterator

import psutil


def processor_s(process: psutil.Process) -> float:
    """Up to now. Those that have ended count with the process that started them."""
    return sum(used_s for _, used_s in by_process(process))


def by_process(process: psutil.Process) -> Iterator[tuple[psutil.Process, float]]:
    """Of each, the process itself first."""
    for each in [process, *process.children(recursive=True)]:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        yield each, times.user + times.system + times.children_user + times.children_system
