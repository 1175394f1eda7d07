"""Watches processes while something runs: their processor time and memory, over time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

import numpy as np
import psutil

_KEEPER = "keeper.py"
"""Script of the process that keeps a server of `rheos.ops.servers` running."""
_DAEMON = "rheos.runtimes.spark.daemon"


@dataclass(frozen=True)
class Sample:
    at_s: float
    """Since the sampler began."""
    cpu_s: float
    """Processor time since then, of the process and all below it, without that of the sampler."""
    rss_mib: dict[int, float]
    """Memory by process id."""
    measurements: dict[str, float] = field(default_factory=dict)
    """What the caller's `also` gave."""


class Sampler:
    """Takes samples in a thread, from `with` to its end. One sampler watches one process tree: by
    default this process, with Spark's JVM and the workers, which are below it. A broker or another
    server that was started for the experiment is left out.

    ```python
    with Sampler(every_s=0.5, also=lambda: {"records": job.status().records_per_s}) as sampler:
        job.wait()
    plot([each.at_s for each in sampler.samples], ...)
    ```
    """

    def __init__(
        self,
        every_s: float = 0.5,
        also: Callable[[], dict[str, float]] | None = None,
        process: psutil.Process | None = None,
    ) -> None:
        self.samples: list[Sample] = []
        self._process = process or psutil.Process()
        self._every_s = every_s
        self._also = also or dict
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._began = time.perf_counter()
        self.began_ns = time.time_ns()
        self._used_s: dict[tuple[int, float], float] = {}
        """The processor time of each process that was ever seen, when it was seen last: what has ended
        has still been used."""
        self._cpu_s = self._used(self._watched())
        self._watches_itself = self._process.pid == os.getpid()
        self._looked_s = 0.0
        """Processor time of all looks so far."""

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.look()

    def cpu_between(self, begins_ns: int, ends_ns: int) -> float:
        """Processor seconds between two moments since the epoch, by the samples around them."""
        at = [(moment - self.began_ns) / 1e9 for moment in (begins_ns, ends_ns)]
        begin, end = np.interp(at, *zip(*((s.at_s, s.cpu_s) for s in self.samples), strict=True))
        return float(end - begin)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self.look()

    def look(self) -> None:
        """Takes a sample now."""
        began_s = time.thread_time()
        self.samples.append(self._sample())
        if self._watches_itself:
            self._looked_s += time.thread_time() - began_s

    def _sample(self) -> Sample:
        watched = self._watched()
        return Sample(
            at_s=round(time.perf_counter() - self._began, 2),
            cpu_s=round(self._used(watched) - self._cpu_s - self._looked_s, 2),
            rss_mib={each.pid: rss for each in watched if (rss := _rss_mib(each)) is not None},
            measurements=self._also(),
        )

    def _used(self, watched: list[psutil.Process]) -> float:
        """Processor seconds up to now of all that was ever seen. What a process uses between the last
        look and its end is left out."""
        for each in watched:
            try:
                times = each.cpu_times()
                self._used_s[each.pid, each.create_time()] = times.user + times.system
            except psutil.NoSuchProcess:
                continue
        return sum(self._used_s.values())

    def _watched(self) -> list[psutil.Process]:
        """The process and all below it, but no server that it has started for the experiment. None
        after the process has ended."""
        try:
            children = self._process.children()
        except psutil.NoSuchProcess:
            return []
        found = [self._process]
        for child in children:
            try:
                if any(part.endswith(_KEEPER) for part in child.cmdline()):
                    continue
                found += [child, *child.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
        return found


def workers(process: psutil.Process | None = None) -> list[psutil.Process]:
    """The Python workers of Spark below a process: what its daemon has forked."""
    found = []
    for each in (process or psutil.Process()).children(recursive=True):
        try:
            parent = each.parent()
            if parent is not None and _DAEMON in each.cmdline() and _DAEMON in parent.cmdline():
                found.append(each)
        except psutil.NoSuchProcess:
            continue
    return found


def _rss_mib(process: psutil.Process) -> float | None:
    try:
        return round(process.memory_info().rss / 2**20, 1)
    except psutil.NoSuchProcess:
        return None
