"""Events of OpenLineage have the form of the specification, and name what a job reads and writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.core.checkpoint.events import Outcome
from rheos.core.connectors.datasets import Dataset, datasets_of, path_dataset
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.ids import JobId
from rheos.ops.control.controlled_jobs import ControlledJob
from rheos.ops.openlineage.emitter import MOST_WAITING, RETRY_FOR_S, RUNNING_EVERY_S, LineageEmitter
from rheos.ops.openlineage.events import JobLineage, RunState, lineage_of
from rheos.runtimes.job import JobConfig, JobState, JobStatus, LineageConfig, ParentRun
from tests.api.test_settings import program, settled
from tests.cli.stand_ins import STATUS, StandIn, outline

client = pytest.importorskip("openlineage.client")
RUN = "00000000-0000-4000-8000-000000000001"
SCRIPT = """
CREATE TABLE orders (id BIGINT, "user" STRING, amount DECIMAL(9, 2)) WITH (
    'connector' = 'kafka', 'topic' = 'orders', 'format' = 'json',
    'brokers' = 'kafka1:9092,kafka2:9092');
CREATE TABLE spent (password STRING, total DECIMAL(19, 2), PRIMARY KEY (password) NOT ENFORCED) WITH (
    'connector' = 'sql_database', 'table' = 'spent', 'url' = 'postgresql://ada:secret@db/shop');
INSERT INTO spent SELECT "user", SUM(amount) FROM orders WHERE id > 3 GROUP BY "user";
""".replace('"user"', "`user`")


def of_sql(config: LineageConfig, key: str = "job-1") -> JobLineage:
    env = rh.Environment(runtime="simulated")
    env.sql_script(SCRIPT)
    _, plan, _ = env._plans.plan("spending")
    assert env._sql is not None
    return lineage_of(plan, config, key, env._sql.origins())


def checked(event: dict[str, Any]) -> Any:
    """Return the event as the classes of OpenLineage's own client, which refuse unknown fields."""
    from openlineage.client import facet_v2, generated

    def facets(of: dict[str, Any]) -> dict[str, Any]:
        made = {}
        for facet in of.values():
            name = facet["_schemaURL"].rpartition("/")[2]
            modules = [getattr(facet_v2, each) for each in dir(facet_v2)]
            [kind] = {getattr(each, name) for each in modules if hasattr(each, name)}
            made[name] = kind(**{key: value for key, value in facet.items() if key[0] != "_"})
            assert made[name]._schemaURL == facet["_schemaURL"]
        return made

    base = generated.base
    assert event["schemaURL"] == base.RunEvent._get_schema()
    for what, kind in (("inputs", base.InputDataset), ("outputs", base.OutputDataset)):
        event[what] = [kind(**{**each, "facets": facets(each["facets"])}) for each in event[what]]
    run, job = event["run"], event["job"]
    return base.RunEvent(
        eventTime=event["eventTime"],
        producer=event["producer"],
        eventType=base.EventType(event["eventType"]),
        run=base.Run(run["runId"], facets(run["facets"])),
        job=base.Job(**{**job, "facets": facets(job["facets"])}),
        inputs=event["inputs"],
        outputs=event["outputs"],
    )


@pytest.mark.parametrize("state", RunState)
def test_an_event_has_the_form_of_the_specification(state: RunState) -> None:
    parent = ParentRun("http://airflow/prod", "daily.spending", RUN)
    lineage = of_sql(LineageConfig("http://catalog", namespace="shop", parent=parent))
    failure = "no answer from https://ada:secret@host" if state is RunState.FAIL else None
    event = lineage.event(state, "2026-03-01T12:00:00.000Z", failure)
    text = json.dumps(event)
    assert "secret" not in text
    made = checked(json.loads(text))
    assert (made.job.namespace, made.job.name) == ("shop", "spending")
    [orders] = made.inputs
    [spent] = made.outputs
    assert (orders.namespace, orders.name) == ("kafka://kafka1:9092", "orders")
    assert (spent.namespace, spent.name) == ("postgres://db:5432", "shop.public.spent")
    assert {each["name"] for each in orders.facets["SchemaDatasetFacet"].fields} >= {"user", "amount"}
    of = {
        column: [(each["name"], each["field"]) for each in value["inputFields"]]
        for column, value in spent.facets["ColumnLineageDatasetFacet"].fields.items()
    }
    assert of == {"password": [("orders", "user")], "total": [("orders", "amount")]}
    assert made.run.facets["ParentRunFacet"].run == {"runId": RUN}
    assert made.job.facets["JobTypeJobFacet"].processingType == "STREAMING"
    assert ("ErrorMessageRunFacet" in made.run.facets) == (state is RunState.FAIL)


def test_the_run_is_the_same_for_each_driver_of_a_job() -> None:
    config = LineageConfig("http://catalog")
    first, again, other = of_sql(config), of_sql(config), of_sql(config, "job-2")
    assert first.run == again.run != other.run


def test_connectors_name_their_datasets() -> None:
    catalog, form = {"type": "rest", "uri": "https://catalog.example"}, rh.formats.json()
    named: list[tuple[Any, str, str]] = [
        (rh.kafka.sink("t", brokers="k:9092", format=form), "kafka://k:9092", "t"),
        (rh.postgres.sink("shop.t", url="postgresql://a:b@h:6432/d"), "postgres://h:6432", "d.shop.t"),
        (rh.sql_database.sink("t", url="mysql://a:b@h/d"), "mysql://h:3306", "d.t"),
        (rh.sql_database.sink("t", url="sqlite:////x/a.db"), "sqlite:/x/a.db", "t"),
        (rh.duckdb.sink("t", path="/x/a.duckdb"), "duckdb:/x/a.duckdb", "main.t"),
        (rh.files.sink("s3://lake/shop/", format="parquet"), "s3://lake", "shop"),
        (rh.clickhouse.sink("shop.t", url="http://a:b@h:8123"), "clickhouse://h:8123", "shop.t"),
        (rh.mongodb.sink("t", url="mongodb://a:b@h:27017/d", id="id"), "mongodb://h:27017", "d.t"),
        (rh.delta.sink("/lake/shop"), "file", "/lake/shop"),
        (rh.iceberg.sink("shop.t", catalog=catalog), "https://catalog.example", "shop.t"),
        (
            rh.kinesis.sink("t", region="eu-west-1", format=form),
            "kinesis://kinesis.eu-west-1.amazonaws.com",
            "t",
        ),
        (
            rh.kinesis.sink(
                "arn:aws:kinesis:eu-west-1:1:stream/t",
                endpoint="http://h:5",
                region="eu-west-1",
                format=form,
            ),
            "kinesis://h:5",
            "t",
        ),
        (
            rh.sqs.sink("http://h:5/1/t", endpoint="http://h:5", region="eu-west-1", format=form),
            "sqs://h:5",
            "t",
        ),
        (rh.pulsar.sink("pulsar://h:6650,g:6650", topic="t", format=form), "pulsar://h:6650", "t"),
        (rh.tables.sink("/lake/shop"), "file", "/lake/shop"),
        (rh.redis.sink("redis://:b@h:6379/0", key="user:{id}"), "redis://h:6379/0", "user:{id}"),
    ]
    for sink, namespace, name in named:
        assert datasets_of(sink) == (Dataset(namespace, name),)
    assert datasets_of(rh.print_sink()) == ()


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/a//b/", "file", "/a/b"),
        ("file:///a/b", "file", "/a/b"),
        ("s3a://bucket/a/b/*.json", "s3://bucket", "a/b/*.json"),
        ("gcs://bucket", "gs://bucket", "/"),
        ("hdfs://name:8020/a", "hdfs://name:8020", "a"),
        ("abfs://c@s.dfs.core.windows.net/a", "abfss://c@s.dfs.core.windows.net", "a"),
        ("webhdfs://user:secret@h:1/a", "webhdfs://h:1", "a"),
    ],
)
def test_paths_are_named_by_their_storage(path: str, namespace: str, name: str) -> None:
    assert path_dataset(path) == Dataset(namespace, name)


class World:
    """An emitter with a clock of its own, and a receiver that answers as the test specifies."""

    now_s = 1_000

    def __init__(self) -> None:
        self.answers: list[int | OSError] = []
        self.received: list[str] = []
        self.state = JobState.RUNNING
        config = LineageConfig("http://catalog")
        self.emitter = LineageEmitter(config, of_sql(config), self.status, self, self)

    def now_ms(self) -> int:
        return self.now_s * 1_000

    def now_ns(self) -> int:
        return self.now_s * 1_000_000_000

    def monotonic_us(self) -> int:
        return self.now_s * 1_000_000

    def status(self) -> JobStatus:
        return replace(STATUS, state=self.state)

    def __call__(self, body: bytes) -> int:
        answer = self.answers.pop(0) if self.answers else 201
        if isinstance(answer, OSError):
            raise answer
        if answer < 300:
            self.received.append(json.loads(body)["eventType"])
        return answer

    def looks(self, for_s: int) -> None:
        for _ in range(for_s):
            self.emitter.look()
            self.now_s += 1


def test_a_job_that_runs_says_so_each_minute_and_ends_once() -> None:
    world = World()
    world.looks(2 * RUNNING_EVERY_S + 1)
    world.emitter.close(Outcome.STOPPED, None)
    assert world.received == ["START", "RUNNING", "RUNNING", "COMPLETE"]


def test_a_driver_that_another_one_replaces_ends_nothing() -> None:
    world = World()
    world.looks(1)
    world.emitter.close(None, None)
    assert world.received == ["START"]


def test_events_are_tried_again_and_then_dropped() -> None:
    world = World()
    world.answers = [500, OSError("away"), 429]
    world.looks(30)
    assert world.received == ["START"]
    world.answers = [503] * 10_000
    world.looks(RUNNING_EVERY_S * (MOST_WAITING + 50))
    assert len(world.emitter._waiting) < 5, "each is dropped after a minute"
    world.answers = []
    world.looks(RETRY_FOR_S)
    assert not world.emitter._waiting
    world.emitter.close(Outcome.CANCELLED, None)
    assert world.received[-1] == "ABORT"


def test_a_job_appends_its_events_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lineage.jsonl"
    to = LineageConfig("", str(path))
    job = StandIn()
    emitter = LineageEmitter(to, of_sql(to), job.status, World())
    emitter.start()
    controlled = ControlledJob(
        job, outline(), JobConfig(JobId("job"), lineage=to), "continuous", lineage=emitter
    )
    job.shown = replace(job.shown, state=JobState.FINISHED)
    job.over.set()
    controlled.wait()
    kinds = [json.loads(line)["eventType"] for line in path.read_text().splitlines()]
    assert kinds == ["START", "COMPLETE"]


VARIABLES = ("URL", "ENDPOINT", "NAMESPACE", "API_KEY", "PARENT_ID", "DISABLED")


@pytest.mark.parametrize(
    ("to", "variables", "expected"),
    [
        (None, {}, None),
        ("lineage.jsonl", {}, LineageConfig("", "/work-dir/lineage.jsonl")),
        ("http://a:5000", {}, LineageConfig("http://a:5000/api/v1/lineage")),
        ("https://a/b", {"API_KEY": "k"}, LineageConfig("https://a/b", api_key="k")),
        (None, {"URL": "http://a", "ENDPOINT": "/x"}, LineageConfig("http://a/x")),
        (None, {"URL": "http://a", "DISABLED": "true"}, None),
        (
            "http://a/b",
            {"NAMESPACE": "shop", "PARENT_ID": f"http://airflow/x/job/{RUN}"},
            LineageConfig(
                "http://a/b", namespace="shop", parent=ParentRun("http://airflow/x", "job", RUN)
            ),
        ),
    ],
)
def test_settings_and_variables_name_the_destination(
    to: str | None,
    variables: dict[str, str],
    expected: LineageConfig | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"OPENLINEAGE_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(f"OPENLINEAGE_{name}", value)
    monkeypatch.setattr("os.getcwd", lambda: "/work-dir")
    assert settled(program(lineage_to=to)).config.lineage == expected


def test_a_wrong_destination_is_an_error_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for to, message in (("ftp://a/b", "http or https"), ("http://u:secret@a", "no user or password")):
        with pytest.raises(ConfigurationError, match=message) as raised:
            settled(program(lineage_to=to))
        assert "secret" not in str(raised.value)
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", "daily")
    with pytest.raises(ConfigurationError, match="names no run"):
        settled(program(lineage_to="http://a"))
    assert repr(LineageConfig("https://a/secret", api_key="secret")) == "https://a/***"
