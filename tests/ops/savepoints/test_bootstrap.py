"""State created from history: a job over new rows continues as if it had read the old ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

import rheos as rh
from rheos.core.errors import CheckpointError, ConfigurationError, InputError, ProgramError, SchemaError
from rheos.runtimes.host.stores import open_store
from tests.api.programs import refused
from tests.compat.worlds import begin

pytestmark = pytest.mark.spark


@dataclass
class Order:
    user: int
    shop: str
    amount: int


@dataclass
class Account:
    orders: int
    amount: int
    level: Literal["low", "high"] = "low"


@dataclass
class Total:
    user: int
    shop: str
    told: str


class Totals(rh.KeyedProcessFunction):
    account = rh.ValueState(Account)
    amounts = rh.ListState(int)
    seen = rh.MapState(int, int)

    def process_element(self, order: Order, ctx: rh.KeyedContext) -> Iterator[Total]:
        old = self.account.value or Account(0, 0)
        amount = old.amount + order.amount
        self.account.value = Account(old.orders + 1, amount, "high" if amount > 20 else "low")
        self.amounts.append(order.amount)
        self.seen[order.amount] = self.seen.get(order.amount, 0) + 1
        told = (self.account.value, list(self.amounts), sorted(self.seen.items()))
        yield Total(order.user, order.shop, repr(told))


ORDERS = [Order(n % 3, "ab"[n % 2], n % 5) for n in range(60)]


def program(orders: list[Order], **settings: Any) -> rh.Environment:
    env = rh.Environment(2, **settings)
    stream = env.from_source(rh.collection(orders, schema=Order))
    stream.key_by("user", "shop").process(Totals()).uid("totals").sink_to(rh.collect_sink(), name="out")
    return env


def last(env: rh.Environment) -> dict[tuple[int, str], str]:
    result = env.execute("totals")
    return {(row["user"], row["shop"]): row["told"] for row in result.collected["out"].to_pylist()}


def totals_of(orders: list[Order]) -> dict[tuple[int, str], str]:
    """Return the program's final totals of all orders, computed without it."""
    told = {}
    for user, shop in {(order.user, order.shop) for order in orders}:
        amounts = [order.amount for order in orders if (order.user, order.shop) == (user, shop)]
        level: Literal["low", "high"] = "high" if sum(amounts) > 20 else "low"
        account = Account(len(amounts), sum(amounts), level)
        told[user, shop] = repr((account, amounts, sorted(Counter(amounts).items())))
    return told


def test_bootstrapped_state_continues_with_new_rows(spark: Any, tmp_path: Path) -> None:
    old, new = ORDERS[:35], ORDERS[35:]
    history = spark.createDataFrame(
        [(n, o.user, o.shop, o.amount) for n, o in enumerate(old)],
        "n int, user int, shop string, amount int",
    )
    history.createOrReplaceTempView("history_of_totals")
    account = spark.sql(
        "select shop, user, named_struct('orders', count(*), 'amount', sum(amount), "
        "'level', if(sum(amount) > 20, 'high', 'low')) value from history_of_totals group by user, shop"
    )
    amounts = spark.sql(
        "select user, shop, row_number() over (partition by user, shop order by n) position, "
        "amount value from history_of_totals"
    )
    seen = spark.sql(
        "select user, shop, amount map_key, count(*) value from history_of_totals "
        "group by user, shop, amount"
    )
    made = (
        rh.new_savepoint(spark, program(new))
        .with_state("totals", "account", account)
        .with_state("totals", "amounts", amounts)
        .with_state("totals", "seen", seen)
    )
    assert "totals/account" in repr(made)
    folder = made.write(str(tmp_path / "made"))

    read = rh.savepoint(spark, folder)
    read.verify()
    assert read.state("totals", "amounts").count() == len(old)
    assert read.state("totals", "account").dtypes[:2] == [("user", "bigint"), ("shop", "string")]

    after = program(
        new,
        runtime="continuous",
        spark=spark,
        checkpoint_dir=str(tmp_path / "after"),
        from_savepoint=folder,
    )
    assert last(after) == totals_of(ORDERS)


@dataclass
class Visit:
    user: int
    page: str
    at: int


class Lately(rh.KeyedProcessFunction):
    """Function that remembers the last 100 ms."""

    first = rh.ValueState(int, ttl="100ms")
    times = rh.ListState(int, ttl="100ms")

    def process_element(self, visit: Visit, ctx: rh.KeyedContext) -> Iterator[Visit]:
        yield Visit(visit.user, repr((self.first.value, list(self.times))), visit.at)


def lately(env: rh.Environment) -> dict[str, rh.DataStream]:
    visits = rh.collection([Visit(1, "x", 150), Visit(2, "x", 150)])
    rows = env.from_source(visits, watermark=rh.Watermark.monotonic(on="at"))
    return {"out": rows.key_by("user").process(Lately()).uid("lately")}


def test_expiring_state_needs_an_expiry_column(spark: Any, tmp_path: Path) -> None:
    env = rh.Environment(2, max_parallelism=16)
    lately(env)["out"].sink_to(rh.collect_sink(), name="out")
    frame = spark.createDataFrame
    times = [(1, 0, 50, 150), (1, 1, 60, 160), (1, 2, 70, 170), (2, 0, 10, 110)]
    columns = "user int, value int, expires_ms bigint"
    made = (
        rh.new_savepoint(spark, env)
        .with_state("lately", "first", frame([(1, 7, 151), (2, 8, 150)], columns))
        .with_state(
            "lately",
            "times",
            frame(times, "user int, position int, value int, expires_ms bigint"),
        )
    )
    read = rh.savepoint(spark, made.write(str(tmp_path / "made")))
    [first] = [info for info in read.states() if info.state == "first"]
    assert first.value == "int, expires after 100 ms"
    assert sorted(tuple(row) for row in read.state("lately", "times").collect()) == times

    made_files = open_store(str(tmp_path / "made"), make=False)
    files = {f"made/{path}": made_files.get(path) for path in made_files.list("")}
    kept = begin(lately, files=files, from_savepoint="made")
    kept.world.run()
    assert {row["user"]: row["page"] for row in kept.rows()["out"]} == {
        1: repr((7, [60, 70])),
        2: repr((None, [])),
    }
    without = rh.new_savepoint(spark, env)
    with pytest.raises(SchemaError, match="expires_ms is missing, int64"):
        without.with_state("lately", "first", frame([(1, 7)], "user int, value int"))


def test_rows_that_do_not_fit_the_program_are_refused(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame
    new = rh.new_savepoint(spark, program(ORDERS))
    with pytest.raises(ConfigurationError, match="no state of an operator 'total'"):
        new.with_state("total", "seen", frame([(1,)], "user int"))
    with pytest.raises(SchemaError, match="shop is missing, string"):
        new.with_state("totals", "seen", frame([(1, 1, 1)], "user int, map_key int, value int"))
    accounts = "user int, shop string, value struct<orders: int, amount: int, level: string>"
    wrong = new.with_state("totals", "account", frame([(1, "a", (1, 2, "medium"))], accounts))
    with pytest.raises(InputError, match="medium") as caught:
        wrong.write(str(tmp_path / "made"))
    assert caught.value.key == "(1, 'a')"
    with pytest.raises(ConfigurationError, match="already specified"):
        wrong.with_state("totals", "account", frame([(1, "a", (1, 2, "low"))], accounts))
    assert not (tmp_path / "made").exists() or not any((tmp_path / "made").rglob("*.arrow"))


def test_an_unusable_dataframe_is_refused_at_its_line(spark: Any, tmp_path: Path) -> None:
    new = rh.new_savepoint(spark, program(ORDERS))
    rows: Any = [(1, "a", 1)]
    endless = spark.readStream.format("rate").load()

    def in_vain() -> None:
        new.with_state("totals", "seen", endless)

    refused(
        lambda: new.with_state("totals", "seen", rows),
        ProgramError,
        "a Spark DataFrame is needed",
        "create one with",
    )
    refused(in_vain, ProgramError, "is streaming", "spark.read", at='"seen", endless')


def test_state_errors_start_with_the_line_of_the_call(spark: Any, tmp_path: Path) -> None:
    folder = (
        rh.new_savepoint(spark, program(ORDERS))
        .with_state("totals", "seen", seen_of(spark, 1))
        .write(str(tmp_path / "made"))
    )
    sp = rh.savepoint(spark, folder)
    key = spark.createDataFrame([(1,)], "usr int")
    null = sp.edit().update("totals", "seen", seen_of(spark, None))
    for program_, error, what, at in [
        (lambda: rh.savepoint(spark, "nowhere"), CheckpointError, "does not exist", '"nowhere"'),
        (lambda: sp.state("total", "seen"), ConfigurationError, "'total'", '"total", "seen"'),
        (lambda: sp.edit().delete("totals", key), SchemaError, "'usr'", "delete("),
        (lambda: sp.edit().delete_everywhere(usr=1), ConfigurationError, "usr", "(usr=1)"),
        (lambda: sp.edit().drop("total"), ConfigurationError, "'total'", 'drop("total")'),
        (lambda: null.write(str(tmp_path / "new")), InputError, "is null", "null.write"),
    ]:
        refused(program_, error, what, "", at=at)  # type: ignore[arg-type]


def seen_of(spark: Any, user: int | None) -> Any:
    return spark.createDataFrame([(user, "a", 1, 1)], "user int, shop string, map_key int, value int")
