"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from rheos.core.native import library
from rheos.core.protocol.ids import JobId
from rheos.runtimes.host import native_library
from rheos.runtimes.job import JobConfig
from rheos.runtimes.spark import early_start
from tests.long_tests import listed_name, long_tests
from tests.shared_servers import ensure_running, running

# Named for environments in which this tree was installed before it had the plugin.
pytest_plugins = ["rheos.testing.pytest_plugin"]

# The first example of a property pays for imports, and machines differ: time is no property here.
# Every run draws the same examples, and few; `pytest --hypothesis-profile=search` looks for others.
settings.register_profile("rheos", deadline=None, derandomize=True, max_examples=15)
settings.register_profile("search", deadline=None)
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=3)
settings.register_profile("fuzz", deadline=None, max_examples=100_000)
settings.load_profile("rheos")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="run the first case of short tests, without servers and worlds",
    )
    parser.addoption(
        "--all-replays",
        action="store_true",
        help="replay each example of an operator in all ways, not in a sample of them",
    )


_OF_OLD_SPARK = (
    "ignore:unclosed <socket:ResourceWarning",  # Sockets of results are left to the collector.
    "ignore:distutils Version classes are deprecated:DeprecationWarning",
    "ignore:The distutils package is deprecated:DeprecationWarning",
    "ignore:is_(datetime64tz|categorical)_dtype is deprecated:DeprecationWarning",
)
"""Warnings of PySpark itself before 4.2."""


def pytest_configure(config: pytest.Config) -> None:
    if version("pyspark") < "4.2":
        for each in _OF_OLD_SPARK:
            config.addinivalue_line("filterwarnings", each)
    if config.getoption("--quick"):
        settings.load_profile("quick")
    if os.environ.get(native_library.SWITCH) == "1":
        # All tests use the kernels, also those that start no worker.
        library.use(native_library.compile_now())
    # Python looks for cycles after each 700 new objects, and half of the time in vain.
    gc.set_threshold(50_000, 20, 50)


def pytest_collection_finish() -> None:
    """Exclude what stays until the end, such as tests and modules, from the search for cycles."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


_WORLDS = ("chaos", "equivalence", "ports", "simulation")
"""Folders of tests that run whole jobs under faults: too slow for `--quick`."""
_SERVERS = (
    "cassandra",
    "clickhouse",
    "hbase",
    "hdfs",
    "kafka",
    "kinesis",
    "mongodb",
    "mqtt",
    "mysql",
    "nats",
    "opensearch",
    "postgres",
    "pulsar",
    "rabbitmq",
    "redis",
    "servers",
    "sqs",
)
"""Folders of tests that mostly need a server: too slow for `--quick`."""


def _quick(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the first case of each short test that needs neither a server nor a simulated world."""
    left_out = {*_WORLDS, *_SERVERS}
    long = long_tests()
    first: dict[str, pytest.Item] = {}
    for item in items:
        if left_out.isdisjoint(item.path.parts) and item.get_closest_marker("spark") is None:
            name = listed_name(item.nodeid)
            if name not in long:
                first.setdefault(name, item)
    return [*first.values()]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check that a file names the marks of its tests, by which scripts/test finds it."""
    _check_marks(items)
    _thin(items)
    if config.getoption("--quick"):
        items[:] = _quick(items)


def _check_marks(items: list[pytest.Item]) -> None:
    texts: dict[Path, str] = {}
    for item in items:
        for mark in ("spark", "deploy"):
            if item.get_closest_marker(mark) is not None:
                text = texts.get(item.path) or texts.setdefault(item.path, item.path.read_text())
                if f"pytest.mark.{mark}" not in text:
                    raise pytest.UsageError(f"{item.path}: write pytest.mark.{mark} somewhere in it")


def _thin(items: list[pytest.Item]) -> None:
    """Mark cases of `thinned` tests as slow: all but the first, and about one of n others."""
    begun: set[str] = set()
    for item in items:
        thinned = item.get_closest_marker("thinned")
        if thinned is not None:
            test = item.nodeid.partition("[")[0]
            if test in begun and zlib.crc32(item.nodeid.encode()) % thinned.args[0] != 0:
                item.add_marker(pytest.mark.slow)
            begun.add(test)


@pytest.fixture(scope="session", autouse=True)
def registry_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the jobs of tests in a separate registry, not the user's, and let commands that a test calls
    start no JVM."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RHEOS_HOME", str(tmp_path_factory.mktemp("rheos-home")))
        patch.setattr(early_start, "start", lambda *given, **named: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def short_lived_jvms() -> Iterator[None]:
    """Reduce compilation in the JVM, which takes half of its first minutes and pays off only in later
    hours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        yield


@pytest.fixture(scope="session")
def spark() -> Any:
    """Start one Spark session for all tests, because starting one takes seconds."""
    from rheos.runtimes.spark.session import get_session

    session = get_session(JobConfig(job=JobId("tests")), slots=4)
    session.conf.set("spark.sql.shuffle.partitions", "2")  # Its 200 are for larger data.
    return session


SHARED_SERVERS = frozenset(
    {
        "kafka_broker",
        "redis_server",
        "nats_server",
        "clickhouse_server",
        "mongodb_server",
        "hbase_server",
        "mqtt_server",
        "rabbitmq_server",
        "aws_emulator",
        "pulsar_server",
        "postgres_server",
        "mariadb_server",
        "opensearch_node",
        "iceberg_rest_catalog",
        "cassandra_node",
        "hdfs",
    }
)
"""Fixtures of servers, each of which runs until all tests have ended."""


@pytest.fixture(autouse=True)
def shared_servers_run(request: pytest.FixtureRequest) -> None:
    """Let no test use a shared server that an earlier test has left stopped."""
    for name in SHARED_SERVERS.intersection(request.fixturenames):
        ensure_running(request.getfixturevalue(name))


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Any]:
    """Run a Kafka broker for all tests (`KafkaBroker`), each with its own topics. A test that kills it
    starts it again."""
    pytest.importorskip("confluent_kafka", reason="the extra rheos[kafka] is not installed")
    from rheos.testing.servers import KafkaBroker

    # Transactions that have timed out are looked for every so often: 10 s otherwise.
    settings = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 300,
        # A topic that is gone stays so, whoever asks for it.
        "auto.create.topics.enable": "false",
    }
    broker = KafkaBroker(users={"ada": "lovelace"}, tls=True, settings=settings)
    yield from running(broker)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Any]:
    """Run a Redis server for all tests (`RedisServer`), each with its own keys. A test that kills it
    starts it again."""
    pytest.importorskip("redis", reason="the extra rheos[redis] is not installed")
    from rheos.testing.servers import RedisServer

    server = RedisServer(password="queen of hearts")
    yield from running(server)


@pytest.fixture(scope="session")
def nats_server() -> Iterator[Any]:
    """Run a NATS server for all tests (`NatsServer`), each with its own streams. A test that kills it
    starts it again."""
    pytest.importorskip("nats", reason="the extra rheos[nats] is not installed")
    from rheos.testing.servers import NatsServer

    server = NatsServer(token="queen of hearts")
    yield from running(server)


@pytest.fixture(scope="session")
def clickhouse_server() -> Iterator[Any]:
    """Run ClickHouse's engine for all tests (`ClickhouseServer`), each with its own tables. A test that
    kills it starts it again."""
    pytest.importorskip("urllib3", reason="the extra rheos[clickhouse] is not installed")
    from rheos.testing.servers import ClickhouseServer

    yield from running(ClickhouseServer())


@pytest.fixture(scope="session")
def mongodb_server() -> Iterator[Any]:
    """Run a server with MongoDB's protocol for all tests (`MongodbServer`), each with its own
    collections. A test that kills it starts it again."""
    pytest.importorskip("pymongo", reason="the extra rheos[mongodb] is not installed")
    from rheos.testing.servers import MongodbServer

    yield from running(MongodbServer())


@pytest.fixture(scope="session")
def hbase_server() -> Iterator[Any]:
    """Run an HBase for all tests (`HbaseServer`), each with its own tables. A test that kills it starts
    it again."""
    pytest.importorskip("happybase", reason="the extra rheos[hbase] is not installed")
    from rheos.testing.servers import HbaseServer

    yield from running(HbaseServer())


@pytest.fixture(scope="session")
def mqtt_server() -> Iterator[Any]:
    """Run an MQTT broker for all tests (`MosquittoServer`), each with its own topics. A test that kills
    it starts it again."""
    pytest.importorskip("paho.mqtt.client", reason="the extra rheos[mqtt] is not installed")
    from rheos.testing.servers import MosquittoServer

    # It writes each change to its disk, so that it keeps its sessions when it is killed.
    settings: dict[str, str | int] = {"autosave_on_changes": "true", "autosave_interval": 1}
    yield from running(MosquittoServer(user=("ada", "queen of hearts"), settings=settings))


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[Any]:
    """Run a RabbitMQ server for all tests (`RabbitmqServer`), each with its own queues. A test that
    kills it starts it again."""
    pytest.importorskip("pika", reason="the extra rheos[rabbitmq] is not installed")
    from rheos.testing.servers import RabbitmqServer

    yield from running(RabbitmqServer(user=("ada", "queen of hearts")))


@pytest.fixture(scope="session")
def aws_emulator() -> Iterator[Any]:
    """Run an emulator of AWS for all tests (`KinesisServer`), each with its own streams."""
    pytest.importorskip("boto3", reason="the extra rheos[aws] is not installed")
    from rheos.testing.servers import KinesisServer

    yield from running(KinesisServer())


@pytest.fixture(scope="session")
def pulsar_server() -> Iterator[Any]:
    """Run a Pulsar server for all tests (`PulsarServer`), each with its own topics. A test that kills
    it starts it again."""
    pytest.importorskip("pulsar", reason="the extra rheos[pulsar] is not installed")
    from rheos.testing.servers import PulsarServer

    settings = {"brokerDeduplicationEnabled": "true"}
    yield from running(PulsarServer(with_token=True, settings=settings))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    """Run a PostgreSQL server for all tests (`PostgresServer`), each with its own tables."""
    pytest.importorskip("psycopg", reason="the extra rheos[postgres] is not installed")
    from rheos.testing.servers import PostgresServer

    server = PostgresServer()
    yield from running(server)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[Any]:
    """Run a MariaDB server for all tests (`MariadbServer`), each with its own tables."""
    pytest.importorskip("pymysql", reason="the extra rheos[mysql] is not installed")
    from rheos.testing.servers import MariadbServer

    # The log has many files.
    server = MariadbServer(settings={"max-binlog-size": 8192})
    yield from running(server)


@pytest.fixture(scope="session")
def opensearch_node() -> Iterator[Any]:
    """Run an OpenSearch node for all tests (`OpenSearchNode`), each with its own indices."""
    from rheos.testing.servers import OpenSearchNode

    node = OpenSearchNode()
    yield from running(node)


@pytest.fixture(scope="session")
def iceberg_rest_catalog() -> Iterator[Any]:
    """Run a REST catalog of Iceberg (`IcebergRestCatalog`) for slow tests, each with its own
    namespace."""
    from rheos.testing.servers import IcebergRestCatalog

    yield from running(IcebergRestCatalog())


@pytest.fixture(scope="session")
def cassandra_node() -> Iterator[Any]:
    """Run a Cassandra node (`CassandraNode`) for tests that each use their own keyspaces. Its start
    takes some 16 s of processor time, so these tests are slow."""
    from rheos.testing.servers import CassandraNode

    node = CassandraNode()
    yield from running(node)


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Any]:
    """Run an HDFS for all tests (`HadoopCluster`), each with its own folders. A test that kills a
    daemon starts it again."""
    from rheos.testing.servers import HadoopCluster

    cluster = HadoopCluster(yarn=False)
    yield from running(cluster)
