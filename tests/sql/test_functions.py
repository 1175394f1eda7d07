"""User functions in queries: their annotations, their results, and functions that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rheos as rh
from rheos.api import overrides
from rheos.api.overrides import Overrides
from rheos.api.partial_settings import from_command
from rheos.api.program_file import run_file
from tests.sql.compare import key_of, rows_of
from tests.sql.data import BIDS, SALES, WORDS, registered


def dollars(cents: int) -> float:
    return cents / 100


def label(number: int | None, text: str, *more: str) -> str:
    return f"{text}:{number}:{'/'.join(more)}"


def twice(column: pl.Series) -> pl.Series:
    return column * 2


def flipped(column: pa.Array) -> pa.Array:
    return pc.negate(column)


def plus(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    return a + b


@dataclass
class Part:
    text: str
    length: int


def parts(text: str) -> Iterator[Part]:
    for part in text.split():
        yield Part(part, len(part))


def letters(text: str | None, most: int = 100) -> Iterator[str]:
    yield from (text or "?")[:most]


class Spread(rh.AggregateFunction[list[int]]):
    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [*accumulator, value]

    def get_result(self, accumulator: list[int]) -> int | None:
        return max(accumulator) - min(accumulator) if accumulator else None


@dataclass
class Weighed:
    value: float
    weight: int


class WeightedMean(rh.AggregateFunction[list[float]]):
    def create_accumulator(self) -> list[float]:
        return [0.0, 0.0]

    def add(self, each: Weighed, accumulator: list[float]) -> list[float]:
        total, weight = accumulator
        return [total + each.value * each.weight, weight + each.weight]

    def get_result(self, accumulator: list[float]) -> float | None:
        total, weight = accumulator
        return total / weight if weight else None


class Prefixed(rh.RichFunction):
    def open(self) -> None:
        self.prefix = "> "

    def __call__(self, text: str) -> str:
        return self.prefix + text


FUNCTIONS = {
    "dollars": (dollars, None),
    "label": (label, None),
    "twice": (twice, int),
    "flipped": (flipped, pa.int64()),
    "plus": (plus, None),
    "parts": (parts, None),
    "letters": (letters, None),
    "spread": (Spread(), None),
    "weighted_mean": (WeightedMean(), None),
    "prefixed": (Prefixed(), None),
    "tenth": (lambda d: d / 10, Decimal),
}


def environment(**settings: Any) -> rh.Environment:
    env = rh.Environment(**settings)
    registered(env)
    for name, (fn, returns) in FUNCTIONS.items():
        env.register_function(name, fn, returns)
    return env


def found(query: str) -> list[tuple[Any, ...]]:
    env = environment(parallelism=2, runtime="simulated")
    stream = env.sql(query, state_ttl="forever")
    stream.collect("found")
    found = env.execute("query").collected["found"]
    return sorted(rows_of(found, key_of(stream)).elements(), key=repr)


BID_ROWS = BIDS.to_pylist()
WINDOWS = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' HOUR))"


def same(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows), key=repr)


def test_a_function_is_called_for_each_row() -> None:
    rows = found(
        "SELECT dollars(price) AS d, dollars(price) + 1 AS more FROM bids WHERE DOLLARS(price) > 5"
    )
    prices = [row["price"] / 100 for row in BID_ROWS]
    assert rows == same((price, price + 1) for price in prices if price > 5)


def test_null_is_passed_only_to_functions_that_accept_it() -> None:
    rows = found("SELECT label(bidder, channel, 'x', channel) AS l FROM bids")
    assert rows == same(
        (None if (c := row["channel"]) is None else label(row["bidder"], c, "x", c),)
        for row in BID_ROWS
    )
    assert any(":None:" in (row[0] or "") for row in rows)
    assert any(row[0] is None for row in rows)


def test_functions_of_polars_and_arrow_columns_and_expressions() -> None:
    rows = found("SELECT twice(price) AS t, flipped(price) AS n, plus(price, auction) AS p FROM bids")
    assert rows == same(
        (float(2 * row["price"]), float(-row["price"]), float(row["price"] + row["auction"]))
        for row in BID_ROWS
    )


def test_calls_can_be_nested_and_grouped() -> None:
    rows = found(
        "SELECT dollars(twice(price)) AS d, dollars(COUNT(*)) AS n FROM bids "
        "GROUP BY dollars(twice(price)) HAVING dollars(SUM(price)) > 4"
    )
    wanted = {2 * row["price"] / 100 for row in BID_ROWS if row["price"] > 400}
    assert rows == same((value, 0.01) for value in wanted)


def test_calls_can_be_in_join_conditions() -> None:
    rows = found(
        "SELECT b.price, s.id FROM bids AS b JOIN sales AS s "
        "ON b.auction = s.auction AND twice(b.price) = 1000 AND flipped(s.amount) < -50"
    )
    assert rows == same(
        (float(bid["price"]), float(sale["id"]))
        for bid in BID_ROWS
        for sale in SALES.to_pylist()
        if bid["auction"] == sale["auction"] and bid["price"] == 500 and sale["amount"] > 50
    )


def test_lambdas_and_rich_functions_are_called() -> None:
    assert found("SELECT tenth(d) AS t FROM numbers WHERE n = 1") == [(float(Decimal("-27.655")),)]
    assert ("> tea",) in found("SELECT prefixed(word) AS p FROM words")


# --- tables -------------------------------------------------------------------------------------------


def test_a_table_function_emits_rows_for_each_row() -> None:
    rows = found("SELECT id, p.text, length FROM words, LATERAL TABLE(parts(word)) AS p")
    assert rows == same(
        (float(row["id"]), part, float(len(part)))
        for row in WORDS.to_pylist()
        for part in (row["word"] or "").split()
    )
    assert rows == found("SELECT id, a, b FROM words LATERAL VIEW parts(word) p AS a, b")


def test_a_left_join_keeps_rows_without_table_rows() -> None:
    rows = found("SELECT id, p.text FROM words LEFT JOIN LATERAL TABLE(parts(word)) AS p ON TRUE")
    expected = [
        (float(row["id"]), part)
        for row in WORDS.to_pylist()
        for part in ((row["word"] or "").split() or [None])
    ]
    assert rows == same(expected)
    assert (2.0, None) in rows


def test_table_functions_of_single_values_and_updating_rows() -> None:
    query = (
        "SELECT c.letter, COUNT(*) AS n FROM words, LATERAL TABLE(letters(part, 2)) AS c(letter) "
        "GROUP BY c.letter"
    )
    counted: dict[str, int] = {}
    for row in WORDS.to_pylist():
        for letter in (row["part"] or "?")[:2]:
            counted[letter] = counted.get(letter, 0) + 1
    assert found(query) == same((letter, float(n)) for letter, n in counted.items())
    of_changes = found(
        f"SELECT g.letter, l.again FROM ({query}) AS g, LATERAL TABLE(letters(g.letter)) AS l(again) "
        "WHERE g.n > 1"
    )
    assert of_changes == same((letter, letter) for letter, n in counted.items() if n > 1)


# --- aggregates ---------------------------------------------------------------------------------------


def test_user_aggregates_of_groups_are_updated_with_each_row() -> None:
    rows = found("SELECT auction, spread(price) AS s FROM bids GROUP BY auction")
    prices = {row["auction"]: set[float]() for row in BID_ROWS}
    for row in BID_ROWS:
        prices[row["auction"]].add(row["price"])
    assert rows == same((auction, max(of) - min(of)) for auction, of in prices.items())


def test_user_aggregates_work_next_to_those_of_sql() -> None:
    rows = found(
        "SELECT auction, COUNT(*) AS n, spread(price) AS s, "
        "spread(price) FILTER (WHERE price < 300) AS l, "
        f"weighted_mean(price, bidder) AS m FROM {WINDOWS} GROUP BY auction, window_start, window_end"
    )
    expected = []
    for auction in range(5):
        mine = [row for row in BID_ROWS if row["auction"] == auction]
        prices = [row["price"] for row in mine]
        low = [price for price in prices if price < 300]
        weighed = [(row["price"], row["bidder"]) for row in mine if row["bidder"] is not None]
        total = sum(weight for _, weight in weighed)
        mean = sum(value * weight for value, weight in weighed) / total
        numbers = (len(mine), max(prices) - min(prices), max(low) - min(low))
        expected.append((float(auction), *map(float, numbers), float(f"{mean:.12g}")))
    # All bids are in two hopping windows, the first of which has all of them.
    assert rows == same(expected)


# --- scripts ------------------------------------------------------------------------------------------


def test_a_script_uses_functions_of_neighbouring_modules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_functions_of_a_test.py").write_text(
        "import rheos as rh\n\n\ndef shout(text: str) -> str:\n    return text.upper() + '!'\n\n\n"
        "class Longest(rh.AggregateFunction):\n"
        "    def create_accumulator(self) -> str:\n        return ''\n\n"
        "    def add(self, text: str, kept):\n        return max(text, kept, key=len)\n\n"
        "    def get_result(self, kept) -> str:\n        return kept\n"
    )
    job = tmp_path / "job.sql"
    job.write_text(
        "CREATE FUNCTION shout AS 'my_functions_of_a_test.shout' LANGUAGE PYTHON;\n"
        "CREATE TEMPORARY FUNCTION longest AS 'my_functions_of_a_test.Longest';\n"
        "CREATE TABLE out (word STRING) WITH ('connector' = 'print');\n"
        "INSERT INTO out SELECT shout(word) FROM VALUES ('tea') AS t(word);\n"
    )
    settings = Overrides((from_command({"runtime": "simulated"}),))
    with overrides.applied(settings):
        run_file(job, [])
    assert "TEA!" in capsys.readouterr().out


# --- what is wrong ------------------------------------------------------------------------------------

WRONG = {
    "SELECT dollars(channel) AS d FROM bids": ("DOLLARS() takes BIGINT as 'cents'", "channel"),
    "SELECT dollars() AS d FROM bids": ("takes 1 arguments, but has 0", "dollars"),
    "SELECT label(1) AS d FROM bids": ("takes 2 or more arguments, but has 1", "label(1)"),
    "SELECT parts(channel) AS p FROM bids": ("PARTS() returns a table", "parts(channel)"),
    "SELECT price FROM bids WHERE spread(price) > 1": ("SPREAD() is an aggregate", "spread(price)"),
    "SELECT price FROM bids, LATERAL TABLE(dollars(price)) AS d": (
        "returns one value per row, not a table",
        "dollars(price)",
    ),
    "SELECT price FROM bids, LATERAL TABLE(upper(channel)) AS d": (
        "UPPER() is not a table function",
        "upper(channel)",
    ),
    "SELECT price FROM bids, LATERAL TABLE(parts(channel)) AS p(a)": (
        "the rows have 2 columns, but the alias has 1 name",
        "p(a)",
    ),
    "SELECT price FROM bids LEFT JOIN LATERAL TABLE(parts(channel)) AS p ON price > 3": (
        "LATERAL must be joined ON TRUE",
        "price > 3",
    ),
    "SELECT dolars(price) AS d FROM bids": ("unknown function 'dolars'", "dolars(price)"),
    "SELECT b.price FROM bids b JOIN sales s ON dollars(b.price + s.amount) > 3": (
        "DOLLARS() cannot be called here",
        "dollars(b.price + s.amount)",
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_an_invalid_call_is_refused_at_its_place(text: str) -> None:
    what, underlined = WRONG[text]
    with pytest.raises(rh.RheosError) as caught:
        environment().sql(text)
    assert what in str(caught.value)
    assert caught.value.detail is not None
    line, marks = caught.value.detail.splitlines()
    assert line[marks.index("^") : len(marks)] == underlined


def untyped(cents):  # type: ignore[no-untyped-def]
    return cents


def by_name(cents: int, *, rate: float) -> float:
    return cents * rate


def rows_of_what(text: str) -> Iterator:  # type: ignore[type-arg]
    yield text


UNFIT: dict[str, tuple[str, Any, str]] = {
    "no type": ("f", untyped, "untyped does not declare its return type"),
    "no type of rows": ("f", rows_of_what, "does not declare the type of the rows that it returns"),
    "no type of columns": ("f", twice, "returns=float"),
    "no function": ("f", 3, "takes a function, not 3"),
    "by name": ("f", by_name, "the keyword-only parameter 'rate'"),
    "a class": ("f", Spread, "register_function('f', Spread())"),
    "a name of SQL": ("Upper", dollars, "SQL already has a function UPPER"),
    "no name": ("a b", dollars, "must be a single word"),
    "there": ("DOLLARS", dollars, "the function 'DOLLARS' already exists"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_an_unsuitable_function_is_refused_at_registration(case: str) -> None:
    name, fn, what = UNFIT[case]
    env = environment()
    with pytest.raises(rh.RheosError) as caught:
        env.register_function(name, fn)
    assert what in str(caught.value)
    assert str(caught.value).startswith(f"{__file__}:")


def test_an_error_of_a_function_names_its_line_and_the_row() -> None:
    def broken(price: int) -> float:
        return 1 / (price - 370)

    env = environment(runtime="simulated")
    env.register_function("broken", broken)
    env.sql("SELECT broken(price) AS b FROM bids").collect("found")
    with pytest.raises(rh.UserFunctionError) as caught:
        env.execute("query")
    assert str(caught.value).startswith(f"{__file__}:")
    assert "ZeroDivisionError" in str(caught.value)
    assert "'price': 370" in str(caught.value)


def test_results_of_a_function_must_match_its_annotation() -> None:
    def wrong(price: int) -> int:
        return f"{price}"  # type: ignore[return-value]

    def short(prices: pl.Series) -> pl.Series:
        return prices[:1]

    for fn, what in ((wrong, "should be int64"), (short, "values for")):
        env = environment(runtime="simulated")
        env.register_function("f", fn, int)
        env.sql("SELECT f(price) AS b FROM bids").collect("found")
        with pytest.raises(rh.UserFunctionError, match=what):
            env.execute("query")
