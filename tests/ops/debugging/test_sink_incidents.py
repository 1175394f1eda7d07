"""A wrong row of a sink becomes a test of the path from the sources to the sink, with the rows that led
to it."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.protocol.shown_rows import row_values
from rheos.ops.debugging.deliveries import Rows
from rheos.ops.debugging.incident import EmittedRow
from rheos.ops.debugging.recorded_lookups import RecordedLookups
from rheos.ops.debugging.sink_path import SinkPath
from rheos.ops.lineage.why_query import WhyQuestion, sink_replay
from rheos.testing import check_incident
from rheos.testing.incident_file import IncidentTest, incident_test
from rheos.testing.missing_row import incident_of_missing_row
from rheos.testing.recorded_incident import incident_of_row
from tests.ops.debugging.jobs import run_job

PROGRAM = '''
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

import rheos as rh
from rheos.core.connectors.lookup import Found, Lookup, LookupClient


@dataclass
class Order:
    id: int
    user: str
    amount: int
    at: int


@dataclass
class Payment:
    order: int
    paid: int
    due: int


@dataclass
class Total:
    user: str
    total: int


class Later(rh.KeyedProcessFunction):
    total = rh.ValueState(int, default=0)

    def process_element(self, order: Order, ctx: rh.KeyedContext) -> Iterator[Total]:
        self.total.value += order.amount
        ctx.timers.register(ctx.timestamp + 15)
        return iter(())

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Total]:
        yield Total(ctx.key, self.total.value)
        self.total.clear()


class Slow(rh.AsyncFunction):
    async def invoke(self, order: Order) -> dict[str, int]:
        return {"twice": 2 * order.amount}


class People(Lookup):
    keys = ("user",)
    schema = pa.schema([("city", pa.string()), ("since", pa.int64())])

    def open(self, ctx):
        return PeopleClient()


class PeopleClient(LookupClient):
    def fetch(self, keys):
        with open("people.json") as file:
            people = json.load(file)
        users = keys.column("user").to_pylist()
        found = [(at, row) for at, user in enumerate(users) for row in people[user]]
        rows = pa.RecordBatch.from_pylist([row for _, row in found], People.schema)
        return Found(rows, pa.array([at for at, _ in found], pa.int32()))


def out(stream: rh.DataStream, name: str) -> None:
    stream.sink_to(rh.print_sink(), name=name, uid=name)


env = rh.Environment(parallelism=2)
orders = env.from_source(
    rh.files.source("orders/*.jsonl", schema=Order, discover="1s"),
    rh.Watermark.bounded_out_of_orderness("2ms", on="at", unit="ms"), name="orders", uid="orders",
)
payments = env.from_source(
    rh.files.source("payments/*.jsonl", schema=Payment, discover="1s"),
    rh.Watermark.bounded_out_of_orderness("2ms", on="due", unit="ms"), name="payments", uid="payments",
)
keyed = orders.filter(rh.col("amount") < 1000).key_by("user")
out(keyed.window(rh.Tumbling("40ms")).aggregate(n=rh.agg.count(), total=rh.agg.sum("amount")), "window")
out(keyed.process(Later()), "timer")
out(keyed.running(total=rh.agg.sum("amount")), "running")
by_order = payments.key_by("order")
out(orders.key_by("id").interval_join(by_order, between=("0ms", "60ms"), how="left"), "join")
env.register("orders", orders)
env.register("payments", payments)
out(env.sql("""
    SELECT o.user, SUM(p.paid) AS paid FROM orders o JOIN payments p ON o.id = p.order
    WHERE o.amount > 8 GROUP BY o.user
""", state_ttl="forever"), "sql")
pattern = (
    rh.pattern.begin("small").where(rh.col("amount") < 5)
    .followed_by("large").where(rh.col("amount") > 12).within("100ms")
)
out(keyed.detect(pattern), "pattern")
out(env.sql("""
    SELECT user, window_start AS begins, window_end AS ends, SUM(amount) AS total
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '0.04' SECOND))
    WHERE amount < 16 GROUP BY user, window_start, window_end
"""), "renamed")
stamped = orders.with_event_time(rh.Watermark.bounded_out_of_orderness("3ms", on="at", unit="ms"))
out(stamped.key_by("user").window(rh.Tumbling("40ms")).aggregate(n=rh.agg.count()), "stamped")
located = orders.lookup(People(), on="user", how="inner")
located = located.with_columns(city=rh.col("city").fill_null("none"))
out(located.key_by("city").running(total=rh.agg.sum("amount"), since=rh.agg.max("since")), "located")
out(orders.map_async(Slow(), timeout="1m", returns={"twice": int}), "asked")
env.execute("orders")
'''
PEOPLE = {"a": [{"city": "Rome > Via", "since": 7}, {"city": None, "since": 8}], "b": []}
KINDS = ("window", "timer", "running", "join", "sql", "pattern", "stamped")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("job")
        patch.chdir(folder)
        patch.setenv("RHEOS_HOME", str(folder / "home"))
        Path("job.py").write_text(PROGRAM)
        random = Random(3)
        orders = [
            {"id": n, "user": random.choice("ab"), "amount": random.randrange(1, 16), "at": 100 + 9 * n}
            for n in range(24)
        ]
        payments = [
            {"order": n, "paid": random.randrange(1, 16), "due": 100 + 9 * n + random.randrange(40)}
            for n in range(24)
            if n % 3
        ]
        Path("people.json").write_text(json.dumps(PEOPLE))
        for name, rows in (("orders", orders), ("payments", payments)):
            Path(name).mkdir()
            Path(f"{name}/1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        with contextlib.redirect_stdout(io.StringIO()):
            run_job(interval_ms=60)
        yield


def question(sink: str, row: dict[str, Any] | None = None, **given: Any) -> WhyQuestion:
    return WhyQuestion("orders", sink, row or {}, checkpoint_dir="kept", against="job.py", **given)


def run_test(test: IncidentTest) -> None:
    file = Path("tests/test_incident.py").resolve()
    names: dict[str, Any] = {}
    exec(compile(test.text, str(file), "exec"), names)
    (name,) = (name for name in names if name.startswith("test_"))
    names[name]()


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("kind", KINDS)
def test_each_row_of_the_test_is_needed(kind: str) -> None:
    recorded = incident_of_row(question(kind, from_start=True))
    test = incident_test(recorded, Path("tests/test_incident.py"))
    assert 1 <= test.rows < test.rows_before
    with pytest.raises(AssertionError, match=rf"job.py:\d+: sink '{kind}' receives"):
        run_test(test)
    assert "leads to the wrong row" in test.text
    assert "~" not in test.text
    lines = test.text.splitlines()
    for number, line in enumerate(lines):
        if "@" in line and "unwanted" not in line:
            run_test(with_text(test, lines[:number] + lines[number + 1 :]))


def with_text(test: IncidentTest, lines: list[str]) -> IncidentTest:
    return IncidentTest("\n".join(lines), test.symptom, 0, 0, is_smallest=False)


@pytest.mark.usefixtures("job")
def test_older_checkpoints_are_tried_until_no_state_is_needed() -> None:
    recorded = incident_of_row(question("window"))
    assert any(isinstance(each, Rows) for each in recorded.incident.deliveries)
    with pytest.raises(ConfigurationError, match=r"state of 'running.*' in the checkpoint") as raised:
        incident_of_row(question("running"))
    assert "--from-start; or make a test of one operator with its state: rheos debug orders" in str(
        raised.value
    )


@pytest.mark.usefixtures("job")
def test_expected_values_are_in_the_test() -> None:
    recorded = incident_of_row(question("window", from_start=True))
    test = incident_test(recorded, Path("tests/test_incident.py"), expected={"total": 999})
    assert "wanted=[" in test.text
    with pytest.raises(AssertionError, match=r"receives .* and does not receive .*,999"):
        run_test(test)
    total = dict(recorded.incident.symptom.row)["total"]  # type: ignore[union-attr]
    for expected, message in (
        ({"total": total}, "already has the expected values"),
        ({"sum": 1}, "have no column 'sum'"),
        ({"total": "much"}, "'much' is not a value of the column 'total'"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            incident_test(recorded, Path("tests/test_incident.py"), expected=expected)


@pytest.mark.usefixtures("job")
def test_pseudonyms_of_a_path() -> None:
    recorded = incident_of_row(question("sql", from_start=True))
    file = Path("tests/test_incident.py")
    with pytest.raises(
        ConfigurationError, match="expected value of paid belongs to the original input"
    ):
        incident_test(
            recorded, file, expected={"paid": 1}, pseudonyms=True, keep=["amount"], random=Random(1)
        )
    test = incident_test(recorded, file, pseudonyms=True, keep=["amount"], random=Random(1))
    with pytest.raises(AssertionError, match="receives"):
        run_test(test)


MISSING: dict[str, dict[str, Any]] = {
    "running": {"id": 4, "user": "a", "amount": 15, "at": 136, "total": 999},
    "sql": {"user": "a", "paid": 999, "op": "insert"},
    "timer": {"user": "a", "total": 999},
    "window": {
        "user": "a",
        "window_start": "1970-01-01T00:00:00.120Z",
        "window_end": "1970-01-01T00:00:00.160Z",
        "n": 99,
        "total": 999,
    },
    "join": {"id": 4, "user": "a", "amount": 999, "at": 136, "order": 4, "paid": 999, "due": 140},
}


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_row_needs_the_rows_of_its_key(kind: str) -> None:
    recorded = incident_of_missing_row(question(kind, MISSING[kind]))
    test = incident_test(recorded, Path("tests/test_incident.py"))
    rows = [line.strip() for line in test.text.splitlines() if "@" in line]
    orders = [json.loads(line) for line in Path("orders/1.jsonl").read_text().splitlines()]
    payments = [json.loads(line) for line in Path("payments/1.jsonl").read_text().splitlines()]
    ids = {order["id"] for order in orders if order["user"] == "a"} if kind != "join" else {4}
    wanted = [each for each in orders if each["id"] in ids]
    if kind == "window":
        wanted = [each for each in wanted if 120 <= each["at"] < 160]
    if kind == "running":
        wanted = [each for each in wanted if each["id"] <= 4]
    if kind in ("sql", "join"):
        assert sum("orders:" in row for row in rows) == len(wanted)
        payments = [each for each in payments if each["order"] in ids]
        assert 0 < sum("payments:" in row for row in rows) <= len(payments)
    else:
        assert len(rows) == len(wanted) == test.rows
    assert test.of_missing_row
    assert "\n            w" in test.text
    with pytest.raises(AssertionError, match=f"sink '{kind}' does not receive"):
        run_test(test)
    # With what the sink receives in its place, the test passes.
    received = [line.split("> ")[1].split()[-1] for line in ran(test) if "> " in line]
    wanted_line = next(line for line in test.text.splitlines() if "wanted=" in line)
    run_test(
        with_text(test, test.text.replace(wanted_line, f"wanted=[{received[-1]!r}],").splitlines())
    )


MENDED = {
    "window": ('rh.col("amount") < 1000', 'rh.col("amount") < 9'),
    "timer": ("ctx.timestamp + 15", "ctx.timestamp + 5"),
    "running": ('running(total=rh.agg.sum("amount"))', 'running(total=rh.agg.max("amount"))'),
    "join": ('between=("0ms", "60ms")', 'between=("0ms", "15ms")'),
    "sql": ("o.amount > 8", "o.amount > 5"),
    "renamed": ("< 16", "< 9"),
}


@pytest.mark.usefixtures("job")
@pytest.mark.thinned(3)
@pytest.mark.parametrize("kind", MENDED)
def test_the_test_of_a_missing_row_passes_once_the_program_is_mended(kind: str) -> None:
    wrong, right = MENDED[kind]
    program = Path("job.py").read_text()
    assert wrong in program
    Path("mended.py").write_text(program.replace(wrong, right))
    received = [row for row in rows_of(kind, "mended.py") if row not in rows_of(kind, "job.py")]
    missing = {name: shown(value) for name, value in received[len(received) // 2].items()}
    recorded = incident_of_missing_row(question(kind, missing))
    test = incident_test(recorded, Path("tests/test_incident.py"))
    with pytest.raises(AssertionError, match=f"sink '{kind}' does not receive"):
        run_test(test)
    run_test(with_text(test, test.text.replace("job.py", "mended.py").splitlines()))
    keep = {"sql": ["amount", "paid"], "join": ["user", "amount", "at", "paid", "due"]}
    if kind == "join":
        with pytest.raises(ConfigurationError, match="the values of user, amount, at, paid, due, so"):
            incident_test(recorded, Path("tests/test_incident.py"), pseudonyms=True)
    anonymous = incident_test(
        recorded,
        Path("tests/test_incident.py"),
        pseudonyms=True,
        keep=keep.get(kind, ["amount"]),
        random=Random(1),
    )
    assert kind == "join" or f",{missing['user']}," not in anonymous.text
    assert anonymous.rows == test.rows
    with pytest.raises(AssertionError, match=f"sink '{kind}' does not receive"):
        run_test(anonymous)
    run_test(with_text(anonymous, anonymous.text.replace("job.py", "mended.py").splitlines()))
    if kind in ("window", "running", "renamed"):
        assert test.rows < sum(isinstance(each, Rows) for each in recorded.incident.deliveries)


@pytest.mark.usefixtures("job")
def test_the_right_row_can_arrive_from_the_rows_of_a_wrong_one() -> None:
    program = Path("job.py").read_text()
    wrong = 'running(total=rh.agg.sum("amount"))'
    for name, aggregate in (("smallest.py", "min"), ("largest.py", "max")):
        Path(name).write_text(program.replace(wrong, f'running(total=rh.agg.{aggregate}("amount"))'))
    right = rows_of("running", "largest.py")[-1]
    asked = WhyQuestion(
        "orders",
        "running",
        {"id": right["id"]},
        checkpoint_dir="kept",
        against="smallest.py",
        from_start=True,
    )
    recorded = incident_of_row(asked, {"total": right["total"]})
    file = Path("tests/test_incident.py")
    test = incident_test(recorded, file, expected={"total": right["total"]})
    with pytest.raises(AssertionError, match=r"receives .* and does not receive"):
        run_test(test)
    run_test(with_text(test, test.text.replace("smallest.py", "largest.py").splitlines()))
    # Fewer rows lead to the wrong row alone.
    assert incident_test(incident_of_row(asked), file).rows < test.rows


def rows_of(sink: str, program: str) -> list[dict[str, Any]]:
    """Return what the sink of a program receives."""
    replay = sink_replay(WhyQuestion("orders", sink, {}, checkpoint_dir="kept", against=program))
    ledger = replay.run.ledger
    received = [ledger.rows[each.row] for each in ledger.arrivals(replay.run.operators[replay.sink.id])]
    return [row_values(row.batch, row.at) for row in received]


def shown(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def ran(test: IncidentTest) -> list[str]:
    """Return the lines of the report of a test that fails."""
    with pytest.raises(AssertionError) as raised:
        run_test(test)
    return str(raised.value).splitlines()


@pytest.mark.usefixtures("job")
def test_rows_that_are_not_missing_are_refused() -> None:
    totals = incident_of_row(question("running", {"user": "a"}, from_start=True))
    assert isinstance(totals.incident.symptom, EmittedRow)
    there = totals.incident.symptom.row
    for row, message in (
        (dict(there), "so the row is not missing"),
        ({"user": "a", "at": 1}, "no value for id, amount, total"),
        ({**there, "user": "nobody"}, "0 rows of the input may lead to"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            incident_of_missing_row(question("running", row))


@pytest.mark.usefixtures("job")
def test_paths_to_outside_systems_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="would need the outside system") as raised:
        incident_of_row(question("asked", from_start=True))
    assert raised.value.operator is not None
    with pytest.raises(ProgramError, match="one operator or the path to one sink"):
        check_incident("job.py", timeline="", start="2026-01-01")


@contextlib.contextmanager
def outage() -> Iterator[None]:
    """Let the outside system be away."""
    Path("people.json").rename("away.json")
    try:
        yield
    finally:
        Path("away.json").rename("people.json")


@pytest.mark.usefixtures("job")
def test_the_test_of_a_row_has_the_answers_of_lookups() -> None:
    file = Path("tests/test_incident.py")
    recorded = incident_of_row(question("located", {"city": "Rome > Via"}, from_start=True))
    test = incident_test(recorded, file)
    lines = test.text.splitlines()
    answers = [line for line in lines if '"a > ' in line]
    assert [each.strip() for each in answers] == ['"a > \\"Rome > Via\\",7",', '"a > null,8",']
    with outage():
        with pytest.raises(AssertionError, match="sink 'located' receives"):
            run_test(test)
        mended = [line.replace(",7", ",6") if line in answers else line for line in lines]
        run_test(with_text(test, mended))
        with pytest.raises(ProgramError, match=r"no answer of this lookup for {'user': 'a'}"):
            run_test(with_text(test, [line for line in lines if line not in answers]))
        assert isinstance(recorded.incident.part, SinkPath)
        without = replace(recorded.incident.part, lookups=RecordedLookups())
        with pytest.raises(ConfigurationError, match="does not answer: FileNotFoundError"):
            replace(recorded.incident, part=without).shows()
    with pytest.raises(ConfigurationError, match="answers of this lookup cannot be anonymised"):
        incident_test(recorded, file, pseudonyms=True)


@pytest.mark.usefixtures("job")
def test_the_test_of_a_missing_row_has_the_answers_of_lookups() -> None:
    [first, *_] = rows_of("located", "job.py")
    recorded = incident_of_missing_row(question("located", {**first, "since": 99}, from_start=True))
    test = incident_test(recorded, Path("tests/test_incident.py"))
    with outage(), pytest.raises(AssertionError, match="sink 'located' does not receive"):
        run_test(test)
    assert "lookups={" in test.text
