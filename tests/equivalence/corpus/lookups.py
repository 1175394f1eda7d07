"""Programs that look up rows in an outside system, and windows downstream of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

import rheos as rh
from rheos import col
from rheos.testing import MemoryLookup
from tests.equivalence.corpus.inputs import SALES
from tests.equivalence.corpus.oracle import arrived, by_window, frame
from tests.equivalence.corpus.program import Given, Golden, Program

TOWNS = MemoryLookup(
    ["shop"],
    [
        {"shop": "ulm", "country": "de", "people": 129_000},
        {"shop": "rom", "country": "it", "people": None},
    ],
)
OWNERS = [
    {"town": town, "user": user, "owner": f"{town}-{user % 3}"}
    for town in ("ulm", "oslo")
    for user in range(9)
]
# A key with two rows makes two of one.
OWNERS.append({"town": "ulm", "user": 4, "owner": "her aunt"})


@dataclass
class Opened:
    shop: str
    opened: int


def opened() -> pl.DataFrame:
    return pl.DataFrame({"shop": ["ulm", "rom"], "opened": [1998, 2004]})


def lookups(given: Given) -> Mapping[str, rh.DataStream]:
    sales = given.stream(SALES)
    towns = sales.lookup(TOWNS, on="shop", columns={"country": "country", "size": "people"})
    known = towns.with_columns(country=col("country").fill_null("?"))
    per_country = known.key_by("country").window(rh.Tumbling("10s")).aggregate(n=rh.agg.count())
    owned = sales.lookup(
        MemoryLookup(["town", "user"], OWNERS),
        on=("shop", "user"),
        how="inner",
        cache_for="1m",
        cache_keys=3,
    )
    since = sales.lookup(rh.lookup_table(opened(), key="shop"), on="shop", how="inner")
    loaded = rh.lookup_table(opened, key="shop", schema=Opened, reload_every="1h")
    return {
        "towns": towns.select("n", "country", "size"),
        "owners": owned.select("n", "owner"),
        "since": since.select("n", "opened"),
        "loaded": sales.lookup(loaded, on="shop").select("n", "opened"),
        "counted": per_country.select("country", "n"),
    }


def lookups_golden() -> Mapping[str, Golden]:
    sales = frame(SALES)
    towns = pl.DataFrame(TOWNS.rows).rename({"people": "size"})
    owners = pl.DataFrame(OWNERS).rename({"town": "shop"})
    country = {row["shop"]: row["country"] for row in TOWNS.rows}
    rows = [{**row, "country": country.get(row["shop"], "?")} for row in arrived(SALES)]
    return {
        "towns": sales.join(towns, on="shop", how="left").select("n", "country", "size"),
        "owners": sales.join(owners, on=["shop", "user"]).select("n", "owner"),
        "since": sales.join(opened(), on="shop").select("n", "opened"),
        "loaded": sales.join(opened(), on="shop", how="left").select("n", "opened"),
        "counted": [
            {"country": of, "n": len(found)}
            for (of, _), found in by_window(rows, ["country"], 10_000)[0].items()
        ],
    }


PROGRAMS = (Program("lookups", lookups, lookups_golden),)
