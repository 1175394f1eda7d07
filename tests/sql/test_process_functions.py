"""Process functions in queries: functions with state and timers that compute a table from a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rheos as rh

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CLICKS = [
    {"user": user, "page": page, "at": BEGIN + timedelta(seconds=second)}
    for user, page, second in [
        ("ann", "home", 0),
        ("bob", "home", 1),
        ("ann", "cart", 4),
        ("ann", "home", 30),
        ("bob", "pay", 3),
        ("ann", "pay", 33),
    ]
]


@dataclass
class Visit:
    user: str
    pages: int
    ended: datetime


class Visits(rh.KeyedProcessFunction):
    """Emits a row when a user has not clicked for a while."""

    pages = rh.ValueState(int, default=0)
    due_ms = rh.ValueState(int, default=0)

    def __init__(self, gap: timedelta, least: int = 1) -> None:
        self.gap_ms = int(gap.total_seconds() * 1000)
        self.least = least

    def process_element(self, record: Any, ctx: rh.KeyedContext) -> None:
        if self.pages.value:
            ctx.timers.delete(self.due_ms.value)
        self.pages.value += 1
        self.due_ms.value = ctx.timestamp + self.gap_ms
        ctx.timers.register(self.due_ms.value)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Visit]:
        if self.pages.value >= self.least:
            yield Visit(ctx.key, self.pages.value, datetime.fromtimestamp(timestamp / 1000, UTC))
        self.pages.clear()


@dataclass
class Step:
    page: str
    number: int


class Numbered(rh.KeyedProcessFunction):
    n = rh.ValueState(int, default=0)

    def process_element(self, record: Any, ctx: rh.KeyedContext) -> Iterator[Step]:
        self.n.value += 1
        yield Step(record.page, self.n.value)


def environment(**functions: Any) -> rh.Environment:
    env = rh.Environment(parallelism=2, runtime="simulated")
    watermark = rh.Watermark.bounded_out_of_orderness("30s", on="at")
    env.register("clicks", env.from_source(rh.collection(CLICKS), watermark=watermark, name="clicks"))
    for name, fn in {"visits": Visits, "numbered": Numbered(), **functions}.items():
        env.register_function(name, fn)
    return env


def rows(sql: str) -> list[tuple[Any, ...]]:
    env = environment()
    env.sql(sql).collect("rows")
    return sorted(tuple(row.values()) for row in env.execute("query").collected["rows"].to_pylist())


def at(second: int) -> datetime:
    return BEGIN + timedelta(seconds=second)


@pytest.mark.parametrize(
    "call",
    [
        "visits(TABLE clicks PARTITION BY user ORDER BY at, INTERVAL '10' SECONDS)",
        "TABLE(visits(TABLE clicks PARTITION BY (user) ORDER BY at, gap => INTERVAL '10' SECONDS))",
        "visits(input => TABLE (SELECT user, at FROM clicks) PARTITION BY user ORDER BY (at), "
        "least => 1, on_time => DESCRIPTOR(at), gap => INTERVAL '10' SECONDS, uid => 'visits') AS v",
    ],
)
def test_a_function_with_timers_computes_a_table(call: str) -> None:
    expected = [("ann", 2, at(14)), ("ann", 2, at(43)), ("bob", 2, at(13))]
    assert rows(f"SELECT user, pages, ended FROM {call}") == expected


def test_the_arguments_of_a_call_are_those_of_the_class() -> None:
    call = "visits(TABLE clicks PARTITION BY user ORDER BY at, INTERVAL '3' SECONDS, least => 1 + 1)"
    assert rows(f"SELECT user, pages FROM {call}") == [("ann", 2), ("bob", 2)]


def test_a_table_without_keys_is_one_partition_in_the_order_of_event_time() -> None:
    found = rows("SELECT number, page FROM numbered(TABLE clicks ORDER BY at)")
    assert found == list(enumerate(("home", "home", "pay", "cart", "home", "pay"), 1))


def test_the_result_is_a_table_like_others() -> None:
    query = """
        WITH v AS (
            SELECT * FROM visits(TABLE clicks PARTITION BY user ORDER BY at, INTERVAL '10' SECONDS)
        )
        SELECT DISTINCT a.user, a.pages + 1 AS n FROM v AS a WHERE a.pages > 1
    """
    assert rows(query) == [("ann", 3), ("bob", 3)]


def test_a_script_creates_the_function_from_a_module() -> None:
    env = environment()
    env.sql_script(
        f"CREATE FUNCTION visits_of AS '{__name__}.Visits' LANGUAGE PYTHON;"
        "CREATE VIEW v AS SELECT * FROM visits_of(TABLE clicks PARTITION BY user ORDER BY at, "
        "gap => INTERVAL '3' SECONDS)"
    )
    env.sql("SELECT COUNT(*) AS n FROM v WHERE pages > 0").collect("rows")
    assert env.execute("query").collected["rows"].to_pylist()[-1]["n"] == 4


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM visits(TABLE clicks PARTITION BY user)", "visits is missing gap"),
        ("SELECT * FROM visits(TABLE clicks PARTITION BY usr, INTERVAL '1' DAY)", "usr"),
        ("SELECT * FROM visits(INTERVAL '1' DAY, TABLE clicks)", "takes a table"),
        ("SELECT * FROM visits(TABLE clicks, INTERVAL '1' MONTH)", "no fixed duration"),
        ("SELECT * FROM visits(TABLE clicks, 'a', gap => INTERVAL '1' DAY)", "two values for gap"),
        ("SELECT * FROM visits(TABLE clicks, gap => INTERVAL '1' DAY, many => 2)", "'many'"),
        ("SELECT * FROM visits(TABLE clicks, INTERVAL '1' DAY, 'x')", "takes BIGINT as 'least'"),
        ("SELECT * FROM visits(TABLE clicks, INTERVAL '1' DAY, 1, 2)", "takes 2 arguments besides"),
        ("SELECT * FROM visits(TABLE clicks, INTERVAL '1' DAY, LENGTH(page))", "takes constants"),
        ("SELECT * FROM numbered(TABLE clicks ORDER BY page)", "not the event time"),
        ("SELECT * FROM numbered(TABLE clicks ORDER BY at DESC)", "ascending order of event time"),
        ("SELECT * FROM numbered(TABLE clicks, on_time => at)", "on_time takes one column"),
        ("SELECT * FROM numbered(TABLE clicks, uid => 1)", "uid must be a string"),
        ("SELECT numbered(page) FROM clicks", "computes a table from a table"),
        ("SELECT * FROM clicks, LATERAL TABLE(numbered(page))", "computes a table from a table"),
        (
            "SELECT * FROM numbered(TABLE (SELECT page, COUNT(*) AS n FROM clicks GROUP BY page))",
            "takes append-only rows",
        ),
        ("SELECT * FROM nubered(TABLE clicks)", "did you mean 'numbered'"),
    ],
)
def test_a_wrong_call_is_an_error_at_its_place(query: str, message: str) -> None:
    with pytest.raises(rh.ProgramError, match=f"(?s){message}.*{'[^^]*'}\\^"):
        environment().sql(query)


def test_a_function_must_declare_its_rows() -> None:
    class Silent(rh.KeyedProcessFunction):
        def process_element(self, record: Any, ctx: rh.KeyedContext) -> Any:
            return []

    with pytest.raises(rh.SchemaError, match=r"declare|annotation"):
        environment(silent=Silent)
    env = environment()
    env.register_function("silent", Silent(), returns=Step)
    assert env.sql("SELECT * FROM silent(TABLE clicks)").schema.names == ["page", "number"]
