"""The boundary to Spark: errors when Spark or Java is missing, and errors that come back from
workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from rheos.core.errors import ConfigurationError, RheosError, Site, UserFunctionError
from rheos.core.protocol.ids import JobId
from rheos.runtimes.host.pickling import pack
from rheos.runtimes.job import JobConfig
from rheos.runtimes.spark import session as spark_session
from rheos.runtimes.spark.jvm_options import require_java
from rheos.runtimes.spark.shipping import sealed, worker_error, worker_task


def test_without_java_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(
        ConfigurationError, match=r"not found in JAVA_HOME[\s\S]*apt-get install openjdk"
    ):
        require_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigurationError, match="not found on this machine"):
        require_java()


def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("""#!/bin/sh\necho 'openjdk version "1.8.0_292"' >&2\n""")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="is Java 8"):
        require_java()


def test_an_error_survives_the_jvm_as_text() -> None:
    error = UserFunctionError(
        "ValueError: boo",
        site=Site("job.py", 7),
        operator="parse",
        record="{'a': 1}",
        detail="File ...",
    )
    found = worker_error(
        RuntimeError(f"Job aborted. RuntimeError: {sealed(error)}\n\tat org.apache...")
    )
    assert isinstance(found, UserFunctionError)
    assert str(found) == str(error)
    assert vars(found) == vars(error)


def test_only_data_of_an_error_is_transferred() -> None:
    error = RheosError("odd", site=Site("job.py", 7))
    error.unpicklable = lambda: None  # type: ignore[attr-defined]
    found = worker_error(RuntimeError(sealed(error)))
    assert type(found) is RheosError
    assert str(found) == "job.py:7: odd"
    assert not hasattr(found, "unpicklable")


def test_other_failures_show_only_their_python_part() -> None:
    text = "Task failed:\nTraceback:\n  MemoryError\n\tat org.apache.spark.Executor.run\n\t... 9 more"
    assert str(worker_error(RuntimeError(text))) == (
        "a Spark task failed\n  | Task failed:\n  | Traceback:\n  |   MemoryError"
    )


def test_a_session_of_spark_connect_is_refused() -> None:
    class FromConnect:
        pass

    FromConnect.__module__ = "pyspark.sql.connect.session"
    with pytest.raises(ConfigurationError, match="Spark Connect"):
        spark_session.get_session(JobConfig(job=JobId("j"), spark=FromConnect()), slots=1)


@pytest.mark.spark
class TestWithSpark:
    def test_a_session_is_reused(self, spark: Any) -> None:
        assert spark_session.get_session(JobConfig(job=JobId("j")), slots=2) is spark
        assert spark_session.get_session(JobConfig(job=JobId("j"), spark=spark), slots=9) is spark

    def test_a_master_other_than_the_running_one_is_refused(
        self, spark: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spark_session, "_ours", None)  # As if the user had created the session.
        config = JobConfig(job=JobId("j"), master="spark://elsewhere:7077")
        with pytest.raises(
            ConfigurationError, match=r"'spark://elsewhere:7077'.*running in this process"
        ):
            spark_session.get_session(config, slots=2)

    def test_polars_and_arrow_have_one_thread_in_workers(self, spark: Any) -> None:
        before = dict(spark.sparkContext.environment)
        with spark_session.single_threaded_workers(spark.sparkContext):
            frame = spark.range(0, 1, 1, 1).mapInArrow(worker_task(f"{__name__}:threads", b""), "n int")
        assert spark.sparkContext.environment == before
        assert [row.n for row in frame.collect()] == [1, 1]

    def test_an_error_in_a_worker_reaches_the_driver_unchanged(self, spark: Any) -> None:
        error = UserFunctionError("no", site=Site("job.py", 3), record="r")
        frame = spark.range(1).mapInArrow(worker_task(f"{__name__}:fail", pack(error)), "n int")
        with pytest.raises(Exception, match="rheos-error") as caught:
            frame.collect()
        found = worker_error(caught.value)
        assert type(found) is UserFunctionError
        assert vars(found) == vars(error)

    def test_the_session_shows_no_progress_bar(self, spark: Any) -> None:
        assert spark.conf.get("spark.ui.showConsoleProgress") == "false"
        assert spark.sparkContext.getConf().get("spark.stage.maxConsecutiveAttempts") == "1"


def threads(_: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import polars as pl

    for _batch in batches:
        counts = [pl.thread_pool_size(), pa.cpu_count()]
        yield pa.record_batch([pa.array(counts, pa.int32())], names=["n"])


def fail(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pickle

    yield from ()
    raise pickle.loads(payload)
