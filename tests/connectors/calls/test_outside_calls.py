"""No call to a server waits longer than our own limit. `CASES` has the calls that may wait, for each
connector, store and client. Each case runs against a server or a file system that never answers. A test
fails if a connector is neither in `CASES` nor in `ASKS_NOBODY`, or if a module that uses a client
library declares no call."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import rheos as rh
import rheos.connectors
from rheos.connectors.calls.file_systems import url_to_fs
from rheos.connectors.files.committer import FileCommitter
from rheos.connectors.files.publication.contract import FileCommittable
from rheos.connectors.files.publication.rename_publication import STAGING
from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.cluster import KafkaCluster
from rheos.connectors.kafka.transactions import Transactions
from rheos.connectors.mysql.binlog_feed import AWAY as MYSQL_AWAY
from rheos.connectors.mysql.binlog_feed import BinlogFeed, LoggedTable
from rheos.connectors.mysql.binlog_position import BinlogPosition, LogPlace
from rheos.connectors.mysql.change_source import MysqlChanges
from rheos.connectors.mysql.server_login import ServerLogin
from rheos.connectors.mysql.table_rows import TableRows
from rheos.connectors.postgres.change_feed import AWAY, ChangeFeed, ReadTable
from rheos.connectors.postgres.change_rows import ChangeRows
from rheos.connectors.postgres.change_source import PostgresChanges
from rheos.connectors.postgres.connection import ServerOptions
from rheos.core.connectors.contract import Committer, Sink, Source, SourceClient
from rheos.core.connectors.lookup import Lookup, LookupContext
from rheos.core.errors import UnavailableError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.formats.schema_registry import SchemaRegistry
from rheos.runtimes.host.stores import FsspecStore
from tests.connectors.ports import Probe, sink_context
from tests.frozen import FrozenFileSystem, declared_calls, frozen_server, outcome, shorten
from tests.waiting import wait_for

SRC = Path(__file__).parents[3] / "src" / "rheos"
OPERATING = SRC.parent.parent / "docs" / "outages.md"
SCHEMA = pa.schema([pa.field("id", pa.string(), False), pa.field("n", pa.int64())])
ROW = pa.RecordBatch.from_pylist([{"id": "a", "n": 1}], SCHEMA)
URL = "frozen://folder"

Case = Callable[[int], object]
"""Makes a call to the frozen server at a port of this machine, or to the frozen file system."""


def written(sink: Sink) -> None:
    """Write a row, and prepare a checkpoint."""
    writer = sink.open(sink_context(SCHEMA))
    writer.write(ROW)
    writer.prepare(CheckpointId(1))


def discovered(source: Any) -> None:
    """Look for new splits, as the driver does."""
    list(source.discover())


def prepared(sink: Any) -> None:
    """Inspect the target, as the driver does."""
    sink.prepared(SCHEMA, ("job", "sink"))


def fetched(lookup: Lookup) -> None:
    """Look a key up."""
    keys = pa.schema([pa.field("id", pa.string(), False)])
    lookup.open(LookupContext("lookup", 0, keys)).fetch(ROW.select(["id"]))


def kafka(port: int) -> Source:
    brokers = f"127.0.0.1:{port}"
    return rh.kafka.source("t", brokers=brokers, schema=SCHEMA, format=rh.formats.json())


def redis(port: int) -> str:
    return f"redis://127.0.0.1:{port}"


def mqtt_sink(port: int) -> Sink:
    return rh.mqtt.sink(f"mqtt://127.0.0.1:{port}", topic="t", format=rh.formats.json(), retry_for="0s")


def rabbitmq_sink(port: int) -> Sink:
    return rh.rabbitmq.sink(
        f"amqp://127.0.0.1:{port}", routing_key="k", format=rh.formats.json(), retry_for="0s"
    )


def aws(port: int) -> dict[str, Any]:
    options = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    return {
        "format": rh.formats.json(),
        "retry_for": "0s",
        "region": "us-east-1",
        "endpoint": f"http://127.0.0.1:{port}",
        "options": options,
    }


def pulsar_source(port: int) -> Source:
    return rh.pulsar.source(
        f"pulsar://127.0.0.1:{port}",
        topic="t",
        format=rh.formats.json(),
        schema={"a": int},
        retry_for="0s",
    )


def pulsar_sink(port: int) -> Sink:
    return rh.pulsar.sink(
        f"pulsar://127.0.0.1:{port}", topic="t", format=rh.formats.json(), retry_for="0s"
    )


def nats_source(port: int) -> Source:
    return rh.nats.source(
        f"nats://127.0.0.1:{port}",
        stream="S",
        schema=SCHEMA,
        format=rh.formats.json(),
        retry_for="0s",
    )


def nats_sink(port: int) -> Sink:
    return rh.nats.sink(
        f"nats://127.0.0.1:{port}", subject="s", format=rh.formats.json(), retry_for="0s"
    )


def clickhouse(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def mongodb(port: int) -> str:
    return f"mongodb://127.0.0.1:{port}/x"


def written_once(port: int) -> None:
    """Begin to deliver a staged epoch."""
    sink = rh.nats.sink(
        f"nats://127.0.0.1:{port}", subject="s", format=rh.formats.json(), delivery="exactly_once"
    )
    with tempfile.TemporaryDirectory() as folder:
        staged = sink.staged(folder)
        writer = staged.open(sink_context(SCHEMA))
        writer.write(ROW)
        committer = staged.committer()
        assert committer is not None
        committer.commit(writer.prepare(CheckpointId(1)))


def postgres(port: int) -> str:
    return f"postgresql://u:p@127.0.0.1:{port}/db?sslmode=disable"


def mysql(port: int) -> str:
    return f"mysql://u:p@127.0.0.1:{port}/db"


def logged_table(port: int) -> LoggedTable:
    return LoggedTable(ServerLogin.of(mysql(port)), TableRows("db", "t", (), None, (), ()))


def changes(port: int) -> ReadTable:
    rows = ChangeRows("t", (), None, (), ())
    return ReadTable(
        ServerOptions.of(postgres(port)), "public", "t", '"public"."t"', "slot", rows, False
    )


def read_changes(port: int) -> None:
    """Wait until the feed's thread has found the server unavailable twice. Raises the thread's
    error."""
    probe = Probe()
    feed = ChangeFeed(changes(port), probe.context())
    reader = feed.open(None, None)

    def is_away() -> bool:
        reader.poll(1)
        return probe.counts.get(AWAY, 0) >= 2

    wait_for(is_away, 60)
    feed.close()
    raise UnavailableError("no answer for it, twice")


def read_log(port: int) -> None:
    """Wait until the feed of a binlog has found the server unavailable twice, and raise why."""
    probe = Probe()
    feed = BinlogFeed(logged_table(port), probe.context())
    reader = feed.open(BinlogPosition(LogPlace("log.000001", 4)), None)

    def is_away() -> bool:
        reader.poll(1)
        return probe.counts.get(MYSQL_AWAY, 0) >= 2

    wait_for(is_away, 60)
    feed.close()
    raise UnavailableError("no answer for it, twice")


def staged() -> bytes:
    return msgspec.msgpack.encode(FileCommittable(f"{STAGING}/job/1/a", "a", 1, 1))


def cassandra(port: int) -> Sink:
    return rh.cassandra.sink("k.t", hosts=f"127.0.0.1:{port}", retry_for="0s")


def hbase(port: int) -> dict[str, Any]:
    return {"gateway": f"127.0.0.1:{port}", "key_columns": "id", "family": "cf"}


def prepared_delta(port: int) -> None:
    """Inspect a Delta table, by a library that finds its store by environment variables."""
    store = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "access",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in store.items():
            patch.setenv(name, value)
        prepared(rh.delta.sink(f"s3://bucket/{port}"))


def prepared_iceberg(port: int) -> None:
    """Inspect an Iceberg table of a REST catalog."""
    catalog = {"type": "rest", "uri": f"http://127.0.0.1:{port}"}
    prepared(rh.iceberg.sink(f"a.t{port}", catalog=catalog))


def opensearch(port: int) -> Sink:
    return rh.opensearch.sink(f"http://127.0.0.1:{port}", index="i", id="id", retry_for="0s")


CASES: dict[str, dict[str, Case]] = {
    "KafkaSource": {
        "splits": lambda port: kafka(port).splits(),
        "asked": lambda port: KafkaCluster(ClientOptions.of(f"127.0.0.1:{port}")).find(("t",)),
    },
    "KafkaSink": {
        "prepared": lambda port: prepared(rh.kafka.sink("t", brokers=f"127.0.0.1:{port}", value="id")),
        "mark": lambda port: Transactions(
            "w", "t", ClientOptions.of(f"127.0.0.1:{port}")
        ).create_mark(),
    },
    "RedisSource": {
        "splits": lambda port: rh.redis.source(
            redis(port), stream="s", schema=SCHEMA, retry_for="0s"
        ).splits(),
    },
    "RedisSink": {
        "prepared": lambda port: prepared(rh.redis.sink(redis(port), key="{id}", retry_for="0s")),
        "written": lambda port: written(rh.redis.sink(redis(port), key="{id}", retry_for="0s")),
    },
    "RedisLookup": {
        "fetched": lambda port: fetched(rh.redis.lookup(redis(port), key="{id}", schema=SCHEMA)),
    },
    "MqttSink": {
        "prepared": lambda port: prepared(mqtt_sink(port)),
        "written": lambda port: written(mqtt_sink(port)),
    },
    "RabbitmqSink": {
        "prepared": lambda port: prepared(rabbitmq_sink(port)),
        "written": lambda port: written(rabbitmq_sink(port)),
    },
    "KinesisSource": {
        "splits": lambda port: rh.kinesis.source("s", schema=SCHEMA, **aws(port)).splits(),
    },
    "KinesisSink": {
        "prepared": lambda port: prepared(rh.kinesis.sink("s", **aws(port))),
        "written": lambda port: written(rh.kinesis.sink("s", **aws(port))),
    },
    "SqsSink": {
        "prepared": lambda port: prepared(rh.sqs.sink("q", **aws(port))),
        "written": lambda port: written(rh.sqs.sink("q", **aws(port))),
    },
    "PulsarSource": {"splits": lambda port: pulsar_source(port).splits()},
    "PulsarSink": {
        "prepared": lambda port: prepared(pulsar_sink(port)),
        "written": lambda port: written(pulsar_sink(port)),
    },
    "NatsSource": {"splits": lambda port: nats_source(port).splits()},
    "NatsSink": {
        "prepared": lambda port: prepared(nats_sink(port)),
        "written": lambda port: written(nats_sink(port)),
        "written once": lambda port: written_once(port),
    },
    "PostgresChanges": {
        "made": lambda port: rh.postgres.changes("t", url=postgres(port)),
        "splits": lambda port: PostgresChanges(changes(port), None, None).splits(),
    },
    "ChangeFeed": {"read": read_changes},
    "MysqlChanges": {
        "made": lambda port: rh.mysql.changes("t", url=mysql(port)),
        "splits": lambda port: MysqlChanges(logged_table(port), True, None, None).splits(),
    },
    "BinlogFeed": {"read": read_log},
    "PostgresSink": {
        "prepared": lambda port: prepared(rh.postgres.sink("t", url=postgres(port))),
    },
    "PostgresLookup": {"made": lambda port: rh.postgres.lookup("t", url=postgres(port), key="id")},
    "CassandraSink": {"prepared": lambda port: prepared(cassandra(port))},
    "ClickhouseSink": {
        "prepared": lambda port: prepared(
            rh.clickhouse.sink("t", url=clickhouse(port), retry_for="0s")
        ),
    },
    "ClickhouseLookup": {
        "made": lambda port: rh.clickhouse.lookup("t", url=clickhouse(port), key="id"),
    },
    "MongodbSink": {
        "prepared": lambda port: prepared(
            rh.mongodb.sink("t", url=mongodb(port), id="id", retry_for="0s")
        ),
        "written": lambda port: written(
            rh.mongodb.sink("t", url=mongodb(port), id="id", retry_for="0s")
        ),
    },
    "MongodbLookup": {
        "fetched": lambda port: fetched(
            rh.mongodb.lookup("t", url=mongodb(port), key="id", schema={"n": int})
        ),
    },
    "MongodbChanges": {
        "made": lambda port: rh.mongodb.changes(
            "t", url=mongodb(port), schema={"_id": str}, retry_for="0s"
        ),
    },
    "HbaseSource": {"splits": lambda port: rh.hbase.source("t", **hbase(port), schema=SCHEMA).splits()},
    "HbaseSink": {
        "prepared": lambda port: prepared(rh.hbase.sink("t", **hbase(port), retry_for="0s")),
        "written": lambda port: written(rh.hbase.sink("t", **hbase(port), retry_for="0s")),
    },
    "HbaseLookup": {
        "fetched": lambda port: fetched(
            rh.hbase.lookup(
                "t", gateway=f"127.0.0.1:{port}", key="id", schema={"id": str, "n": int}, family="cf"
            )
        ),
    },
    "OpenSearchSink": {
        "prepared": lambda port: prepared(opensearch(port)),
        "written": lambda port: written(opensearch(port)),
    },
    "FileSource": {"splits": lambda port: rh.files.source(f"{URL}/*.csv", schema=SCHEMA).splits()},
    "WatchedFiles": {
        "discover": lambda port: discovered(
            rh.files.source(f"{URL}/*.csv", schema=SCHEMA, discover="1s")
        ),
    },
    "FileSink": {"written": lambda port: written(rh.files.sink(URL, format="csv"))},
    "SqlDatabaseSink": {
        "prepared": lambda port: prepared(rh.sql_database.sink("t", url=mysql(port))),
        "postgres": lambda port: prepared(rh.sql_database.sink("t", url=postgres(port))),
    },
    "SqlDatabaseLookup": {
        "made": lambda port: rh.sql_database.lookup("t", url=mysql(port), key="id"),
    },
    "SqlDatabaseSource": {"made": lambda port: rh.sql_database.source("t", url=mysql(port))},
    "DeltaSink": {"prepared": prepared_delta},
    "IcebergSink": {"prepared": prepared_iceberg},
    "FileCommitter": {
        "begin": lambda port: FileCommitter(URL, "overwrite", "owner").begin(),
        "commit": lambda port: FileCommitter(URL).commit([staged()]),
        "abort": lambda port: FileCommitter(URL).abort_stale(JobId("job"), Attempt(2), []),
    },
    "FsspecStore": {
        "put": lambda port: FsspecStore(URL).put("a", b"1"),
        "put_if_absent": lambda port: FsspecStore(URL).put_if_absent("a", b"1"),
        "get": lambda port: FsspecStore(URL).get("a"),
        "list": lambda port: FsspecStore(URL).list("a"),
        "delete": lambda port: FsspecStore(URL).delete("a"),
    },
    "SchemaRegistry": {"schema": lambda port: SchemaRegistry(f"http://127.0.0.1:{port}").schema(1)},
}

ASKS_NOBODY = {
    "CollectionSource": "rows of the program",
    "GeneratorSource": "rows are computed",
    "HybridSource": "made of other sources",
    "WrappedSource": "made of another source",
    "_Clients": "of a hybrid source: made of other clients",
    "MqttSource": "its thread asks (`ANSWERS`), as MqttSink does",
    "SqsSource": "its thread asks (`REQUESTS`), as SqsSink does",
    "RabbitmqSource": "its thread asks (`REQUESTS`), as RabbitmqSink does",
    "RabbitmqStreamSource": "its thread asks (`REQUESTS`), as RabbitmqSink does",
    "AcknowledgingSource": "the base of the two above",
    "DecodedSource": "the base of sources that decode messages; those have cases",
    "AcknowledgingClient": "its readers' threads acknowledge",
    "WebhookSource": "others ask it",
    "Webhook": "others ask it",
    "SocketSource": "a server that sends nothing is not an outage; its thread waits",
    "DataFrameSource": "a job of Spark, which the driver shows as waiting",
    "StreamSource": "a query of Spark, which runs next to the job",
    "StagedSource": "files, read as those of FileSource",
    "StagedStream": "files, read as those of FileSource",
    "_LaneMarks": "files, read as those of FileSource",
    "TopicConsumer": "its thread polls; the reader fails if that does not return (`POLL`)",
    "BlackholeSink": "it writes nothing",
    "CollectSink": "rows go to the driver with checkpoints",
    "PrintSink": "rows go to the terminal",
    "EventSink": "others ask it",
    "TableSink": "made into a PreparedTable",
    "PreparedTable": "staged as files; the driver publishes (`PUBLICATION`)",
    "TableLookup": "looks a Polars frame up",
    "TableCommitter": "`PUBLICATION`, made by LoneCalls (test_bounded_calls.py)",
    "TransactionCommitter": "a TableCommitter",
    "DeltaCommitter": "a TableCommitter",
    "DeltaTableCommitter": "`TABLE_CALL`, made by LoneCalls, as DeltaSink",
    "TableChanges": "the base of the two below",
    "DeltaChanges": "`TABLE_CALL`, made by LoneCalls, as DeltaSink",
    "IcebergChanges": "`TABLE_CALL`, made by LoneCalls, as IcebergSink",
    "DeltaSource": "`TABLE_CALL`, made by LoneCalls, as DeltaSink",
    "IcebergTableCommitter": "`TABLE_CALL`, made by LoneCalls, as IcebergSink",
    "IcebergSource": "`TABLE_CALL`, made by LoneCalls, as IcebergSink",
    "IcebergCommitter": "a TableCommitter",
    "ParquetCommitter": "a TableCommitter",
    "EpochCommitter": "made of Transactions; real brokers freeze in tests/connectors/kafka",
    "OwnRowsCommitter": "made of a RetryingSession, as PostgresSink",
    "StagedRowsCommitter": "made of a RetryingSession, as PostgresSink",
    "LedgerCommitter": "made of a DatabaseSession, as SqlDatabaseSink",
    "OwnEpochsCommitter": "a LedgerCommitter",
    "LanceDbSink": "`TABLE_CALL`, made by LoneCalls (test_bounded_calls.py)",
    "LanceDbCommitter": "as LanceDbSink",
    "LanceDbLookup": "`LOOKUP`, made by BoundedCalls (test_bounded_calls.py)",
    "NearestLookup": "as LanceDbLookup",
    "_TableLookup": "the base of LanceDbLookup and NearestLookup",
    "DuckDbSink": "its file is local: a held lock is bounded in tests/connectors/duckdb",
    "DuckDbSource": "its file is local, as that of DuckDbSink",
    "DuckDbLookup": "its file is local, as that of DuckDbSink",
    "DuckDbCommitter": "its file is local, as that of DuckDbSink",
    "SpillingSink": "the base of the sinks of Redis, brokers and stores",
    "SpilledCommitter": "delivers as the sinks that derive from SpillingSink do",
    "OwnSpilledCommitter": "a SpilledCommitter",
    "TableLogCommitter": "the base of DeltaTableCommitter and IcebergTableCommitter",
    "TableLogSink": "the base of DeltaSink and IcebergSink",
}
"""Why each of these connectors has no case."""


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    FrozenFileSystem.let_go.clear()
    yield
    FrozenFileSystem.let_go.set()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{of}-{name}")
        for of, cases in CASES.items()
        for name, case in cases.items()
    ],
)
def test_a_server_that_never_answers_is_unavailable_within_our_limit(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    with frozen_server() as port:
        error = outcome(lambda: case(port))
    assert "no answer for" in str(error), repr(error)


def kinds() -> set[str]:
    """Return the names of all connectors that Rheos has."""
    for info in pkgutil.walk_packages(rheos.connectors.__path__, "rheos.connectors."):
        importlib.import_module(info.name)

    def below(kind: Any) -> Iterator[type]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    bases: tuple[type, ...] = (Source, Sink, Committer, SourceClient, Lookup)
    found = {kind for base in bases for kind in below(base)}
    return {kind.__name__ for kind in found if kind.__module__.startswith("rheos.connectors.")}


def test_every_connector_has_cases_or_makes_no_calls() -> None:
    others = {"FsspecStore", "SchemaRegistry"}
    assert kinds() == (CASES.keys() - others) | ASKS_NOBODY.keys()
    assert not CASES.keys() & ASKS_NOBODY.keys()


# --- modules that use client libraries --------------------------------------------------------------

LIBRARIES = {
    "boto3",
    "botocore",
    "cassandra",
    "confluent_kafka",
    "fsspec",
    "hdfs_native",
    "http.client",
    "httpx",
    "nats",
    "paho",
    "pika",
    "pulsar",
    "happybase",
    "opentelemetry.exporter",
    "psycopg",
    "pymongo",
    "pymysql",
    "redis",
    "requests",
    "sqlalchemy",
    "urllib.request",
    "urllib3",
}
USERS = {
    "bounded by its callers": {
        "connectors/aws/client_options.py",
        "connectors/calls/hadoop_files.py",
        "connectors/calls/hdfs.py",
        "connectors/calls/webhdfs.py",
        "connectors/delta/appended_files.py",
        "connectors/delta/change_source.py",
        "connectors/delta/delta_log.py",
        "connectors/delta/expired_files.py",
        "connectors/delta/sink.py",
        "connectors/delta/source.py",
        "connectors/iceberg/change_source.py",
        "connectors/iceberg/library.py",
        "connectors/iceberg/sink.py",
        "connectors/iceberg/source.py",
        "connectors/files/publication/azure.py",
        "connectors/kafka/admin.py",
        "connectors/kafka/arrow_producing.py",
        "connectors/kafka/client_options.py",
        "connectors/nats/client_options.py",
        "connectors/mqtt/client_options.py",
        "connectors/rabbitmq/client_options.py",
        "connectors/pulsar/client_options.py",
        "connectors/postgres/connection.py",
        "connectors/redis/client_options.py",
        "connectors/sql_database/address.py",
    },
    "requests with a deadline, for such clients": {
        "connectors/calls/http_deadlines.py",
        "connectors/calls/http_session.py",
    },
    "types and dialects": {
        "connectors/sql_database/column_limits.py",
        "connectors/sql_database/column_types.py",
        "connectors/sql_database/statements.py",
    },
    "names of status codes": {"connectors/listener/connection.py"},
    "paths of URLs": {"connectors/files/partition_reading.py"},
    "declares its calls": {
        "connectors/cassandra/client.py",
        "connectors/duckdb/database_file.py",
        "connectors/lancedb/vector_store.py",
        "connectors/calls/file_systems.py",
        "connectors/delta/delta_table.py",
        "connectors/mysql/server_login.py",
        "connectors/clickhouse/session.py",
        "connectors/hbase/session.py",
        "connectors/mongodb/session.py",
        "connectors/opensearch/client.py",
        "ops/control/alert_webhook.py",
        "ops/control/otlp_export.py",
        "ops/views/rest_reads.py",
        "formats/schema_registry.py",
    },
}
"""The modules that import a client library, by the reason for which their calls end."""


def libraries_of(path: Path) -> set[str]:
    found: set[str] = set()
    text = path.read_text()
    if "CONNECTOR.client()" in text:
        found.add("the client library of its registration")
    if not any(library in text for library in LIBRARIES):
        return found
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            names = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
        for name in names:
            found |= {each for each in LIBRARIES if f"{name}.".startswith(f"{each}.")}
    return found


def test_every_module_that_uses_a_client_library_is_known() -> None:
    files = (path for path in SRC.rglob("*.py") if "testing" not in path.parts)
    found = {str(path.relative_to(SRC)) for path in files if libraries_of(path)}
    assert found == set().union(*USERS.values())
    declaring = {name.rpartition(".")[0] for name in declared_calls()}
    for path in USERS["declares its calls"]:
        assert f"rheos.{path.removesuffix('.py').replace('/', '.')}" in declaring


# --- remote files -----------------------------------------------------------------------------------


def test_each_request_of_a_remote_file_system_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
    system, _ = url_to_fs(URL)
    for request in ("ls", "mv", "open"):
        error = outcome(partial(getattr(system, request), "a"))
        assert isinstance(error, TimeoutError), request


# --- the table in the docs --------------------------------------------------------------------------


def calls_table() -> str:
    """Return the table of all declared calls, as the docs page has it."""
    lines = ["| server | call | limit without progress | what happens then |", "|---|---|---|---|"]
    for call in sorted(declared_calls().values(), key=lambda each: (each.server.lower(), each.call)):
        limit = "none" if call.limit_s == float("inf") else f"{call.limit_s:g} s"
        more = f": {call.limit}" if call.limit else ""
        lines.append(f"| {call.server} | {call.call} | {limit}{more} | {call.then} |")
    return "\n".join(lines)


def test_the_page_has_the_table_of_all_calls() -> None:
    page = OPERATING.read_text()
    _, _, rest = page.partition("<!-- outside calls -->\n")
    table, _, _ = rest.partition("\n\n")
    assert table == calls_table(), f"write this table into {OPERATING.name}:\n{calls_table()}"


def test_a_declared_call_says_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, call in declared_calls().items():
        assert call.server, name
        assert call.call, name
        assert call.then, name
        assert call.limit_s > 0, name
        assert call.limit or call.limit_s < float("inf"), name
