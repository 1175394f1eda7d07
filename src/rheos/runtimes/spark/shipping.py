"""Sends code to Spark's Python workers, and receives their errors."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rheos.connectors.spark.workers import module_absent, module_lacking
from rheos.core.errors import JobFailedError, RheosError, WorkerLostError
from rheos.core.protocol import error_data
from rheos.core.protocol.error_data import ErrorData
from rheos.runtimes.host.process_ends import os_exit_raises as os_exit_raises
from rheos.runtimes.spark.jvm import spark_ended

WorkerTask = Callable[[Iterable[Any]], Iterator[Any]]

_MARK = re.compile(r"rheos-error:([A-Za-z0-9+/=]+):rheos-error")
_CRASHED = "Python worker exited unexpectedly"
_EXECUTOR_LOST = re.compile(r"ExecutorLostFailure \(.{0,1000}? Reason: (.{1,300})")
_TASK = re.compile(r"barrier task ResultTask\(\d+, (\d+)\)|Lost task (\d+)\.\d+ in stage")
"""Pattern of the number of the task that failed, which is the subtask's number."""
_ABSENT = re.compile(r"rheos-absent:([\w.]+) (.*?):rheos-absent")


def worker_task(entry: str, payload: bytes, *, readable: bool = False) -> WorkerTask:
    """Return a function for `mapInArrow`, or `mapPartitions`, that runs `entry`
    ("package.module:function") on the worker.

    `entry` is called with `payload` and the input: Arrow batches, or rows. The worker first receives
    the driver's `sys.path`, so that it finds modules next to the job file when it unpickles the
    payload. An error of `entry` reaches the driver in a form that `worker_error` reads. If it is to be
    `readable`, the error's own text precedes that form.
    """
    paths = [path for path in sys.path if path]

    # A nested function is pickled by value, so the worker needs no import to get it.
    def task(incoming: Iterable[Any]) -> Iterator[Any]:
        import importlib
        import sys

        sys.path.extend(path for path in paths if path not in sys.path)
        try:
            shipping = importlib.import_module("rheos.runtimes.spark.shipping")
            module, name = entry.split(":")
            run = getattr(importlib.import_module(module), name)
        except ImportError as error:
            # Rheos may be missing on this worker, so it cannot encode the error.
            raise RuntimeError(f"rheos-absent:{error.name} {sys.executable}:rheos-absent") from None
        try:
            with shipping.os_exit_raises():
                yield from run(payload, incoming)
        except ModuleNotFoundError as error:
            absent = shipping.module_absent(str(error.name), sys.executable)
            raise RuntimeError(shipping.sealed(absent)) from None
        except shipping.RheosError as error:
            text = f"{error}\n{shipping.sealed(error)}" if readable else shipping.sealed(error)
            raise RuntimeError(text) from None

    return task


def sealed(error: RheosError) -> str:
    """Return the error as a string that survives the JVM."""
    data = error_data.encode(ErrorData.of(error))
    return f"rheos-error:{base64.b64encode(data).decode()}:rheos-error"


def _unsealed(text: str) -> RheosError:
    """Decode an error. It is data, never code: the message of a user's error may look like ours."""
    try:
        return error_data.decoder.decode(base64.b64decode(text)).error()
    except ValueError as unreadable:
        return JobFailedError(f"a Spark task failed, and its error cannot be read: {unreadable}")


def worker_error(error: BaseException) -> RheosError:
    """Return the cause of an error that Spark raised: an error of a task, or the end of Spark. Any
    other error becomes a JobFailedError with the Python part of Spark's message."""
    if isinstance(error, RheosError):
        return error
    text = str(error)
    found = _MARK.search(text)
    if found:
        return _unsealed(found.group(1))
    ended = spark_ended(error)
    if ended is not None:
        return ended
    absent = _ABSENT.search(text)
    if absent:
        return module_absent(absent.group(1), absent.group(2))
    lacking = module_lacking(text)
    if lacking is not None:
        return lacking
    task = _TASK.search(text)
    subtask = None if task is None else int(task.group(1) or task.group(2))
    lost = _EXECUTOR_LOST.search(text)
    if lost or _CRASHED in text:
        return WorkerLostError(
            f"Spark lost an executor: {lost.group(1)}"
            if lost
            else f"worker {'of Spark' if subtask is None else subtask} lost: its process ended without "
            "an error of its own",
            subtask=subtask,
            hint="check whether it was killed, perhaps for its memory (see the system log), or "
            "whether the program or a library calls os._exit, or crashes",
        )
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("at ", "..."))]
    return JobFailedError(
        "a Spark task failed" if len(lines) > 1 else (text or type(error).__name__),
        detail="\n".join(lines) if len(lines) > 1 else None,
    )
