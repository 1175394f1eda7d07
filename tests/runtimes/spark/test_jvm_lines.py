"""Lines of a JVM's stderr that belong to its log, and lines printed by programs."""

from __future__ import annotations

import logging

from rheos.runtimes.spark.jvm import JvmLines


def test_log_lines_of_the_jvm_are_recognised() -> None:
    lines = JvmLines()
    trace = "\tat org.apache.spark.scheduler.Task.run(Task.scala:1)"
    assert lines.level("WARNING: Using incubator modules: jdk.incubator.vector") == (
        logging.INFO,
        "WARNING: Using incubator modules: jdk.incubator.vector",
    )
    warned = lines.level("26/11/26 21:24:50 WARN NativeCodeLoader: Unable to load native-hadoop")
    assert warned == (logging.WARNING, "NativeCodeLoader: Unable to load native-hadoop")
    assert lines.level("26/11/26 21:24:50 ERROR TaskSetManager: Task 1 failed") == (
        logging.ERROR,
        "TaskSetManager: Task 1 failed",
    )
    assert lines.level(trace) == (logging.ERROR, trace)
    assert lines.level("printed by a function") is None
    assert lines.level(trace) is None, "of a program's own traceback"
    assert lines.level("") is None
