"""The wall clock may be set while a job runs: what measures a duration reads the monotonic clock."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "rheos"
READS = re.compile(r"\btime\.time(?:_ns)?\(|\.now_(?:ms|ns)\(\)|datetime\.now\(")
PARTS_OF_THEIR_OWN = ("testing/", "cli/benchmarks/", "runtimes/simulated/")
WALL_TIME = {
    "cli/logs.py": "times of events, for display",
    "cli/main.py": "the time of a line of progress, for display",
    "cli/status.py": "the watermark's lag, which is a difference to wall time",
    "cli/jobs.py": "since when a request waits, for display",
    "connectors/datagen.py": "the start of the times of rows, which are values",
    "connectors/generator.py": "due times of rows, which are values",
    "connectors/postgres/replication.py": "a time that the protocol sends",
    "connectors/postgres/snapshot.py": "the commit time of rows, which is a value",
    "connectors/mysql/log_reading.py": "the commit time of rows of the snapshot, which is a value",
    "connectors/hbase/sink.py": "the timestamps of cells, which are values",
    "connectors/delta/delta_log.py": "the time of a file in the table's log, for other programs",
    "connectors/table_log/compactor.py": "a file's age, by its time in the table's log",
    "connectors/table_log/expirer.py": "a version's age, by its time in the table's log",
    "connectors/spark/stream_query.py": "the age of staged files, across processes",
    "ops/control/alert_webhook.py": "the time of an alert, for display",
    "ops/control/controlled_jobs.py": "the time of the start, for display",
    "ops/control/driver_note.py": "the time of a renewal, for display",
    "ops/control/job_list.py": "the time of the question, for display",
    "ops/control/registry.py": "the time of the end, for display",
    "ops/openlineage/emitter.py": "the time of an event, for display",
    "ops/control/standby_driver.py": "the time of the start, for display",
    "ops/dashboard/access.py": "times of audit entries, for display",
    "ops/dashboard/served_jobs.py": "the time of the answer, for display",
    "ops/debugging/replica.py": "the time of a checkpoint, to which virtual time is set",
    "ops/debugging/sink_path.py": "the time of a replay, to which virtual time is set",
    "ops/lineage/traced_run.py": "the virtual time of a replay, which a test repeats",
    "runtimes/driver/master.py": "times of log entries and metrics, for display",
    "runtimes/views/feature_answers.py": "the age of values, which have event times",
    "runtimes/host/io.py": "the clock itself",
    "runtimes/host/sockets.py": "a file's age, by its time of change",
    "runtimes/host/stores.py": "a file's age, by its time of change",
    "core/operators/automatic_rows.py": "processing time, for functions",
    "core/operators/calls.py": "processing time, for functions",
    "core/operators/changelog/rekeying.py": "TTL by processing time, across restarts",
    "core/operators/event_time.py": "event time by processing time",
    "core/operators/ingestion_time.py": "ingestion time, which never goes back",
    "core/operators/once_operator.py": "a timer by processing time that is due at once",
    "core/operators/source.py": "event time by processing time",
    "core/operators/window/processing_time.py": "processing time, by which windows are assigned",
    "core/operators/window/triggers/operator.py": "processing time, by which windows are assigned",
    "runtimes/batch/lazy_dataframes.py": "the first attempt's number",
    "runtimes/batch/runtime.py": "the first attempt's number, and a time for display",
    "ops/savepoints/writing.py": "the time of a savepoint, for display",
    "runtimes/spark/class_archive.py": "a file's age, by its time of change",
    "core/state/kinds/expiring.py": "TTL by processing time, across restarts",
    "core/state/scope.py": "TTL by processing time, across restarts",
    "core/task/chain.py": "timers by processing time",
    "core/task/engine.py": "timers by processing time",
    "core/task/latency.py": "latency marks, across processes",
    "core/task/plan_driver.py": "timers by processing time",
}
"""Modules that read the wall clock, with the reason why the monotonic one would not do."""


def test_the_wall_clock_is_read_only_where_its_time_is_meant() -> None:
    """A module that is new here: does it measure a duration in one process? Use `monotonic_us`."""
    found = {
        name
        for path in SOURCE.rglob("*.py")
        if not (name := path.relative_to(SOURCE).as_posix()).startswith(PARTS_OF_THEIR_OWN)
        and READS.search(path.read_text())
    }
    assert found == set(WALL_TIME)
