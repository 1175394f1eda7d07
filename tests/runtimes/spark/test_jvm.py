"""The JVM of Spark's driver: its memory, and the error when it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from rheos.core.errors import ConfigurationError, InputError
from rheos.runtimes.spark import jvm_options
from rheos.runtimes.spark.jvm import check_jvm
from rheos.runtimes.spark.jvm_options import heap_bytes, memory_settings
from rheos.runtimes.spark.shipping import worker_error

GIB = 1 << 30


@pytest.mark.parametrize(
    ("machine", "heap"), [(2 * GIB, GIB), (8 * GIB, 2 * GIB), (24 * GIB, 6 * GIB), (512 * GIB, 8 * GIB)]
)
def test_the_heap_is_a_quarter_of_the_machine_within_bounds(machine: int, heap: int) -> None:
    assert heap_bytes(machine) == heap


def test_the_users_memory_settings_take_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_options, "memory_limit", lambda: 16 * GIB)
    nothing = {"SPARK_CONF_DIR": str(tmp_path)}
    assert memory_settings(nothing) == {"spark.driver.memory": "4096m"}
    assert memory_settings(nothing | {"SPARK_DRIVER_MEMORY": "2g"}) == {}
    for given in ("--driver-memory 2g pyspark-shell", "--conf spark.driver.memory=2g pyspark-shell"):
        assert memory_settings(nothing | {"PYSPARK_SUBMIT_ARGS": given}) == {}
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("# spark.driver.memory 5g\n")
    assert memory_settings(nothing) == {"spark.driver.memory": "4096m"}
    defaults.write_text("spark.driver.memory 5g\n")
    assert memory_settings(nothing) == {}


class Ended:
    """Stand-in for the process of a JVM, and for the gateway to it."""

    def __init__(self, code: int | None) -> None:
        self.proc = self
        self.code = code

    def poll(self) -> int | None:
        return self.code

    def wait(self, timeout: float) -> int:
        if self.code is None:
            raise subprocess.TimeoutExpired("java", timeout)
        return self.code


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (52, "it ran out of memory"),
        (-9, "it was killed, which the system does when memory is short"),
        (1, "its exit code is 1"),
    ],
)
def test_the_end_of_the_jvm_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, code: int, why: str
) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", Ended(code))
    for raised in (ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("empty")):
        error = worker_error(raised)
        assert error.what == f"the JVM of Spark's driver has ended, which ends the job: {why}"
        assert error.hint is not None
        assert "spark.driver.memory" in error.hint
    with pytest.raises(ConfigurationError, match=why):
        check_jvm()


@pytest.mark.parametrize(
    "text",
    [
        "Job 1 cancelled because SparkContext was shut down",
        "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
    ],
)
def test_the_end_of_the_application_is_one_clear_error(text: str) -> None:
    error = worker_error(RuntimeError(f"An error occurred while calling o1.collect\n: {text}"))
    assert error.what == "Spark's application has ended, which ends the job"


def test_other_errors_are_unchanged_while_the_jvm_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", Ended(None))
    own = InputError("a file is missing")
    assert worker_error(own) is own
    assert "has ended" not in worker_error(ValueError("text")).what
    check_jvm()


PROGRAM = dedent("""
    import os
    import sys

    import psutil
    import rheos as rh

    DRIVER = os.getpid()

    def strike(row):
        for child in psutil.Process(DRIVER).children():
            if child.name() == "java":
                child.kill()
        return row

    env = rh.Environment(1, runtime=sys.argv[1])
    # A continuous job that is done needs no JVM: this one never is.
    count = 1 if sys.argv[1] == "batch" else None
    rows = env.from_source(
        rh.generator(lambda block: {"n": block.index()}, count=count, rate_per_s=10, splits=1)
    )
    for attempt in (1, 2):
        rows.map(strike, returns={"n": int}).collect("rows")
        try:
            env.execute("struck")
        except rh.RheosError as error:
            print(attempt, type(error).__name__, error.what, flush=True)
""")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["batch", "continuous"])
def test_a_killed_jvm_ends_the_job_with_its_cause(runtime: str, tmp_path: Path) -> None:
    program = tmp_path / "struck.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), runtime],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    said = done.stdout.splitlines()
    assert said == [
        "1 JobFailedError the JVM of Spark's driver has ended, which ends the job: "
        "it was killed, which the system does when memory is short",
        "2 ConfigurationError the JVM of Spark's driver has ended: "
        "it was killed, which the system does when memory is short",
    ], done.stderr


STOPPED = dedent("""
    import sys
    import time

    from pyspark import SparkContext
    import rheos as rh

    env = rh.Environment(1, runtime="continuous", restart=rh.restart.fixed_delay(1000, delay="100ms"))
    rows = env.from_source(rh.generator(lambda block: {"n": block.index()}, rate_per_s=10, splits=1))
    for attempt in (1, 2):
        rows.collect("rows")
        job = env.execute_async("stopped")
        while job.status().state is not rh.JobState.RUNNING:
            time.sleep(0.1)
        print(attempt, "runs", flush=True)
        context = SparkContext._active_spark_context
        try:
            if attempt == 1:
                (context._jsc.sc() if sys.argv[1] == "Spark" else context).stop()
                job.wait(60)
            job.cancel()
        except rh.RheosError as error:
            print(attempt, type(error).__name__, error.what, flush=True)
""")


@pytest.mark.spark
@pytest.mark.parametrize("by", ["Spark", pytest.param("the program", marks=pytest.mark.slow)])
def test_a_stopped_application_ends_the_job_and_the_next_job_has_a_new_one(
    by: str, tmp_path: Path
) -> None:
    """Spark stops its application after too many lost executors. No attempt can run there again."""
    program = tmp_path / "stopped.py"
    program.write_text(STOPPED)
    done = subprocess.run(
        [sys.executable, str(program), by], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.stdout.splitlines() == [
        "1 runs",
        "1 JobFailedError Spark's application has ended, which ends the job",
        "2 runs",
    ], done.stderr
