"""The processor time of a process and of all that it has started."""

from __future__ import annotations

import psutil


def processor_s(process: psutil.Process) -> float:
    """Up to now. Those that have ended count with the process that started them."""
    total = 0.0
    for each in [process, *process.children(recursive=True)]:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
