"""Programs that keep no state: expressions, functions, unions, several sinks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import rheos as rh
from rheos import col
from tests.equivalence.corpus.inputs import (
    EVERY_TYPE,
    MORE_SALES,
    NO_SALES,
    SALES,
    Address,
    Parcel,
    Sale,
)
from tests.equivalence.corpus.oracle import Row, arrived, by_window, frame
from tests.equivalence.corpus.program import Given, Golden, Program, Rows

# --- expressions --------------------------------------------------------------------------------------


def expressions(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES)
    dear = sales.filter(col("quantity") >= 20, col("price").is_not_null())
    return {
        "dear": dear.select(
            "n", "shop", half=col("price") / 2, words=col("note").str.split(" ").list.len()
        ),
        "sql": sales.filter("quantity < 10 AND note IS NULL AND shop <> 'ulm'"),
        "more": sales.with_columns(
            minute=col("at").dt.truncate("1m"),
            quantity=col("quantity").fill_null(-1),
            kind=rh.lit("sale"),
        ),
    }


def expressions_golden() -> Mapping[str, Golden]:
    base = sqlite3.connect(":memory:")
    base.execute("create table sales (n, shop, user, price, quantity, note)")
    rows = SALES.table.to_pylist()
    base.executemany("insert into sales values (?, ?, ?, ?, ?, ?)", [[*r.values()][:6] for r in rows])
    dear = base.execute(
        """select n, shop, price / 2, length(note) - length(replace(note, ' ', '')) + 1
           from sales where quantity >= 20 and price is not null"""
    )
    few = base.execute("select n from sales where quantity < 10 and note is null and shop <> 'ulm'")
    chosen = {n for (n,) in few}
    return {
        "dear": [dict(zip(("n", "shop", "half", "words"), row, strict=True)) for row in dear],
        "sql": [row for row in rows if row["n"] in chosen],
        "more": [
            {
                **row,
                "quantity": -1 if row["quantity"] is None else row["quantity"],
                "minute": row["at"].replace(second=0, microsecond=0),
                "kind": "sale",
            }
            for row in rows
        ],
    }


# --- functions of a record ----------------------------------------------------------------------------


@dataclass
class Label:
    n: int
    text: str
    parcel: Parcel | None


def label(sale: Sale) -> Label:
    to = Address(sale.shop, sale.quantity) if sale.user % 3 else None
    parcel = Parcel(sale.n, to, sale.note.split() if sale.note else None, [sale.n / 2], sale.at)
    return Label(sale.n, f"{sale.shop}/{sale.quantity}", parcel if sale.user % 2 else None)


def functions(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES)
    return {
        "labels": sales.map(label),
        "renamed": sales.map(lambda sale: {"who": sale.user}, returns={"who": int}),
    }


def functions_golden() -> Mapping[str, Golden]:
    labels = []
    for row in SALES.table.to_pylist():
        place = {"street": row["shop"], "number": row["quantity"]}
        words = [word for word in (row["note"] or "").split(" ") if word] if row["note"] else None
        parcel = {
            "n": row["n"],
            "to": place if row["user"] % 3 else None,
            "tags": words,
            "weights": [row["n"] / 2],
            "at": row["at"],
        }
        text = f"{row['shop']}/{row['quantity']}"
        labels.append({"n": row["n"], "text": text, "parcel": parcel if row["user"] % 2 else None})
    return {"labels": labels, "renamed": frame(SALES).select(who="user")}


@dataclass
class Word:
    n: int
    word: str
    at: datetime


def words(sale: Sale) -> Iterator[Word]:
    for word in (sale.note or "").split():
        yield Word(sale.n, word, sale.at)


def is_long(word: Word) -> bool:
    return len(word.word) > 3


def flat_map(given: Given) -> Mapping[str, rh.DataStream]:
    found = given.stream(SALES).flat_map(words)
    return {"words": found, "long": found.filter(is_long)}


def flat_map_golden() -> Mapping[str, Golden]:
    found = (
        frame(SALES)
        .select("n", pl.col("note").str.split(" ").alias("word"), "at")
        .explode("word")
        .filter(pl.col("word") != "")
    )
    return {"words": found, "long": found.filter(pl.col("word").str.contains("^....+$"))}


# --- functions of batches -----------------------------------------------------------------------------


def by_polars(batch: pl.DataFrame) -> pl.DataFrame:
    return batch.select("n", code=pl.concat_str("shop", pl.col("user").cast(pl.String)))


def by_arrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    twice = pc.multiply(batch.column("quantity"), 2)
    return pa.RecordBatch.from_arrays([batch.column("n"), twice], ["n", "twice"])


def by_pandas(batch: pd.DataFrame) -> pd.DataFrame:
    later = batch["at"] + pd.to_timedelta(batch["user"], unit="s")
    return pd.DataFrame({"n": batch["n"], "later": later, "shop": batch["shop"].str.upper()})


def batches(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES)
    return {
        "polars": sales.map_batches(by_polars, returns={"n": int, "code": str}),
        "arrow": sales.map_batches(by_arrow, "arrow", returns={"n": int, "twice": int | None}),
        "pandas": sales.map_batches(
            by_pandas, "pandas", returns={"n": int, "later": datetime, "shop": str}
        ),
    }


def batches_golden() -> Mapping[str, Golden]:
    rows = SALES.table.to_pylist()
    return {
        "polars": [{"n": row["n"], "code": f"{row['shop']}{row['user']}"} for row in rows],
        "arrow": [
            {"n": row["n"], "twice": None if row["quantity"] is None else row["quantity"] * 2}
            for row in rows
        ],
        "pandas": [
            {
                "n": row["n"],
                "later": row["at"] + timedelta(seconds=row["user"]),
                "shop": row["shop"].upper(),
            }
            for row in rows
        ],
    }


# --- unions, and what one chain gives to many ---------------------------------------------------------


def unions(given: Given) -> Mapping[str, rh.DataStream]:
    one, two = given.stream(SALES), given.stream(MORE_SALES)
    # Declared without nulls on one side, and with them on the other.
    sure = one.select("n", "user", quantity=col("quantity"), shop=rh.lit("one"))
    dear = one.filter(col("price") > 1000)
    everything = sure.union(two.select("n", "user", "quantity", "shop"))
    return {
        "all": everything,
        "thrice": dear.union(dear, one.filter(col("price") > 1000)),
        "few": everything.filter(col("user") < 3).select("n"),
        "one": one,
    }


def unions_golden() -> Mapping[str, Golden]:
    columns = ["n", "user", "quantity", "shop"]
    one, two = frame(SALES), frame(MORE_SALES)
    everything = pl.concat([one.with_columns(shop=pl.lit("one")).select(columns), two.select(columns)])
    dear = one.filter(pl.col("price") > 1000)
    return {
        "all": everything,
        "thrice": pl.concat([dear, dear, dear]),
        "few": everything.filter(pl.col("user") < 3).select("n"),
        "one": one,
    }


# --- types --------------------------------------------------------------------------------------------


def every_type(given: Given) -> Mapping[str, rh.DataStream]:
    rows = given.stream(EVERY_TYPE)
    return {
        "as they are": rows,
        "some": rows.filter(col("n") % 2 == 0).select("n", "price", "places", "counts", "plain_ns"),
        "by record": rows.map(lambda row: row, returns=EVERY_TYPE.table.schema),
    }


def every_type_golden() -> Mapping[str, Golden]:
    table = EVERY_TYPE.table
    some = table.filter(pc.equal(pc.bit_wise_and(table["n"], 1), 0))
    return {
        "as they are": table.to_pylist(),
        "some": some.select(["n", "price", "places", "counts", "plain_ns"]).to_pylist(),
        "by record": table.to_pylist(),
    }


# --- bad rows, and none -------------------------------------------------------------------------------

LINES = [
    '{"n": 1, "shop": "ulm", "user": 1, "price": 1.5, "at": "2026-03-01T12:00:00Z"}',
    '{"n": "one", "shop": "ulm", "user": 1, "at": "2026-03-01T12:00:00Z"}',
    '{"n": 2, "shop": "ulm", "user": 2, "quantity": 7, "at": "2026-03-01T12:00:01+02:00"}',
    "no JSON at all",
    '{"n": 3, "shop": null, "user": 3, "at": "2026-03-01T12:00:02Z"}',
    '{"n": 4, "shop": "rom", "user": 4, "note": "", "at": "2026-03-01T12:00:03.25Z", "extra": []}',
    '{"n": 5, "shop": "rom", "user": 5.5, "at": "2026-03-01T12:00:04Z"}',
]
GOOD = [0, 2, 5]


def rejected(given: Given) -> Mapping[str, rh.DataStream]:
    path = given.path("jsonl")
    path.write_text("\n".join(LINES) + "\n")
    sales = given.env.from_source(rh.files.source(path, schema=Sale, on_error="skip"))
    return {"good": sales, "bad": sales.side_output("rejected").select("line", "record")}


def rejected_golden() -> Mapping[str, Golden]:
    good = [
        _sale(1, "ulm", 1, "2026-03-01T12:00:00+00:00", price=1.5),
        _sale(2, "ulm", 2, "2026-03-01T10:00:01+00:00", quantity=7),
        _sale(4, "rom", 4, "2026-03-01T12:00:03.250+00:00", note=""),
    ]
    return {
        "good": good,
        "bad": [{"line": n + 1, "record": line} for n, line in enumerate(LINES) if n not in GOOD],
    }


def _sale(n: int, shop: str, user: int, at: str, **said: object) -> Row:
    more = {"price": None, "quantity": None, "note": None, **said}
    return {"n": n, "shop": shop, "user": user, **more, "at": datetime.fromisoformat(at)}


def no_rows(given: Given) -> Mapping[str, rh.DataStream]:
    none, filtered = given.stream(NO_SALES), given.stream(SALES).filter(col("n") < 0)
    both = none.union(filtered)
    counted = both.key_by("shop").window(rh.Tumbling("10s")).aggregate(n=rh.agg.count())
    return {
        "rows": both.map(label),
        "counted": counted,
        "late": counted.side_output("late"),
        "running": none.key_by("user").running(n=rh.agg.count()),
    }


def no_rows_golden() -> Mapping[str, Golden]:
    return {"rows": [], "counted": [], "late": [], "running": []}


def one_row(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(FIRST_SALE)
    return {
        "row": sales,
        "counted": sales.key_by("shop").window(rh.Tumbling("10s")).aggregate(n=rh.agg.count()),
    }


def one_row_golden() -> Mapping[str, Golden]:
    first = frame(SALES).head(1)
    start = pl.col("at").dt.truncate("10s").dt.cast_time_unit("ms")
    return {
        "row": first,
        "counted": first.select(
            "shop",
            window_start=start,
            window_end=start + timedelta(seconds=10),
            n=pl.lit(1, pl.Int64),
        ),
    }


def narrow(given: Given) -> Mapping[str, rh.DataStream]:
    """Build a program whose operators have fewer subtasks than the job, with and without state."""
    one = given.stream(SALES).filter(col("quantity") >= 10).set_parallelism(1)
    per_shop = one.key_by("shop").window(rh.Tumbling("10s")).aggregate(n=rh.agg.count())
    return {
        "rows": one.set_parallelism(2).select("n", "shop"),
        "wide again": one.with_columns(kind=pl.lit("many")),
        "counted": per_shop.set_parallelism(1).select("shop", "n"),
    }


def narrow_golden() -> Mapping[str, Golden]:
    many = frame(SALES).filter(pl.col("quantity") >= 10)
    kept = [row for row in arrived(SALES) if (row["quantity"] or 0) >= 10]
    return {
        "rows": many.select("n", "shop"),
        "wide again": many.with_columns(kind=pl.lit("many")),
        "counted": [
            {"shop": shop, "n": len(rows)}
            for (shop, _), rows in by_window(kept, ["shop"], 10_000)[0].items()
        ],
    }


FIRST_SALE = Rows(SALES.table.slice(0, 1))

PROGRAMS = (
    Program("expressions", expressions, expressions_golden, stateful=False),
    Program("functions of records", functions, functions_golden, stateful=False),
    Program("flat_map", flat_map, flat_map_golden, stateful=False),
    Program("functions of batches", batches, batches_golden, stateful=False),
    Program("unions and branches", unions, unions_golden, stateful=False),
    Program("narrow operators", narrow, narrow_golden),
    Program("every type", every_type, every_type_golden, stateful=False),
    Program("rejected rows", rejected, rejected_golden, stateful=False, lasts=False),
    Program(
        "no rows",
        no_rows,
        no_rows_golden,
        empty=("rows", "counted", "late", "running"),
        lasts=False,
    ),
    Program("one row", one_row, one_row_golden, lasts=False),
)
