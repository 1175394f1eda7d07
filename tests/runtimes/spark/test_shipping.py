"""Definitions of a script reach the workers, whatever the process has done with them before."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from rheos.core.errors import ConfigurationError, ProgramError, WorkerLostError
from rheos.runtimes.host.pickling import pack
from rheos.runtimes.spark import shipping as spark_shipping
from rheos.runtimes.spark.shipping import worker_error, worker_task


def test_an_unpicklable_function_is_a_program_error() -> None:
    lock = threading.Lock()
    with pytest.raises(
        ProgramError, match=r"cannot be sent to the workers: cannot pickle '_thread.lock'"
    ):
        pack(lambda row: lock)


def test_a_record_class_that_was_used_here_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens in a notebook that has simulated a job, and now runs it on Spark."""

    @dataclass
    class Visit:
        user: int

    decoder = msgspec.msgpack.Decoder(Visit)
    shipped: Any = pickle.loads(pack(Visit))
    assert shipped is not None
    assert msgspec.convert({"user": 7}, shipped).user == 7
    assert decoder.decode(msgspec.msgpack.encode(Visit(8))) == Visit(8)
    assert msgspec.convert({"user": 9}, Visit) == Visit(9)


def test_the_error_names_a_module_missing_in_workers() -> None:
    """Lines of the worker's traceback that show the raising code are not mistaken for the error."""
    raised = RuntimeError(
        '    raise RuntimeError(f"rheos-absent:{error.name} {sys.executable}:rheos-absent")\n'
        "RuntimeError: rheos-absent:rheos.runtimes /opt/a python:rheos-absent\n"
    )
    error = worker_error(raised)
    assert isinstance(error, ConfigurationError)
    assert error.what == "a worker's Python (/opt/a python) has no module 'rheos.runtimes'"


def test_the_error_names_pyarrow_missing_in_workers() -> None:
    """Spark itself imports it, before any task of Rheos could report it."""
    raised = RuntimeError(
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "pyspark/worker.py", line 1920, in read_udfs\n    import pyarrow as pa\n'
        "ModuleNotFoundError: No module named 'pyarrow'\n\n\tat org.apache.spark.api.python.Base"
    )
    error = worker_error(raised)
    assert isinstance(error, ConfigurationError)
    assert "has no module 'pyarrow'" in error.what
    assert "PYSPARK_PYTHON" in (error.hint or "")


def test_the_error_names_a_missing_module_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_rules(payload: bytes, batches: Any) -> Any:
        raise ModuleNotFoundError("No module named 'rules'", name="rules")

    monkeypatch.setattr(spark_shipping, "without_rules", without_rules, raising=False)
    task = worker_task("rheos.runtimes.spark.shipping:without_rules", b"")
    with pytest.raises(RuntimeError) as raised:
        list(task([]))
    assert "has no module 'rules'" in str(worker_error(raised.value))


def test_a_crashed_worker_is_reported_without_jvm_traces() -> None:
    raised = RuntimeError(
        "An error occurred while calling o1.collectToPython.\n"
        ": org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\tat org.x.Y"
    )
    said = "worker of Spark lost: its process ended without an error of its own"
    assert str(worker_error(raised)).splitlines()[0] == said


def test_the_error_of_a_lost_executor_has_its_reason() -> None:
    raised = RuntimeError(
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 failed: "
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Container "
        "killed by YARN for exceeding physical memory limits. 5.0 GB of 5 GB used.\n"
        "Driver stacktrace:\n\tat org.x.Y"
    )
    error = worker_error(raised)
    assert isinstance(error, WorkerLostError)
    assert error.what == (
        "Spark lost an executor: Container killed by YARN for exceeding physical memory limits. 5.0 GB "
        "of 5 GB used."
    )
