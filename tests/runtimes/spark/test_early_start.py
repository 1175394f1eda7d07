"""The JVM that starts while the program is still being read: when it starts, and who receives it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from textwrap import dedent
from typing import Any

import pytest
from pyspark import SparkConf

from rheos.api.overrides import Overrides
from rheos.api.runtime_choice import RuntimeChoice
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.ids import JobId
from rheos.runtimes.job import JobConfig
from rheos.runtimes.spark import early_start
from rheos.runtimes.spark.jvm_options import OPTIONS, surroundings

SETTINGS = {"spark.driver.memory": "1g", OPTIONS: "-XX:SharedArchiveFile=classes.jsa"}
START = early_start.start
"""The real one, which tests of commands do without."""
PROGRAM = "import rheos as rh\nrh.Environment(2).execute()\n"


class Jvm:
    """Stand-in for the JVM's process."""

    there: list[Jvm] = []

    def __init__(self, settings: Mapping[str, str], *, logs: bool) -> None:
        self.settings = settings
        self.logs = logs
        self.surroundings = surroundings()
        self.became = "waits"
        self.there.append(self)

    def gateway(self) -> str | None:
        return "its gateway"

    def serves(self) -> None:
        self.became = "taken"

    def kill(self) -> None:
        self.became = "killed"


class Daemon:
    """Stand-in for the daemon's process."""

    there: list[Any] = []

    def __init__(self) -> None:
        self.surroundings = surroundings()
        self.closed = False
        self.there.append(self)

    def close(self) -> None:
        self.closed = True

    discard = close


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(early_start, "start", START)
    monkeypatch.setattr(early_start, "_Jvm", Jvm)
    monkeypatch.setattr(early_start, "require_java", lambda: "a Java")
    monkeypatch.setattr(early_start, "jvm_settings", lambda version: SETTINGS)
    monkeypatch.setattr(Jvm, "there", [])
    monkeypatch.setattr(early_start, "EarlyDaemon", Daemon)
    monkeypatch.setattr(Daemon, "there", [])
    for name in [name for name in os.environ if name.startswith(("SPARK", "PYSPARK"))]:
        monkeypatch.delenv(name)
    yield
    early_start.discard()


def conf(**others: str) -> SparkConf:
    made = SparkConf(loadDefaults=False, _jconf=None)
    made.setAll([("spark.master", "local[3]"), *SETTINGS.items()])
    return made.setAll([(name.replace("_", "."), value) for name, value in others.items()])


def test_the_session_takes_the_jvm_over_once() -> None:
    early_start.start(PROGRAM, "auto", "local")
    (jvm,) = Jvm.there
    gateway: Any = early_start.take_jvm(conf())
    assert (gateway, jvm.became) == ("its gateway", "taken")
    assert early_start.take_jvm(conf()) is None


@pytest.mark.parametrize(
    ("program", "runtime", "master"),
    [
        (PROGRAM, "simulated", "local"),
        (PROGRAM + "# or rheos.testing.simulate", "auto", "local"),
        ("rh.Environment(2, runtime='simulated')", "auto", "local"),
        ("spark = SparkSession.builder.getOrCreate()", "auto", "local"),
        (PROGRAM, "auto", "spark://host:7077"),
    ],
)
def test_no_jvm_starts_for_programs_that_need_none(program: str, runtime: str, master: str) -> None:
    early_start.start(program, runtime, master)
    assert Jvm.there == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYSPARK_GATEWAY_PORT", "1234"),
        ("SPARK_REMOTE", "sc://host"),
        ("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell"),
    ],
)
def test_no_jvm_starts_if_the_environment_requests_another(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    early_start.start(PROGRAM, "auto", "local")
    assert Jvm.there == []


def test_the_first_run_starts_a_jvm_that_writes_the_archive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new = {**SETTINGS, OPTIONS: "-XX:ArchiveClassesAtExit=new"}
    monkeypatch.setattr(early_start, "jvm_settings", lambda version: new)
    assert early_start.start(PROGRAM, "auto", "local")
    assert len(Jvm.there) == 1


def test_without_java_the_early_start_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise ConfigurationError("there is none")

    monkeypatch.setattr(early_start, "require_java", none)
    early_start.start(PROGRAM, "auto", "local")
    assert early_start.take_jvm(conf()) is None


@pytest.mark.parametrize(
    "others",
    [{"spark_driver_memory": "4g"}, {"spark_master": "spark://host:7077"}],
    ids=["memory", "master"],
)
def test_an_unsuitable_jvm_is_killed(others: dict[str, str]) -> None:
    early_start.start(PROGRAM, "auto", "local")
    assert early_start.take_jvm(conf(**others)) is None
    assert [jvm.became for jvm in Jvm.there] == ["killed"]


def test_a_jvm_from_before_a_changed_environment_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable must apply to the JVM, so it has to start afterwards."""
    early_start.start(PROGRAM, "auto", "local")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages org:it:1.0 pyspark-shell")
    assert early_start.take_jvm(conf()) is None
    assert [jvm.became for jvm in Jvm.there] == ["killed"]


def test_variables_set_by_libraries_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars sets such a variable when it is imported."""
    early_start.start(PROGRAM, "auto", "local")
    monkeypatch.setenv("_RJEM_MALLOC_CONF", "dirty_decay_ms:500")
    gateway: Any = early_start.take_jvm(conf())
    assert gateway == "its gateway"


def test_an_unused_jvm_is_killed() -> None:
    early_start.start(PROGRAM, "auto", "local")
    early_start.discard()
    assert [jvm.became for jvm in Jvm.there] == ["killed"]
    assert [daemon.closed for daemon in Daemon.there] == [True]


def test_the_daemon_is_taken_over_and_kept_open() -> None:
    early_start.start(PROGRAM, "auto", "local")
    assert [early_start.take_daemon(), early_start.take_daemon()] == Daemon.there
    assert [daemon.closed for daemon in Daemon.there] == [False, False]


def test_a_daemon_of_another_environment_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    early_start.start(PROGRAM, "auto", "local")
    monkeypatch.setenv("A_WORD_OF", "the program")
    taken: Any = early_start.take_daemon()
    assert taken is Daemon.there[1]
    assert [daemon.closed for daemon in Daemon.there] == [True, False]


def test_no_daemon_starts_for_workers_of_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    early_start.start(PROGRAM, "auto", "local")
    assert (len(Jvm.there), len(Daemon.there)) == (1, 0)


def test_a_daemon_starts_if_this_python_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    early_start.start(PROGRAM, "auto", "local")
    assert len(Daemon.there) == 1


def test_a_jvm_that_cannot_start_is_left_to_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Jvm, "gateway", lambda self: None)
    early_start.start(PROGRAM, "auto", "local")
    assert early_start.take_jvm(conf()) is None
    assert [jvm.became for jvm in Jvm.there] == ["killed"]


@pytest.mark.parametrize("name", ["continuous", "batch"])
def test_a_job_starts_both_once_before_its_runtime_is_imported(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(early_start, "_has_jvm", lambda: False)
    for _ in range(2):
        RuntimeChoice(name).make(JobConfig(job=JobId("j")), Overrides())
    assert [jvm.logs for jvm in Jvm.there] == [False]
    assert len(Daemon.there) == 1


@pytest.mark.parametrize(
    ("has_jvm", "config"),
    [
        (True, JobConfig(job=JobId("j"))),
        (False, JobConfig(job=JobId("j"), spark=object())),
        (False, JobConfig(job=JobId("j"), master="spark://host:7077")),
    ],
    ids=["a JVM", "a session", "a cluster"],
)
def test_a_job_starts_no_jvm_that_it_would_not_use(
    monkeypatch: pytest.MonkeyPatch, has_jvm: bool, config: JobConfig
) -> None:
    monkeypatch.setattr(early_start, "_has_jvm", lambda: has_jvm)
    RuntimeChoice("continuous").make(config, Overrides())
    assert Jvm.there == []


REAL = """
import os
os.environ["RHEOS_CLASS_ARCHIVE"] = "off"
from rheos.runtimes.spark import early_start
early_start.start("", "auto", "local")
jvm, daemon = early_start._jvm, early_start._daemon
assert jvm is not None and daemon is not None

from pyspark import SparkContext
from rheos.connectors.spark.table_session import active_session
from rheos.core.protocol.ids import JobId
from rheos.runtimes.job import JobConfig
from rheos.runtimes.spark.session import found_session, get_context, get_session
from rheos.runtimes.spark.session import single_threaded_workers
job = JobConfig(job=JobId("j"))
context = get_context(job, slots=3)
assert SparkContext._gateway.proc is jvm.process
assert context.master == "local[3]"
settings = dict(context.getConf().getAll())
assert settings["spark.app.name"] == "rheos" and settings["spark.ui.enabled"] == "false"
assert not os.path.exists(jvm._folder.path)
assert "PYSPARK_GATEWAY_PORT" not in os.environ

def forked_from():
    return context.parallelize([0], 1).map(lambda _: os.getppid())

with single_threaded_workers(context):
    ours = forked_from()
    ours.id()
assert ours.collect() == [daemon._process.pid]
assert forked_from().collect() != [daemon._process.pid]

# A session is made by who needs one.
assert found_session(job) is None
session = active_session("a table")
assert found_session(job) is session and get_session(job, slots=3) is session
assert session.sparkContext is context and session.range(3).count() == 3
assert session.conf.get("spark.sql.session.timeZone") == "UTC"
session.stop()
daemon._process.wait()  # It ends with the context.
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_real_jvm_and_daemon_serve_the_session() -> None:
    subprocess.run([sys.executable, "-c", dedent(REAL)], check=True, timeout=400)
