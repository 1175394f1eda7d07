"""The process from which Spark forks the Python workers of a session that Rheos has made.

It is PySpark's own daemon, and has already imported what a slot of a job needs. So a new worker starts
in milliseconds, whereas the imports take a second or more. Nothing but imports happens before the fork:
the thread pools of Polars and Arrow start at their first use, which must be in the worker.

Spark starts the daemon when the first task waits for it. A daemon that Rheos started earlier, with
`--ahead PLACE` (`early_daemon`), has finished its imports by then, and takes over.

`spark.python.daemon.module` selects another daemon; `pyspark.daemon` is Spark's default.
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
    "pandas",  # Functions on pandas frames need it.
)


def import_beforehand() -> None:
    gc.disable()  # Imports leave little garbage. Searching for it takes a tenth of their time.
    for module in _BEFOREHAND:
        # If an import fails here, it fails again in the worker, whose error reaches the user.
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    # A collection would write to pages that all workers share.
    gc.collect()
    gc.freeze()
    gc.enable()


def prefer_installed_pyspark() -> None:
    """Remove PySpark's zip from the path if it belongs to the PySpark that is installed here. Spark
    puts it first, and Python compiles it anew at each start, which takes a second."""
    home = os.environ.get("SPARK_HOME", "")
    zipped = os.path.join(home, "python", "lib", "pyspark.zip")
    others = [path for path in sys.path if path != zipped]
    installed = PathFinder.find_spec("pyspark", others)
    if installed is not None and home in (installed.submodule_search_locations or ()):
        sys.path[:] = others


def main() -> None:
    if sys.argv[1:2] == ["--ahead"]:
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
