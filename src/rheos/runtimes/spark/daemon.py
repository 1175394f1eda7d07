"""The process from which Spark forks the Python workers of a session that Rheos has made.

It is PySpark's own daemon, and has imported beforehand what a slot of a job needs: a fresh worker
starts in milliseconds, where imports took a second or more. Nothing but imports happens before the
fork: the thread pools of Polars and Arrow begin with their first use, which must be the worker's.

Spark starts it when the first task waits for it. One that was started before, with `--ahead PLACE`
(`daemon_ahead`), has its imports behind it by then, and takes over.

Another is chosen by `spark.python.daemon.module`; `pyspark.daemon` is Spark's default.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from importlib.machinery import PathFinder

from rheos.runtimes.spark import daemon_handover
from rheos.runtimes.spark.worker_exits import report_exits

_BEFOREHAND = (
    "pyspark.worker",
    "rheos.runtimes.continuous.worker",
    "pandas",  # Functions on its frames need it.
)


def import_beforehand() -> None:
    for module in _BEFOREHAND:
        # What cannot be imported here fails in the worker, where the error reaches the user.
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    # The collector would write to pages that all workers share.
    gc.collect()
    gc.freeze()


def prefer_installed_pyspark() -> None:
    """Spark puts PySpark's zip first in the path, and Python compiles that anew at each start, which
    takes a second. Where it belongs to the PySpark that is installed here, that one is the same."""
    home = os.environ.get("SPARK_HOME", "")
    zipped = os.path.join(home, "python", "lib", "pyspark.zip")
    others = [path for path in sys.path if path != zipped]
    installed = PathFinder.find_spec("pyspark", others)
    if installed is not None and home in (installed.submodule_search_locations or ()):
        sys.path[:] = others


def main() -> None:
    if sys.argv[1] == "--ahead":
        if not daemon_handover.stands_in(sys.argv[2], import_beforehand):
            return
    elif daemon_handover.another_stands_in():
        return
    else:
        prefer_installed_pyspark()
        import_beforehand()
    from pyspark import daemon

    report_exits(daemon)
    daemon.manager()


if __name__ == "__main__":
    main()
