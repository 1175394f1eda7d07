"""A program that matches patterns, and oracles in plain Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise

import rheos as rh
from rheos import col
from tests.equivalence.corpus.inputs import SALES
from tests.equivalence.corpus.joins import in_time
from tests.equivalence.corpus.oracle import Row, bare
from tests.equivalence.corpus.program import Given, Golden, Program

WITHIN_MS = 4_000


def dearer(sale: rh.DataStream, earlier: Mapping[str, Sequence[Row]]) -> bool:
    return all(sale.n > before.n for before in earlier["first"])


def patterns(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES)
    even, odd = col("n") % 2 == 0, col("n") % 2 == 1
    waits = rh.pattern.begin("even").where(even).followed_by("odd").where(odd).within("4s")
    pairs = sales.key_by("shop").detect(waits)
    numbers = rh.pattern.skip_past_last_event()
    directly = rh.pattern.begin("first", numbers).where(even).next("second").where(odd, dearer)
    return {
        "pairs": pairs.select("shop", even=number("even"), odd=number("odd")),
        "alone": pairs.side_output("timed_out").select("shop", even=number("even")),
        "directly": sales.key_by("user")
        .detect(directly)
        .select("user", first=number("first"), second=number("second")),
        "late": pairs.side_output("late"),
    }


def number(step: str) -> rh.col:
    return col(step).struct.field("n")


def patterns_golden() -> Mapping[str, Golden]:
    sales, late = in_time(SALES)
    found = [(shop, *one) for shop, rows in by_key(sales, "shop") for one in even_and_odd(rows)]
    return {
        "pairs": [{"shop": s, "even": even, "odd": odd} for s, even, odd in found if odd is not None],
        "alone": [{"shop": s, "even": even} for s, even, odd in found if odd is None],
        "directly": [
            {"user": user, "first": one["n"], "second": other["n"]}
            for user, rows in by_key(sales, "user")
            for one, other in pairwise(rows)
            if one["n"] % 2 == 0 and other["n"] % 2 == 1 and other["n"] > one["n"]
        ],
        "late": bare(late),
    }


def by_key(rows: Sequence[Row], key: str) -> Iterator[tuple[object, list[Row]]]:
    """Return the rows of each key by time, and equal times by all columns."""

    def order(row: Row) -> tuple[object, ...]:
        return (row["ts"], *((row[name] is None, row[name]) for name in SALES.table.column_names))

    for value, of_key in groupby(
        sorted(rows, key=lambda row: (str(row[key]), order(row))), key=lambda row: row[key]
    ):
        yield value, list(of_key)


def even_and_odd(rows: Sequence[Row]) -> Iterator[tuple[int, int | None]]:
    for at, row in enumerate(rows):
        if row["n"] % 2 == 0:
            later = (
                other["n"]
                for other in rows[at + 1 :]
                if other["n"] % 2 == 1 and other["ts"] < row["ts"] + WITHIN_MS
            )
            yield row["n"], next(later, None)


PROGRAMS = (Program("patterns", patterns, patterns_golden),)
