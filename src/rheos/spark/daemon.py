"""The process from which Spark forks the Python workers of a session that Rheos has made.

It is PySpark's own daemon, and has imported beforehand what a slot of a job needs: a fresh worker
starts in milliseconds, where imports took a second or more. Nothing but imports happens before the
fork: the thread pools of Polars and Arrow begin with their first use, which must be the worker's.

Another is chosen by `spark.python.daemon.module`; `pyspark.daemon` is Spark's default.
"""

from __future__ import annotations

import contextlib
import gc
import importlib

from pyspark.daemon import manager

_BEFOREHAND = ("pandas", "pyspark.worker", "rheos.runtimes.continuous.worker")


def import_beforehand() -> None:
    for module in _BEFOREHAND:
        # What cannot be imported here fails in the worker, where the error reaches the user.
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    # The collector would write to pages that all workers share.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    import_beforehand()
    manager()
