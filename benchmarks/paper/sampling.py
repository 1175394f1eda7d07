"""Watches processes while something runs: their processor time and memory, over time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

import numpy as np
import psutil

from benchmarks.processor import processor_s


@dataclass(frozen=True)
class Sample:
    at_s: float
    """Since the sampler began."""
    cpu_s: float
    """Processor time since then, of the process and all below it."""
    rss_mib: dict[int, float]
    """Memory by process id: of the process, and of each below it."""
    figures: dict[str, float] = field(default_factory=dict)
    """What the caller's `also` gave."""


class Sampler:
    """Takes samples in a thread, from `with` to its end. One sampler watches one process tree: by
    default this process, with Spark's JVM and the workers, which are below it.

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
        self._cpu_s = processor_s(self._process)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.samples.append(self._sample())

    def cpu_between(self, begins_ns: int, ends_ns: int) -> float:
        """Processor seconds between two moments since the epoch, by the samples around them."""
        at = [(moment - self.began_ns) / 1e9 for moment in (begins_ns, ends_ns)]
        begin, end = np.interp(at, *zip(*((s.at_s, s.cpu_s) for s in self.samples), strict=True))
        return float(end - begin)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self.samples.append(self._sample())

    def _sample(self) -> Sample:
        memory = {}
        for each in [self._process, *self._process.children(recursive=True)]:
            try:
                memory[each.pid] = round(each.memory_info().rss / 2**20, 1)
            except psutil.NoSuchProcess:
                continue
        return Sample(
            at_s=round(time.perf_counter() - self._began, 2),
            cpu_s=round(processor_s(self._process) - self._cpu_s, 2),
            rss_mib=memory,
            figures=self._also(),
        )
