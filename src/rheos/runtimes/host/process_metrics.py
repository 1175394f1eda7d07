"""Readings of a worker's process: memory, processor time, garbage collection."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import psutil

from rheos.connectors.calls.bounded_calls import UNDER_WAY
from rheos.connectors.calls.store_retries import STORE_RETRIES
from rheos.connectors.table_log.maintenance_counts import (
    COMPACTED_BYTES,
    COMPACTED_FILES,
    COMPACTIONS_GIVEN_UP,
    EXPIRED_FILES,
)
from rheos.connectors.unreachable_servers import SERVERS_AWAY
from rheos.core.metrics import declarations as f
from rheos.core.metrics.declarations import Metric
from rheos.core.protocol.ports import ThreadTime
from rheos.core.protocol.readings import Reading
from rheos.runtimes.host.memory_room import memory_room


class OwnThreadTime:
    """Processor time of the thread that creates it. The creator must close it."""

    def __init__(self) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def __call__(self) -> ThreadTime | None:
        if self._file is None:
            return None
        try:
            ran_ns, queued_ns, _ = os.pread(self._file, 128, 0).split()
            return ThreadTime(int(ran_ns) // 1000, int(queued_ns) // 1000)
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Close the file. May be called again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


_LONG_WAIT_S = 2.0
_CALL_CHARS = 300


class ProcessMetrics:
    """The readings of a process since this object was made. One exists per process; each report calls
    it."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._cpu_s = time.process_time()
        self._gc_began_ns = 0
        self._gc_ns = 0
        self._gc_runs = 0
        gc.callbacks.append(self._collecting)

    def _collecting(self, phase: str, _info: Mapping[str, Any]) -> None:
        if phase == "start":
            self._gc_began_ns = time.perf_counter_ns()
        else:
            self._gc_ns += time.perf_counter_ns() - self._gc_began_ns
            self._gc_runs += 1

    def __call__(self) -> list[Reading]:
        return [
            *_server_wait(f.SERVER_WAIT),
            *_servers_away(),
            *STORE_RETRIES.readings(f.STORE_RETRIES),
            *_memory(),
            Reading(f.CPU.name, (), (time.process_time() - self._cpu_s) * 1000),
            Reading(f.MEMORY.name, (), self._process.memory_info().rss),
            Reading(f.GC_RUNS.name, (), self._gc_runs),
            Reading(f.GC_TIME.name, (), self._gc_ns / 1e6),
        ]

    def close(self) -> None:
        gc.callbacks.remove(self._collecting)


def _servers_away() -> list[Reading]:
    return [
        Reading(f.SERVER_AWAY.name, (what[:_CALL_CHARS],), away_s * 1000)
        for what, away_s in SERVERS_AWAY.waits()
    ]


def _memory() -> list[Reading]:
    room = memory_room()
    return [
        Reading(f.MEMORY_USED.name, (), room.used_bytes),
        Reading(f.MEMORY_LIMIT.name, (), room.limit_bytes),
    ]


def driver_readings() -> list[Reading]:
    """Return the metrics of the driver's process: the call that waits longest for a server, the
    repeated requests to object stores, and the compactions and expiries of tables."""
    return [
        *_server_wait(f.DRIVER_WAIT),
        *STORE_RETRIES.readings(f.DRIVER_STORE_RETRIES),
        *COMPACTED_FILES.readings(f.COMPACTED_FILES),
        *COMPACTED_BYTES.readings(f.COMPACTED_BYTES),
        *COMPACTIONS_GIVEN_UP.readings(f.COMPACTIONS_GIVEN_UP),
        *EXPIRED_FILES.readings(f.EXPIRED_FILES),
    ]


def _server_wait(metric: Metric) -> list[Reading]:
    longest = UNDER_WAY.longest_wait()
    if longest is None or longest[1] < _LONG_WAIT_S:
        return []
    call, wait_s = longest
    return [Reading(metric.name, (call[:_CALL_CHARS],), wait_s * 1000)]
