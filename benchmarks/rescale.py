"""How long a running job takes to go on with another parallelism, and where it goes.

usage: python benchmarks/rescale.py [TIMES]

The job of `restart.py`, a keyed function with small state that is fed without end, is rescaled from 2
slots to 4 and back. Times are on one clock, which all processes of a machine share. The parts follow
one another:

    checkpointed   the checkpoint for it is in the log, and the master has ended the attempt
    connected      Spark has placed the tasks of the next one, and all of them have joined
    restored       every subtask has its state and is open
    first record   every subtask has processed a record after the checkpoint
    answered       `rescale` has returned: the job runs
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from threading import Thread

from restart import noted, running, show, submit, until

import rheos as rh

NARROW, WIDE = 2, 4


def parts(job: rh.JobHandle, notes: Path, attempt: int, parallelism: int) -> dict[str, float]:
    """Seconds from the request to the end of each part."""
    for file in notes.iterdir():
        file.unlink()
    answered: list[float] = []

    def rescale() -> None:
        job.rescale(parallelism)
        answered.append(time.monotonic())

    asked = time.monotonic()
    waiting = Thread(target=rescale)
    waiting.start()
    at = {"checkpointed": until(lambda: not running(job, attempt - 1))}
    at["connected"] = until(lambda: running(job, attempt))
    until(lambda: len(noted(notes, "first")) == parallelism)
    at["restored"] = max(noted(notes, "open"))
    at["first record"] = max(noted(notes, "first"))
    waiting.join()
    at["answered"] = answered[0]
    return {part: moment - asked for part, moment in at.items()}


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    runs: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        job, notes, _ = submit(folder, NARROW, slots=WIDE)
        until(lambda: len(noted(notes, "first")) == NARROW)
        until(lambda: job.status().checkpoints_completed >= 3)
        for number in range(2 * times):
            width = NARROW if number % 2 else WIDE
            way = f"{NARROW + WIDE - width} slots to {width}"
            runs.setdefault(way, []).append(parts(job, notes, number + 2, width))
            done = job.status().checkpoints_completed
            until(lambda done=done: job.status().checkpoints_completed > done)  # type: ignore[misc]
        job.cancel()
    print(f"{times} times each way; seconds, median (least to most)")
    for way, found in runs.items():
        print(f"{way:<32}        after it   of which this part")
        before = [0.0] * times
        for part in sorted(found[0], key=lambda part: median(at[part] for at in found)):
            moments = [at[part] for at in found]
            steps = [moment - last for moment, last in zip(moments, before, strict=True)]
            show(f"  {part}", moments, f"{median(steps):10.2f}")
            before = moments


if __name__ == "__main__":
    main()
