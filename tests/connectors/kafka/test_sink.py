"""The sink on a real broker: what readers of committed records see when committers die."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.kafka import cluster, marks, transactions
from rheos.connectors.kafka.client_options import ClientOptions
from rheos.connectors.kafka.epoch_commits import Action, Commit, Write
from rheos.connectors.kafka.producing import Producing
from rheos.connectors.kafka.sink import KafkaSink
from rheos.connectors.kafka.transactions import Transactions
from rheos.connectors.kafka.writers import ExactlyOnceWriter
from rheos.core.connectors.contract import SinkWriter
from rheos.core.connectors.sink_capabilities import HasCommitter
from rheos.core.errors import (
    ConfigurationError,
    InputError,
    ProgramError,
    RheosError,
    UnavailableError,
    UnrestorableError,
)
from rheos.core.protocol.ids import CheckpointId
from rheos.testing import simulate
from rheos.testing.simulation import Simulated
from tests.connectors.kafka.topics import Record, new_topic, read, set_topic, values
from tests.connectors.ports import batch_of, sink_context
from tests.waiting import wait_for

SCHEMA = pa.schema([pa.field("k", pa.string()), pa.field("n", pa.int64())])


def rows(*numbers: int) -> pa.RecordBatch:
    return batch_of(SCHEMA, *({"k": f"k{n}", "n": n} for n in numbers))


def prepared(broker: Any, folder: Path, topic: str, **given: Any) -> KafkaSink:
    sink = rh.kafka.sink(topic, brokers=broker.address, **{"value": "n", **given})
    sink.validate(SCHEMA)
    return sink.prepared(SCHEMA, ("job", "sink")).staged(str(folder))


def seen(broker: Any, topic: str) -> list[int]:
    return sorted(rh_json(value) for value in values(broker.address, topic))


def rh_json(value: bytes | None) -> int:
    assert value is not None
    return int(value.removeprefix(b'{"n":').removesuffix(b"}"))


def epoch(writer: SinkWriter, checkpoint: int, *numbers: int) -> list[bytes]:
    writer.write(rows(*numbers))
    return writer.prepare(CheckpointId(checkpoint))


class Halted(Exception):  # noqa: N818
    """Raised to end the simulated process."""


def halt_before(kind: type[Action], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let committers die before that action."""
    carry_out = Transactions._carry_out

    def dies(self: Transactions, action: Action, *rest: Any) -> Any:
        if isinstance(action, kind):
            raise Halted
        return carry_out(self, action, *rest)

    monkeypatch.setattr(Transactions, "_carry_out", dies)
    monkeypatch.setattr(Transactions, "close", lambda self: None)


def test_rows_are_visible_once_their_checkpoint_is_committed(kafka_broker: Any, tmp_path: Path) -> None:
    topic = new_topic(kafka_broker.address)
    sink = prepared(kafka_broker, tmp_path, topic)
    writer = sink.open(sink_context(SCHEMA))
    first = epoch(writer, 1, 1, 2)
    assert seen(kafka_broker, topic) == []
    committer = writer.committer()
    assert committer is not None
    committer.commit(first)
    assert seen(kafka_broker, topic) == [1, 2]
    both = first + epoch(writer, 2, 3)
    committer.commit(both)
    committer.commit(both)
    recovering = sink.committer()
    assert recovering is not None
    recovering.commit(both)
    assert seen(kafka_broker, topic) == [1, 2, 3]
    writer.close()
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".done"]


def test_writers_with_the_same_ids_share_nothing(kafka_broker: Any, tmp_path: Path) -> None:
    """Check a job whose log was lost: it begins again with attempt 1 and checkpoint 1, and so may a
    fork."""
    topic = new_topic(kafka_broker.address)
    for number, folder in enumerate((tmp_path / "a", tmp_path / "b", tmp_path / "b")):
        writer = prepared(kafka_broker, folder, topic).open(sink_context(SCHEMA))
        _commit(writer, epoch(writer, 1, number))
        writer.close()
    assert seen(kafka_broker, topic) == [0, 1, 2]


def test_parts_of_records_come_from_columns(kafka_broker: Any, tmp_path: Path) -> None:
    schema = pa.schema({"k": pa.string(), "n": pa.int64(), "p": pa.int32(), "gone": pa.bool_()})
    topic = new_topic(kafka_broker.address, 2)
    sink = rh.kafka.sink(
        topic,
        brokers=[kafka_broker.address],
        key="k",
        headers={"who": "k"},
        partition="p",
        timestamp="n",
        tombstone="gone",
        value=["k", "n"],
        options={"compression.type": "lz4"},
    )
    sink = sink.prepared(schema, ("job", "sink")).staged(str(tmp_path))
    writer = sink.open(sink_context(schema))
    writer.write(
        batch_of(
            schema,
            {"k": "a", "n": 5, "p": 1, "gone": False},
            {"k": "b", "n": 6, "p": 0, "gone": True},
        )
    )
    committer = writer.committer()
    assert committer is not None
    committer.commit(writer.prepare(CheckpointId(1)))
    writer.close()
    assert read(kafka_broker.address, topic) == [
        Record(None, b"b", 0, 6, (("who", b"b"),)),
        Record(b'{"k":"a","n":5}', b"a", 1, 5, (("who", b"a"),)),
    ]


def test_a_driver_commits_what_the_log_has_after_a_kill(
    kafka_broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check kills between the log's entry and the commit, and between records and the end of the
    transaction."""
    topic = new_topic(kafka_broker.address)
    sink = prepared(kafka_broker, tmp_path, topic)
    listed = []
    for subtask, kind in enumerate((Write, Commit)):
        writer = sink.open(sink_context(SCHEMA, subtask=subtask))
        committables = epoch(writer, 3, subtask * 10, subtask * 10 + 1)
        with monkeypatch.context() as killed:
            halt_before(kind, killed)
            with pytest.raises(Halted):
                _commit(writer, committables)
        listed += committables
    assert seen(kafka_broker, topic) == []
    driver = sink.committer()
    assert driver is not None
    driver.commit(listed)
    driver.commit(listed)
    assert seen(kafka_broker, topic) == [0, 1, 10, 11]


@pytest.mark.proves("Kafka", faults=["a replaced process continues"])
def test_replaced_committers_are_fenced_or_find_the_epoch_committed(
    kafka_broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(kafka_broker.address)
    sink = prepared(kafka_broker, tmp_path, topic)
    zombie = sink.open(sink_context(SCHEMA))
    committables = epoch(zombie, 1, 1, 2)
    driver = sink.committer()
    assert driver is not None
    carry_out = Transactions._carry_out
    decisions: list[Action] = []

    def sleeps_before_it_commits(self: Transactions, action: Action, *rest: Any) -> Any:
        decisions.append(action)
        if isinstance(action, Commit) and decisions.count(action) == 1:
            with monkeypatch.context() as awake:
                awake.setattr(Transactions, "_carry_out", carry_out)
                driver.commit(committables)
        return carry_out(self, action, *rest)

    monkeypatch.setattr(Transactions, "_carry_out", sleeps_before_it_commits)
    _commit(zombie, committables)  # Fenced; it looks again, and finds the mark.
    assert decisions.count(Commit(1)) == 1
    assert seen(kafka_broker, topic) == [1, 2]
    zombie.close()


@pytest.mark.proves("Kafka", faults=["a transaction times out"])
def test_a_transaction_that_times_out_is_written_again(
    kafka_broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(kafka_broker.address)
    sink = prepared(kafka_broker, tmp_path, topic, options={"transaction.timeout.ms": 3000})
    counts: Counter[str] = Counter()
    writer = sink.open(replace(sink_context(SCHEMA), count=lambda name, by: counts.update({name: by})))
    committables = epoch(writer, 1, 1, 2)
    carry_out = Transactions._carry_out
    slow = [True]

    def takes_too_long(self: Transactions, action: Action, *rest: Any) -> Any:
        if isinstance(action, Commit) and slow:
            slow.clear()
            while values(kafka_broker.address, topic, committed=False) == []:
                pass
            _until_aborted(kafka_broker.address, topic)
        return carry_out(self, action, *rest)

    monkeypatch.setattr(Transactions, "_carry_out", takes_too_long)
    _commit(writer, committables)
    assert seen(kafka_broker, topic) == [1, 2]
    assert len(values(kafka_broker.address, topic, committed=False)) >= 4
    assert writer.prepare(CheckpointId(2)) == []
    assert counts["retries"] >= 1
    writer.close()


def _until_aborted(brokers: str, topic: str) -> None:
    """Wait until readers of committed records reach the end of the topic again."""
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": brokers})
    place = TopicPartition(topic, 0)
    ends = {}
    while len(set(ends.values())) != 1:
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            found = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=level)
            ends[level] = found[place].result().offset


def test_if_the_broker_has_lost_the_mark_the_note_decides(
    kafka_broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(kafka_broker.address)
    sink = prepared(kafka_broker, tmp_path, topic)
    writer = sink.open(sink_context(SCHEMA))
    first = epoch(writer, 1, 1)
    _commit(writer, first)
    second = epoch(writer, 2, 2)
    assert isinstance(writer, ExactlyOnceWriter)
    _forget(kafka_broker.address, writer._transactions._name)
    driver = sink.committer()
    assert driver is not None
    driver.commit(first)
    with pytest.raises(UnrestorableError, match="it is unknown whether the records staged for"):
        driver.commit(first + second)
    assert seen(kafka_broker, topic) == [1]
    chosen = prepared(kafka_broker, tmp_path, topic, if_unknown="write").committer()
    assert chosen is not None
    chosen.commit(first + second)
    chosen.commit(first + second)
    assert seen(kafka_broker, topic) == [1, 2]
    writer.close()


def _forget(brokers: str, group: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": brokers})
    [deleted] = admin.delete_consumer_groups([group]).values()
    deleted.result()


def test_at_least_once_rows_are_delivered_before_the_barrier(kafka_broker: Any, tmp_path: Path) -> None:
    topic = new_topic(kafka_broker.address)
    sink = prepared(kafka_broker, tmp_path, topic, guarantee="at_least_once")
    writer = sink.open(sink_context(SCHEMA))
    assert not isinstance(writer, HasCommitter) or writer.committer() is None
    writer.write(batch_of(SCHEMA, {"n": 1}))
    wait_for(lambda: seen(kafka_broker, topic) == [1])
    assert epoch(writer, 1, 2, 3) == []
    assert seen(kafka_broker, topic) == [1, 2, 3]
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_epochs_staged_before_a_change_to_at_least_once_are_committed(
    kafka_broker: Any, tmp_path: Path
) -> None:
    topic = new_topic(kafka_broker.address)
    writer = prepared(kafka_broker, tmp_path, topic).open(sink_context(SCHEMA))
    listed = epoch(writer, 1, 1, 2)
    writer.close()
    changed = prepared(kafka_broker, tmp_path, topic, guarantee="at_least_once").committer()
    assert changed is not None
    changed.commit(listed)
    assert seen(kafka_broker, topic) == [1, 2]


def test_a_missing_topic_is_an_error_at_the_line_of_the_sink(kafka_broker: Any) -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        numbers = env.from_source(rh.collection([{"n": 1}]))
        numbers.sink_to(rh.kafka.sink("no-such-topic", brokers=kafka_broker.address))
        return numbers

    with pytest.raises(ConfigurationError, match="the topic 'no-such-topic' does not") as missing:
        simulate(build)
    assert str(missing.value).startswith(f"{__file__}:")
    assert missing.value.hint


def test_a_broker_that_cannot_be_reached_is_an_error_when_the_job_is_submitted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(cluster, "REACHED_WITHIN_S", 0.3)
    options = {"sasl.username": "visits", "sasl.password": "hunter2", "sasl.mechanism": "PLAIN"}
    sink = rh.kafka.sink("t", brokers="127.0.0.1:1", options=options)
    with caplog.at_level(logging.DEBUG), pytest.raises(UnavailableError) as away:
        sink.prepared(SCHEMA, ("job", "sink"))
    assert "at 127.0.0.1:1" in away.value.what
    for text in (str(away.value), repr(sink), sink.describe(), caplog.text):
        assert "hunter2" not in text


def test_a_record_that_is_too_large_is_refused_before_it_is_staged(
    kafka_broker: Any, tmp_path: Path
) -> None:
    topic = new_topic(kafka_broker.address, max_message_bytes="1000")
    sink = prepared(kafka_broker, tmp_path, topic, value="k")
    writer = sink.open(sink_context(SCHEMA))
    writer.write(batch_of(SCHEMA, {"k": "x" * 800, "n": 1}))
    with pytest.raises(InputError, match="a record of 808 bytes") as large:
        writer.prepare(CheckpointId(1))
    assert "xxx" in (large.value.record or "")
    assert "max.message.bytes" in (large.value.hint or "")
    writer.close()


def test_a_record_that_the_broker_refuses_is_named_and_written_once_allowed(
    kafka_broker: Any, tmp_path: Path
) -> None:
    """Check this with a topic whose limit is lowered after the job was submitted."""
    topic = new_topic(kafka_broker.address, max_message_bytes="1000")
    sink = prepared(kafka_broker, tmp_path, topic, key="k")
    sink = KafkaSink(replace(sink.target, max_bytes=0), "exactly_once")
    writer = sink.open(sink_context(SCHEMA))
    writer.write(batch_of(SCHEMA, {"k": "x" * 2000, "n": 1}))
    committables = writer.prepare(CheckpointId(1))
    with pytest.raises(InputError, match=r"has rejected a record.*MSG_SIZE_TOO_LARGE") as refused:
        _commit(writer, committables)
    assert (refused.value.key or "").startswith("b'xxx")
    assert "max.message.bytes" in (refused.value.hint or "")
    assert seen(kafka_broker, topic) == []
    set_topic(kafka_broker.address, topic, "max.message.bytes", "10000")

    def is_taken() -> bool:
        """Return whether a broker has received the setting, which may be later than the controller."""
        try:
            _commit(writer, committables)
        except InputError:
            return False
        return True

    wait_for(is_taken)
    assert seen(kafka_broker, topic) == [1]
    writer.close()


def test_options_that_the_client_or_the_broker_refuses_are_named(
    kafka_broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(kafka_broker.address)
    with pytest.raises(ConfigurationError, match='No such configuration property: "linger"'):
        prepared(kafka_broker, tmp_path, topic, options={"linger": 3})
    sink = prepared(kafka_broker, tmp_path, topic, options={"transaction.timeout.ms": 3_600_000})
    writer = sink.open(sink_context(SCHEMA))
    with pytest.raises(ConfigurationError, match="INVALID_TRANSACTION_TIMEOUT") as refused:
        _commit(writer, epoch(writer, 1, 1))
    assert "transaction.max.timeout.ms" in (refused.value.hint or "")
    writer.close()


def test_sasl_admits_users_and_no_error_shows_a_password(kafka_broker: Any, tmp_path: Path) -> None:
    topic = new_topic(kafka_broker.address)
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ada"}

    def sink(password: str) -> KafkaSink:
        options = {**sasl, "sasl.password": password}
        return rh.kafka.sink(topic, brokers=kafka_broker.sasl_address, value="n", options=options)

    known = sink("lovelace").prepared(SCHEMA, ("job", "sink")).staged(str(tmp_path))
    writer = known.open(sink_context(SCHEMA))
    _commit(writer, epoch(writer, 1, 1))
    assert seen(kafka_broker, topic) == [1]
    with pytest.raises(ConfigurationError, match="Invalid username or password") as on_driver:
        sink("geheim").prepared(SCHEMA, ("job", "sink"))
    # A password that was changed since is refused in the workers, and in recovery.
    changed = KafkaSink(replace(known.target, options=sink("geheim").target.options), "exactly_once")
    with pytest.raises(ConfigurationError, match="Invalid username or password") as in_worker:
        changed.open(sink_context(SCHEMA))
    committer = changed.committer()
    assert committer is not None
    with pytest.raises(ConfigurationError, match="Invalid username or password") as in_recovery:
        committer.commit(epoch(writer, 2, 2))
    assert "geheim" not in f"{on_driver.value}{in_worker.value}{in_recovery.value}{changed}"
    staged = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert staged
    assert not any(b"lovelace" in content for content in staged)
    writer.close()


def test_a_topic_that_is_deleted_under_the_sink_is_named(
    kafka_broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka.admin import AdminClient

    topic = new_topic(kafka_broker.address)
    soon = {"topic.metadata.propagation.max.ms": 200, "topic.metadata.refresh.interval.ms": 200}
    once = prepared(kafka_broker, tmp_path, topic, options=soon).open(sink_context(SCHEMA))
    twice = prepared(
        kafka_broker, tmp_path, topic, guarantee="at_least_once", options=soon
    ).open(sink_context(SCHEMA))  # fmt: skip
    _commit(once, epoch(once, 1, 1))
    admin = AdminClient({"bootstrap.servers": kafka_broker.address})
    admin.delete_topics([topic])[topic].result(60)
    wait_for(lambda: topic not in admin.list_topics(timeout=60).topics)
    # A broker that has just started may not know a topic yet: so long is it asked again.
    monkeypatch.setattr(transactions, "ANSWER_S", 2.0)
    with pytest.raises(ConfigurationError, match=f"topic '{topic}'") as in_commit:
        _commit(once, epoch(once, 2, 2))
    with pytest.raises(ConfigurationError, match=f"topic '{topic}'") as in_barrier:
        epoch(twice, 1, 1)
    for raised in (in_commit, in_barrier):
        assert "create the topic, or correct its name; Rheos does not" in str(raised.value.hint)
    once.close()
    twice.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topic": "a b"}, "'a b' is not a valid topic name"),
        ({"topic": ["a", "b"]}, "is not a valid topic name"),
        ({"key": ["page", "user"]}, "is not a column name"),
        ({"partition": 3}, "partition=3 is not a column name"),
        ({"value": 3}, "value=3 does not name columns"),
        ({"headers": ["trace"]}, "headers=.* is not a dict"),
        ({"brokers": None}, "brokers=None is empty"),
        ({"guarantee": "twice"}, "guarantee='twice'"),
        ({"if_unknown": "guess"}, "if_unknown='guess'"),
        ({"id_prefix": "a b"}, "id_prefix='a b'"),
        ({"format": "json"}, "format='json'"),
        ({"options": {"acks": 0}}, "'acks' is set by Rheos"),
        ({"options": {"transactional.id": "x"}}, "'transactional.id' is set by Rheos"),
    ],
)
def test_invalid_arguments_are_refused_at_their_line(given: dict[str, Any], said: str) -> None:
    pytest.importorskip("confluent_kafka")
    with pytest.raises(ProgramError, match=said) as refused:
        rh.kafka.sink(**{"topic": "t", "brokers": "b:9092", **given})
    assert str(refused.value).startswith(f"{__file__}:")


def test_a_broker_lost_for_good_fails_the_commit_but_keeps_the_epoch(
    kafka_broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(kafka_broker.address)
    sink = prepared(kafka_broker, tmp_path, topic)
    writer = sink.open(sink_context(SCHEMA))
    committables = epoch(writer, 1, 1)
    away = prepared(kafka_broker, tmp_path, topic)
    monkeypatch.setattr(transactions, "ANSWER_S", 0.2)
    monkeypatch.setattr(marks, "CREATED_WITHIN_S", 0.2)
    monkeypatch.setattr("rheos.connectors.kafka.epoch_commits.PAUSES_MS", (10,))
    nowhere = replace(away.target, options=ClientOptions.of("127.0.0.1:1"))
    unreachable = KafkaSink(nowhere, "exactly_once").committer()
    assert unreachable is not None
    with pytest.raises(UnavailableError, match="cannot be written exactly once, at 127"):
        unreachable.commit(committables)
    with pytest.raises(UnavailableError, match=r"once, at 127\.0\.0\.1:1"):
        KafkaSink(nowhere, "exactly_once").open(sink_context(SCHEMA))
    monkeypatch.undo()
    _commit(writer, committables)
    assert seen(kafka_broker, topic) == [1]
    writer.close()


class StuckClient:
    """Client that does not return from sending offsets, whatever its limit, until the test releases
    it."""

    def __init__(self, client: Any, let_go: threading.Event) -> None:
        self._client = client
        self._let_go = let_go

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __len__(self) -> int:
        return len(self._client)

    def send_offsets_to_transaction(self, *_: Any) -> None:
        self._let_go.wait(500)


def test_a_client_over_its_limit_is_abandoned_without_duplicates(
    kafka_broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(kafka_broker.address)
    writer = prepared(kafka_broker, tmp_path, topic).open(sink_context(SCHEMA))
    committables = epoch(writer, 1, *range(100))
    let_go, stuck, closed = threading.Event(), list[Any](), threading.Event()
    fence, close = Producing.fence, Producing.close

    def gets_stuck(self: Producing, within_s: float) -> None:
        fence(self, within_s)
        if not stuck:
            stuck.append(self)
            self.client = StuckClient(self.client, let_go)
            monkeypatch.setattr(transactions, "ANSWER_S", 0.1)
            monkeypatch.setattr(transactions, "GRACE_S", 0.1)
        else:
            monkeypatch.setattr(transactions, "ANSWER_S", 60.0)

    def closes(self: Producing) -> None:
        close(self)
        if self in stuck:
            closed.set()

    monkeypatch.setattr(Producing, "fence", gets_stuck)
    monkeypatch.setattr(Producing, "close", closes)
    monkeypatch.setattr(transactions, "ANSWER_S", 60.0)
    _commit(writer, committables)
    assert seen(kafka_broker, topic) == list(range(100))
    assert not closed.is_set()
    let_go.set()
    assert closed.wait(400)
    assert seen(kafka_broker, topic) == list(range(100))
    writer.close()


@pytest.mark.slow
@pytest.mark.proves(
    "Kafka",
    faults=["the broker is killed during a commit"],
    slow_because="every run simulates commits that end at any step, and kills the broker of a source",
)
def test_an_epoch_is_in_the_topic_once_if_the_broker_is_killed_during_its_commit(
    kafka_broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(kafka_broker.address)
    writer = prepared(kafka_broker, tmp_path, topic).open(sink_context(SCHEMA))
    committables = epoch(writer, 1, *range(100))
    carry_out = Transactions._carry_out
    killed = []

    def comes_back_later(self: Transactions, action: Action, *rest: Any) -> Any:
        if isinstance(action, Commit) and not killed:
            kafka_broker.kill()
            killed.append(threading.Thread(target=kafka_broker.start))
            killed[0].start()
        return carry_out(self, action, *rest)

    monkeypatch.setattr(Transactions, "_carry_out", comes_back_later)
    _commit(writer, committables)
    killed[0].join()
    assert seen(kafka_broker, topic) == list(range(100))
    writer.close()


def simulated(broker: Any, seed: int) -> Simulated:
    """Run a job with two sinks, one of them a topic, and check that each row is in it once."""
    topic = new_topic(broker.address, 2)

    def build(env: rh.Environment) -> rh.DataStream:
        made = rh.generator(
            lambda block: {"n": block.index() * 2 + block.split}, count=300, splits=2, rate_per_s=300
        )
        numbers = env.from_source(made)
        numbers.sink_to(rh.kafka.sink(topic, brokers=broker.address))
        return numbers

    done = simulate(build, seed=seed)
    assert seen(broker, topic) == sorted(done.out["n"].to_pylist()) == list(range(300)), seed
    return done


@pytest.mark.proves("Kafka", faults=["workers and drivers of a simulated job crash"])
def test_a_simulated_job_with_crashes_and_new_drivers_writes_each_row_once(kafka_broker: Any) -> None:
    runs = (simulated(kafka_broker, seed) for seed in range(20))
    assert any(done.crashes > 0 and done.drivers > 1 for done in runs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 32))
def test_further_simulated_jobs_write_each_row_once(kafka_broker: Any, seed: int) -> None:
    simulated(kafka_broker, seed)


def _commit(writer: SinkWriter, committables: list[bytes]) -> None:
    committer = writer.committer()
    assert committer is not None
    try:
        committer.commit(committables)
    except RheosError as error:
        raise error from None
